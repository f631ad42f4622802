// SPDX-License-Identifier: GPL-2.0
//! What `/proc/<pid>/fdinfo` tells of an open DRM file, after the lines that DRM itself prints.

use kernel::{fmt, prelude::*, str::CString};

use crate::{
    ffi,
    kern::drm::{file, DrmDriver},
};

/// Where the lines go.
pub(crate) struct FdinfoPrinter(*mut ffi::drm_printer);

impl FdinfoPrinter {
    /// Prints one line, its end among it. Left out when memory is short.
    pub(crate) fn line(&mut self, args: fmt::Arguments<'_>) {
        if let Ok(text) = CString::try_from_fmt(args) {
            // SAFETY: The printer is valid while `show_callback` runs, and the text is a string.
            unsafe { ffi::drm_puts(self.0, text.as_char_ptr()) };
        }
    }
}

/// `drm_driver::show_fdinfo`.
///
/// # Safety
///
/// DRM calls it for an open file `raw` of a device of driver `D`, with a printer.
pub(super) unsafe extern "C" fn show_callback<D: DrmDriver>(
    printer: *mut ffi::drm_printer,
    raw: *mut ffi::drm_file,
) {
    // SAFETY: The file is one of that driver, and open while it is called.
    let file = unsafe { file::private::<D>(raw) };
    D::fdinfo(file, &mut FdinfoPrinter(printer));
}
