// SPDX-License-Identifier: GPL-2.0
//! The files, as the kernel's firmware loader finds them.

use kernel::device::Device;
use kernel::firmware::Firmware;
use kernel::prelude::*;

use hw::firmware::file::{Damage, File};
use hw::firmware::image::Image;
use hw::firmware::part::{Part, Source};
use hw::firmware::plan::Plan;

/// A file that could not be had: its name, and why.
pub(crate) struct Missing(pub(crate) &'static CStr, pub(crate) Error);

impl Missing {
    /// Tells the log, and gives the error.
    pub(crate) fn tell(self, dev: &Device) -> Error {
        let Self(name, error) = self;
        dev_err!(
            dev,
            "no firmware file {name}: {error:?}; the Debian package firmware-amd-graphics has it\n"
        );
        error
    }
}

/// All files of a GPU's firmware.
pub(crate) struct Files {
    plan: &'static Plan,
    files: KVec<(Source, Firmware)>,
}

impl Files {
    /// Asks for all of them, in order. The first that cannot be had. Sleeps.
    pub(crate) fn request(dev: &Device, plan: &'static Plan) -> Result<Self, Missing> {
        let mut files = KVec::new();
        for &(source, name) in plan.files {
            let missing = |error| Missing(name, error);
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

    /// The image of `part`. EINVAL if there is none, which [`Files::check`] tells.
    pub(crate) fn image(&self, part: Part) -> Result<Image<'_>> {
        self.find(part).map_err(|_| EINVAL)
    }

    fn find(&self, part: Part) -> Result<Image<'_>, Damage> {
        let source = part.source();
        let mut files = self.files.iter();
        let (_, file) = files
            .find(|(which, _)| *which == source)
            .ok_or(Damage::Missing(part))?;
        part.find(&File::new(file.data())?)
    }
}
