// SPDX-License-Identifier: GPL-2.0
//! A core dump of a GPU that has hung, as text. Each section begins with its name in brackets.

use core::fmt::{self, Write};

use kernel::prelude::*;

use super::tables::{self, Table};
use crate::gpu::Gpu;
use crate::health::WedgeReport;
use crate::ip::dump;
use crate::kern::coredump::DumpText;
use crate::kern::host;

/// Bytes of a dump. A line of a queue takes about a hundred.
const LARGEST: usize = 256 << 10;

const SECTIONS: [(&str, Table); 8] = [
    ("parameters", tables::parameters),
    ("objects", tables::objects),
    ("processes", tables::processes),
    ("clients", tables::clients),
    ("queues", tables::queues),
    ("vmids", tables::vmids),
    ("rings", tables::rings),
    ("registers", |gpu, f| dump::registers(&gpu.hw, f)),
];

/// A section about a GPU.
struct DumpSection<'a>(&'a Gpu, Table);

impl fmt::Display for DumpSection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.1)(self.0, f)
    }
}

/// Creates the dump of `gpu`, which `cause` has wedged. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn show(gpu: &Gpu, cause: &WedgeReport) -> Result {
    let mut text = DumpText::new(LARGEST)?;
    // Text that does not fit is cut off.
    let _ = write!(
        text,
        "rkfd\ncause: {cause}\nboot_ns: {}\ngpu: {}, gpu_id {}\n",
        host::boot_ns(),
        gpu.hw.asic.ids.name,
        gpu.hw.id.get()
    );
    for (name, section) in SECTIONS {
        let _ = write!(text, "\n[{name}]\n{}", DumpSection(gpu, section));
    }
    gpu.queues.faults.discard_dump();
    text.show(&gpu.hw.dev);
    Ok(())
}
