// SPDX-License-Identifier: GPL-2.0
//! The files, as the kernel's firmware loader finds them.

use kernel::device::Device;
use kernel::firmware::Firmware;
use kernel::prelude::*;

use hw::firmware::file::{FirmwareFile, FirmwareFileError};
use hw::firmware::image::FirmwareImage;
use hw::firmware::part::{FirmwarePart, FirmwareSource};
use hw::firmware::plan::FirmwarePlan;

/// A file that could not be had: its name, and why.
pub(crate) struct MissingFile(pub(crate) &'static CStr, pub(crate) Error);

impl MissingFile {
    /// Tells the log, and gives the error.
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
    /// Asks for all of them, in order. The first that cannot be had. Sleeps.
    pub(crate) fn request(dev: &Device, plan: &'static FirmwarePlan) -> Result<Self, MissingFile> {
        let mut files = KVec::new();
        for &(source, name) in plan.files {
            let missing = |error| MissingFile(name, error);
            let file = Firmware::request_nowarn(name, dev).map_err(missing)?;
            files
                .push((source, file), GFP_KERNEL)
                .map_err(|_| missing(ENOMEM))?;
        }
        Ok(Self { plan, files })
    }

    /// Looks whether everything is in them that is to be loaded. EINVAL if not: the log says what.
    pub(crate) fn check(&self, dev: &Device) -> Result {
        for (part, _) in self.plan.steps() {
            self.find(part).map_err(|damage| {
                let name = self.plan.file(part.source()).unwrap_or_default();
                dev_err!(dev, "firmware file {name}: {}\n", format_args!("{damage}"));
                EINVAL
            })?;
        }
        Ok(())
    }

    /// The image of `part`. EINVAL if there is none, which [`FirmwareFiles::check`] tells.
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
