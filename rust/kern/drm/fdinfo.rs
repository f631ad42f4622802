// SPDX-License-Identifier: GPL-2.0
//! The driver's lines in `/proc/<pid>/fdinfo` of an open DRM file, after those that DRM itself
//! prints.

use kernel::{fmt, prelude::*, str::CString};

use crate::{
    ffi,
    kern::drm::{file, DrmDriver},
};

/// The output of the lines.
pub(crate) struct FdinfoPrinter(*mut ffi::drm_printer);

impl FdinfoPrinter {
    /// Prints one line, which includes its line end. The line is left out when memory is short.
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
    // SAFETY: The file is one of that driver, and open during the call.
    let file = unsafe { file::private::<D>(raw) };
    D::fdinfo(file, &mut FdinfoPrinter(printer));
}
