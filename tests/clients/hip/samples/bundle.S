/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A code object (CODE) as clang bundles it for the HIP runtime (Clang's documentation, "Clang
 * Offload Bundler"): magic, count, and for each entry its place, its size and what it is for.
 * The first entry is the host's, and empty.
 */
	.macro	entry code, end, name
	.quad	\code - bundle, \end - \code, 2f - 1f
1:	.ascii	"\name"
2:
	.endm

	.data
bundle:
	.ascii	"__CLANG_OFFLOAD_BUNDLE__"
	.quad	2
	entry	device, device, "host-x86_64-unknown-linux--"
	entry	device, end, "hipv4-amdgcn-amd-amdhsa--gfx90a"
	.balign	4096
device:
	.incbin	CODE
end:
