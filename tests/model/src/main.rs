// SPDX-License-Identifier: GPL-2.0
//! Command line of the device model.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock, Weak};

use rkfd_model::asic::Asic;
use rkfd_model::board::{Board, UNIT};
use rkfd_model::function::Function;
use rkfd_model::gpu::Gpu;
use rkfd_model::layout::Layout;
use rkfd_model::psp::image::Signatures;
use rkfd_model::{control, server};

const USAGE: &str = "\
rkfd-model --socket PATH --control PATH [--asic CHIP] [--xccs NUMBER] [--harvested MASK] [--vram SIZE] [--bar0 SIZE] \
[--fb-base UNITS] [--hive NODE/NODES[:MIB]] [--hive-folder FOLDER] [--device ID] [--die NUMBER] [--pci PART ...] \
[--timing card|card=FACTOR] [--summary FILE] \
[--rom FILE] [--firmware START] [--any-signature] [--psp-fault FAULT ...] [--write-combined] \
[--unaligned-leaves] \
[--switch FOLDER] [--serial NUMBER] [--hostile SEED[,CLASS...]] [--freedoms FILE]

Serves a GPU over vfio-user at --socket until the client goes away, then prints a summary.
--asic: its chip, one of {CHIPS} (default: the first).
--xccs: how many XCCs it has, 1 (the default), 2, 4 or 8, with an AID for each two; of gfx942 only.
--harvested: XCCs that are fused off, a bit each, hexadecimal; not all of them.
--vram takes bytes, a multiple of 16M, with an optional suffix K, M or G (default: that of such a
board, 65520M for an MI210); --bar0 the size
of BAR0, a power of two (default: the smallest in which VRAM fits). --fb-base: where VRAM begins \
among the addresses of the
GPU, in units of 16 MiB (default 0x20000).
--hive: XGMI joins it to others: its number, how many they are, and the size of a segment \
(default: 64 GiB). They are there with --hive-folder, where they find one another. --device: PCI device id, hexadecimal (default: 740f, an MI210); \
--die: its number in the package.
--pci: a part that the PCI function has beside those of the default, or lacks with no- before its \
name: {PARTS}.
--rom is what the board's flash chip holds (default: blank).
--firmware: how far the board's firmware has come: warm (the default), cold, dirty, unposted, \
stuck, open. --any-signature: images
need not be signed as board-files signs them, as the vendor's are not. --psp-fault: what the PSP
gets wrong: no-flash, no-bootloader, no-secure-os, no-post, bootloader=PART:CODE, \
ring=CODE, status=N:CODE, no-fence=N.
--write-combined: pages of host memory in VMID 0 need not snoop the CPU's caches, as the driver maps
them write-combined.
--unaligned-leaves: leaves of page directories may begin at any page, as amdgpu's do.
--switch: where the devices behind one PCI Express switch find one another, which reach \
each other's VRAM.
--timing: engines take at least the times of a card's (by default what the host needs), or that \
times FACTOR.
--hostile SEED[,CLASS[=LEVEL]...][,some][,only=SITE:KEY:N...]: takes freedoms that hardware has, of the
classes ih, hub, hdp, sdma, wave, start (default: all), at level 1 (seldom) or 2 (often, the
default); with only=, none but these; with some, each class or not, as the seed has it.
--freedoms FILE: where the last ones are written at the end.
--serial: the number that the board's maker gave it, hexadecimal.
Exit status: 0 when the client went away, 2 when the driver did what the hardware does not define.";

/// Exit status of a model error.
const MODEL_ERROR: i32 = 2;

struct Options {
    socket: PathBuf,
    control: PathBuf,
    board: Board,
    summary: Option<PathBuf>,
    freedoms: Option<PathBuf>,
}

enum Command {
    Serve(Box<Options>),
    Help,
}

fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = digits
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes >= UNIT && bytes % UNIT == 0 => Ok(bytes),
        _ => Err(format!("{text}: not a multiple of 16M")),
    }
}

fn bar_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        bytes if bytes.is_power_of_two() => Ok(bytes),
        _ => Err(format!("{text}: not a power of two")),
    }
}

fn hexadecimal<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let number = u64::from_str_radix(digits, 16).ok();
    number
        .and_then(|number| number.try_into().ok())
        .ok_or_else(|| format!("{text}: no hexadecimal number"))
}

fn usage() -> String {
    USAGE
        .replace("{PARTS}", Function::NAMES)
        .replace("{CHIPS}", Asic::NAMES)
}

