// SPDX-License-Identifier: GPL-2.0
//! Raw C bindings from bindgen: what the kernel crate lacks, in addition to all that it has. Only
//! `kern` may use them.

#[allow(
    clippy::all,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    reason = "generated: what the headers name, in C's manner"
)]
mod generated {
    // Names generated here shadow those from the glob import.
    pub(crate) use kernel::bindings::*;
    use kernel::ffi;
    use pin_init::MaybeZeroable;

    include!(concat!(env!("RKFD_OBJ"), "/ffi/bindings_generated.rs"));
}

pub(crate) use generated::*;
