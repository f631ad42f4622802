// SPDX-License-Identifier: GPL-2.0
//! The firmware files, by the kernel's firmware loader.

use kernel::device::Device;
use kernel::firmware::Firmware;
use kernel::prelude::*;

use hw::firmware::file::{FirmwareFile, FirmwareFileError};
use hw::firmware::image::FirmwareImage;
use hw::firmware::part::{FirmwarePart, FirmwareSource};
use hw::firmware::plan::FirmwarePlan;

/// A file that is missing: its name and the error.
pub(crate) struct MissingFile(pub(crate) &'static CStr, pub(crate) Error);

impl MissingFile {
    /// Logs the file and returns the error.
    pub(crate) fn log_error(self, dev: &Device) -> Error {
        let Self(name, error) = self;
        dev_err!(
            dev,
            "no firmware file {name}: {error:?}; the Debian package firmware-amd-graphics has it\n"
        );
        error
    }
}

/// All files of a GPU's firmware.
pub(crate) struct FirmwareFiles {
    plan: &'static FirmwarePlan,
    files: KVec<(FirmwareSource, Firmware)>,
}

impl FirmwareFiles {
    /// Requests all files, in order, and that of trusted applications if the GPU is `in_hive`,
    /// which may be missing. May sleep.
    ///
    /// # Errors
    ///
    /// The first file that cannot be had.
    pub(crate) fn request(
        dev: &Device,
        plan: &'static FirmwarePlan,
        in_hive: bool,
    ) -> Result<Self, MissingFile> {
        let mut files = KVec::new();
        for &(source, name) in plan.files {
            let missing = |error| MissingFile(name, error);
            let file = Firmware::request_nowarn(name, dev).map_err(missing)?;
            files
                .push((source, file), GFP_KERNEL)
                .map_err(|_| missing(ENOMEM))?;
        }
        if in_hive {
            let name = plan.applications;
            if let Ok(file) = Firmware::request_nowarn(name, dev) {
                let pushed = files.push((FirmwareSource::Ta, file), GFP_KERNEL);
                pushed.map_err(|_| MissingFile(name, ENOMEM))?;
            }
        }
        Ok(Self { plan, files })
    }

    /// Checks that the files contain every image that is to be loaded.
    ///
    /// # Errors
    ///
    /// `EINVAL` if one is missing, which the log names.
    pub(crate) fn check(&self, dev: &Device) -> Result {
        for part in self.plan.parts() {
            self.find(part).map_err(|damage| {
                let name = self.plan.file(part.source()).unwrap_or_default();
                dev_err!(dev, "firmware file {name}: {}\n", format_args!("{damage}"));
                EINVAL
            })?;
        }
        Ok(())
    }

    /// The image of `part`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none, which [`FirmwareFiles::check`] reports.
    pub(crate) fn image(&self, part: FirmwarePart) -> Result<FirmwareImage<'_>> {
        self.find(part).map_err(|_| EINVAL)
    }

    fn find(&self, part: FirmwarePart) -> Result<FirmwareImage<'_>, FirmwareFileError> {
        let source = part.source();
        let mut files = self.files.iter();
        let (_, file) = files
            .find(|(which, _)| *which == source)
            .ok_or(FirmwareFileError::Missing(part))?;
        part.find(&FirmwareFile::new(file.data())?)
    }
}
