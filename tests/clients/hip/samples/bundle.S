/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code objects of the chips (CODE_...) as clang bundles them for the HIP runtime (Clang's
 * documentation, "Clang Offload Bundler"): magic, count, and for each entry its place, its size and
 * what it is for. The first entry is the host's, and empty.
 */
	.macro	entry code, end, name
	.quad	\code - bundle, \end - \code, 2f - 1f
1:	.ascii	"\name"
2:
	.endm

	.data
bundle:
	.ascii	"__CLANG_OFFLOAD_BUNDLE__"
	.quad	3
	entry	gfx90a, gfx90a, "host-x86_64-unknown-linux--"
	entry	gfx90a, gfx90a_end, "hipv4-amdgcn-amd-amdhsa--gfx90a"
	entry	gfx942, gfx942_end, "hipv4-amdgcn-amd-amdhsa--gfx942"
	.balign	4096
gfx90a:
	.incbin	CODE_gfx90a
gfx90a_end:
	.balign	4096
gfx942:
	.incbin	CODE_gfx942
gfx942_end:
