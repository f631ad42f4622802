# SPDX-License-Identifier: GPL-2.0
# What a guest run needs, and what that needs. Each target is a script, which knows whether there is
# something to do. Called by scripts/steps, which has made the sysroot.
#   KERNEL  stock, debug, or a suite's    SUITES  sets of ROCm clients    FORM  of scripts/suite

KERNEL ?= stock
FORM ?= disk

# run SCRIPT,ARGUMENTS: file 3 is for messages.
run = @"$$RKFD_TOP/scripts/$1" $2 2>&3 || { : >"$$RKFD_STEPS/failed"; exit 1; }

prepare: image model $(if $(SUITES),clients)

unpacked:
	$(call run,kernel,stock unpack)
kernel: unpacked
	$(call run,kernel,$(KERNEL))
module: kernel
	$(call run,module,$(KERNEL))
programs: unpacked
	$(call run,image,$(KERNEL) programs)
image: module programs
	$(call run,image,$(KERNEL) pack)

model:
	$(call run,part,model)
runner:
	$(call run,part,runner)
trial: runner unpacked
	$(call run,part,trial)

roots := $(SUITES:%=root-%)
$(roots): root-%:
	$(call run,suite,$(FORM) $* >/dev/null)
# The headers and the libraries of device code that all are built with. Those of the kernel's
# selftests come with its sources.
headers:
	$(call run,suite,root trixie)
clients: headers unpacked $(roots)
	$(call run,suite,programs)

# The demo: the first guest starts while parts of the second one are still being built.
demo: first second
first: image model trial
	$(call run,part,first)
second: first clients
	$(call run,part,second)

.PHONY: prepare unpacked kernel module programs image model runner trial headers clients demo \
	first second $(roots)