fn parse() -> Result<Command, lexopt::Error> {
    use lexopt::prelude::*;
    let (mut socket, mut control, mut summary) = (None, None, None);
    let mut board = Board::new(0);
    let (mut vram, mut bar0, mut freedoms) = (None, None, None);
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("socket") => socket = Some(PathBuf::from(parser.value()?)),
            Long("control") => control = Some(PathBuf::from(parser.value()?)),
            Long("summary") => summary = Some(PathBuf::from(parser.value()?)),
            Long("asic") => board.asic = Asic::named(&parser.value()?.string()?)?,
            Long("xccs") => board.layout.xccs = Layout::parse(&parser.value()?.string()?)?,
            Long("harvested") => board.layout.harvested = hexadecimal(&parser.value()?.string()?)?,
            Long("vram") => vram = Some(size(&parser.value()?.string()?)?),
            Long("bar0") => bar0 = Some(bar_size(&parser.value()?.string()?)?),
            Long("fb-base") => board.fb_base = hexadecimal(&parser.value()?.string()?)?,
            Long("hive") => board.hive = parser.value()?.string()?.parse()?,
            Long("hive-folder") => board.hive_folder = Some(PathBuf::from(parser.value()?)),
            Long("die") => board.die = hexadecimal(&parser.value()?.string()?)?,
            Long("device") => {
                board.function.device = Some(hexadecimal(&parser.value()?.string()?)?)
            }
            Long("pci") => board.function.change(&parser.value()?.string()?)?,
            Long("rom") => {
                let path = PathBuf::from(parser.value()?);
                board.rom =
                    std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            Long("switch") => board.switch = Some(PathBuf::from(parser.value()?)),
            Long("serial") => board.serial = hexadecimal(&parser.value()?.string()?)?,
            Long("timing") => board.timing = Some(parser.value()?.string()?.parse()?),
            Long("firmware") => board.start = parser.value()?.string()?.parse()?,
            Long("write-combined") => board.write_combined = true,
            Long("unaligned-leaves") => board.unaligned_leaves = true,
            Long("any-signature") => board.signatures = Signatures::Any,
            Long("hostile") => board.hostile = Some(parser.value()?.string()?.parse()?),
            Long("freedoms") => freedoms = Some(PathBuf::from(parser.value()?)),
            Long("psp-fault") => board.faults.add(&parser.value()?.string()?)?,
            Long("help") | Short('h') => return Ok(Command::Help),
            _ => return Err(arg.unexpected()),
        }
    }
    if board.layout.mask() == 0 {
        return Err("--harvested leaves no XCC".into());
    }
    if board.layout.xccs > 1 && board.asic.discovery.is_none() {
        return Err("--xccs is of gfx942".into());
    }
    board.vram = vram.unwrap_or(board.asic.vram << 20);
    board.bar0 = bar0.unwrap_or_else(|| board.vram.next_power_of_two());
    Ok(Command::Serve(Box::new(Options {
        socket: socket.ok_or("--socket is missing")?,
        control: control.ok_or("--control is missing")?,
        board,
        summary,
        freedoms,
    })))
}

/// Errors of the vfio-user library go to standard error.
struct Log;

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        eprintln!("rkfd-model: vfio-user: {}", record.args());
    }
    fn flush(&self) {}
}

/// Writes the last freedoms that were taken.
fn write_freedoms(gpu: &Gpu, file: Option<&Path>) {
    if let Some(file) = file {
        if let Err(error) = std::fs::write(file, gpu.fate.trace()) {
            eprintln!("rkfd-model: {}: {error}", file.display());
        }
    }
}

fn serve(options: Options) -> Result<(), String> {
    // What ends the run needs the device, which is made with it.
    let this: Arc<OnceLock<Weak<Gpu>>> = Arc::default();
    let (of, file) = (this.clone(), options.freedoms.clone());
    let gpu = Gpu::new(options.board, move |error| {
        eprintln!("rkfd-model: error: {error}");
        if let Some(gpu) = of.get().and_then(Weak::upgrade) {
            write_freedoms(&gpu, file.as_deref());
        }
        std::process::exit(MODEL_ERROR);
    })
    .map_err(|error| format!("VRAM: {error}"))?;
    gpu.power_up();
    let gpu = Arc::new(gpu);
    let _ = this.set(Arc::downgrade(&gpu));
    for path in [&options.socket, &options.control] {
        // Left over from a run that was killed.
        let _ = std::fs::remove_file(path);
    }
    control::listen(&gpu, &options.control)
        .map_err(|error| format!("{}: {error}", options.control.display()))?;
    gpu.start();
    let served = server::serve(&gpu, &options.socket);
    let _ = std::fs::remove_file(&options.control);
    write_freedoms(&gpu, options.freedoms.as_deref());
    // The reader of the summary may be gone too.
    let _ = std::io::stdout().write_all(gpu.summary.text().as_bytes());
    for (site, count) in gpu.fate.counts() {
        let _ = writeln!(std::io::stdout(), "  hostile {site}: {count}");
    }
    if let Some(path) = &options.summary {
        let mut summary = gpu.json();
        summary["firmware"] = gpu.psp.json();
        std::fs::write(path, format!("{summary}\n"))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    served.map_err(|error| format!("{}: {error}", options.socket.display()))
}

fn main() -> ExitCode {
    if log::set_logger(&Log).is_ok() {
        log::set_max_level(log::LevelFilter::Error);
    }
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("rkfd-model: error: internal: {panic}");
        std::process::exit(MODEL_ERROR);
    }));
    let result = match parse() {
        Ok(Command::Serve(options)) => serve(*options),
        Ok(Command::Help) => {
            println!("{}", usage());
            Ok(())
        }
        Err(error) => Err(format!("{error}\n{}", usage())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rkfd-model: {error}");
            ExitCode::FAILURE
        }
    }
}
