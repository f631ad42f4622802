# SPDX-License-Identifier: GPL-2.0
# The targets of this tree. `make help` prints the lines marked with two hashes, below the headings
# marked with two hashes alone.

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p; s/^## \(.*\)/\n\1/p' $(MAKEFILE_LIST) | expand -t 20
	@echo; echo "What guest, vm and bench take (KERNEL=debug, PARAMS=, MEMORY=, ...): Documentation/testing.md"

## Try it
demo: ## from nothing to copies over an SDMA queue in the guest; ASIC=gfx942 XCCS=8
	@scripts/demo

guest: ## run CMD='...' in the guest, with the files and folders of ADD='...' beside it
	@scripts/guest

vm: ## a shell in the guest, with the module loaded
	@scripts/shell

## Build
ifdef KDIR
modules: ## rust/rkfd.ko for Debian's kernel; KDIR=TREE for a prepared kernel tree of your own
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules
else
modules:
	@scripts/module stock
endif

model: ## the device model
	@scripts/cargo build --release -p rkfd-model

deb: ## Debian packages of the module, for Debian's kernel of the sysroot, and of its tests
	@scripts/deb

sysroot: ## the sysroot, the prepared kernel tree and what else the cache holds for builds
	@scripts/kernel stock

debug-kernel: ## the kernel of test-debug (about 15 minutes, once)
	@scripts/kernel debug

clean: ## remove what this checkout built; ALL=1 removes the cache, sysroots and kernels too
	@scripts/clean

times: ## the steps of the last build or demo: start, end, CPU time
	@scripts/times

## Test a change
check: ## formatting, lints, layering, headers; that names and claims of the pages are so; messages of commits
	@scripts/check

test: ## all tests: host and guest
	@scripts/test stock

test-debug: ## the guest tests on a kernel with KASAN, lockdep, kmemleak and more
	@scripts/test debug

test-long: ## guest tests that make test has no time for; SUITE_KERNEL=forky some on the kernel of that suite (sid, experimental, trixie-backports)
	@$(if $(SUITE_KERNEL),scripts/kernels $(SUITE_KERNEL),scripts/test long)

selftests: ## tests/kselftest as a folder of the kernel's own selftests; TESTS='version queue' chooses
	@scripts/selftests $(TESTS)

coverage: ## the lines of the module that make test and make test-debug run, by file; DOCUMENT=y writes the table of coverage.md
	@scripts/coverage

fuzz: ## a million calls at random, and 100,000 on the debug kernel; CALLS=, SEED= and KERNEL= choose
	@scripts/fuzz

## Test with what people run
kfdtest: ## KFDTest in the guest, compared with tests/kfdtest/list; FILTER='KFDQMTest.*:KFDEventTest.*' for some cases, RKFD_TIMEOUT=300 on a busy machine
	@CMD="RKFD_TIMEOUT=$$RKFD_TIMEOUT /rkfd/kfdtest/run.sh '$(FILTER)'" KFDTEST=y ALLOW_AS=kfdtest TIMEOUT=$${TIMEOUT:-5000} MEMORY=$${MEMORY:-12G} scripts/guest

criu: ## CRIU saves and restores programs in the middle of a kernel
	@CRIU=y CMD=criu.sh scripts/guest

llama: ## llama.cpp generates in the guest, by HIP as by the processor; OPERATIONS='ADD MUL_MAT' are compared, too
	@scripts/llama

clients: ## ROCm's libraries of Debian, by their own tests; CLIENTS='rocrand rccl' chooses, ASIC=, DRIVER=amdgpu; DOCUMENT=y writes the table of clients.md
	@scripts/clients $(CLIENTS)

corpus: ## the kernels of the ISA corpus (CORPUS=FOLDER) in the model's shader core, against numpy and the corpus' interpreter; LEVELS='0 3' ONLY=KERNEL PART=gfx942
	@scripts/corpus $(LEVELS)

## Measure and compare
bench: ## measure in the guest
	@scripts/bench

bench-amdgpu: ## the same calls on rkfd and on Debian's amdgpu, side by side (CLOCK=instructions or time: only so)
	@scripts/bench-amdgpu $(CLOCK)

state: ## what rkfd and Debian's amdgpu set in the same device, compared; ASIC=gfx942
	@scripts/state

reference: ## what guests say of their GPUs, compared with what real cards say: each difference, with its reason
	@scripts/reference

sweep: ## the ways of HIP's copies around each threshold, with rkfd and with amdgpu; DOCUMENT=y writes the table of hipmemcpy.md
	@scripts/sweep

timeline: ## two HIP processes in the guest as a trace for Perfetto and pictures; DOCUMENT=y renews those in Documentation/
	@scripts/timeline

## Read and edit the source
rust-project: ## rust-project.json, for rust-analyzer on the module
	@scripts/rust-project

rustdoc: ## the documentation of hw and the module, private items included, in target/doc
	@scripts/rustdoc

.PHONY: help demo guest vm modules model deb sysroot debug-kernel clean times check test test-debug test-long selftests coverage fuzz kfdtest criu llama clients corpus bench bench-amdgpu state reference sweep timeline rust-project rustdoc
