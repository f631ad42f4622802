// SPDX-License-Identifier: GPL-2.0
//! Command line of the device model.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use rkfd_model::board::Board;
use rkfd_model::gpu::Gpu;
use rkfd_model::psp::image::Signatures;
use rkfd_model::{control, server};

const USAGE: &str = "\
rkfd-model --socket PATH --control PATH [--vram SIZE] [--bar0 SIZE] [--summary FILE] \
[--rom FILE] [--firmware START] [--any-signature] [--psp-fault FAULT ...] \
[--switch FOLDER] [--serial NUMBER]

Serves a gfx90a GPU over vfio-user at --socket until the client goes away, then prints a summary.
--vram takes a power of two of bytes with an optional suffix K, M or G (default 4G); \
--bar0 how many of them the host sees
(default: all).
--rom is what the board's flash chip holds (default: blank).
--firmware: how far the board's firmware has come: warm (the default), cold, dirty, unposted, \
stuck, open. --any-signature: images
need not be signed as board-files signs them, as the vendor's are not. --psp-fault: what the PSP
gets wrong: no-flash, no-bootloader, no-secure-os, no-post, bootloader=PART:CODE, \
ring=CODE, status=N:CODE, no-fence=N.
--switch: where the devices behind one PCI Express switch find one another, which reach \
each other's VRAM.
--serial: the number that the board's maker gave it, hexadecimal.
Exit status: 0 when the client went away, 2 when the driver did what the hardware does not define.";

/// Exit status of a model error.
const MODEL_ERROR: i32 = 2;

struct Options {
    socket: PathBuf,
    control: PathBuf,
    board: Board,
    summary: Option<PathBuf>,
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
        // BAR0 is sized in powers of two, the frame buffer's registers in units of 16 MiB.
        Some(bytes) if bytes.is_power_of_two() && bytes >= 16 << 20 => Ok(bytes),
        _ => Err(format!("{text}: not a power of two of at least 16M")),
    }
}

fn parse() -> Result<Command, lexopt::Error> {
    use lexopt::prelude::*;
    let (mut socket, mut control, mut summary) = (None, None, None);
    let mut board = Board::new(4 << 30);
    let mut bar0 = None;
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("socket") => socket = Some(PathBuf::from(parser.value()?)),
            Long("control") => control = Some(PathBuf::from(parser.value()?)),
            Long("summary") => summary = Some(PathBuf::from(parser.value()?)),
            Long("vram") => board.vram = size(&parser.value()?.string()?)?,
            Long("bar0") => bar0 = Some(size(&parser.value()?.string()?)?),
            Long("rom") => {
                let path = PathBuf::from(parser.value()?);
                board.rom =
                    std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            Long("switch") => board.switch = Some(PathBuf::from(parser.value()?)),
            Long("serial") => {
                let text = parser.value()?.string()?;
                board.serial = u64::from_str_radix(&text, 16)
                    .map_err(|_| format!("{text}: no hexadecimal number"))?;
            }
            Long("firmware") => board.start = parser.value()?.string()?.parse()?,
            Long("any-signature") => board.signatures = Signatures::Any,
            Long("psp-fault") => board.faults.add(&parser.value()?.string()?)?,
            Long("help") | Short('h') => return Ok(Command::Help),
            _ => return Err(arg.unexpected()),
        }
    }
    board.bar0 = bar0.unwrap_or(board.vram);
    Ok(Command::Serve(Box::new(Options {
        socket: socket.ok_or("--socket is missing")?,
        control: control.ok_or("--control is missing")?,
        board,
        summary,
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

fn serve(options: Options) -> Result<(), String> {
    let gpu = Gpu::new(options.board, |error| {
        eprintln!("rkfd-model: error: {error}");
        std::process::exit(MODEL_ERROR);
    })
    .map_err(|error| format!("VRAM: {error}"))?;
    gpu.bus.fill();
    let gpu = Arc::new(gpu);
    for path in [&options.socket, &options.control] {
        // Left over from a run that was killed.
        let _ = std::fs::remove_file(path);
    }
    control::listen(&gpu, &options.control)
        .map_err(|error| format!("{}: {error}", options.control.display()))?;
    gpu.start();
    let served = server::serve(&gpu, &options.socket);
    let _ = std::fs::remove_file(&options.control);
    // The reader of the summary may be gone too.
    let _ = std::io::stdout().write_all(gpu.summary.text().as_bytes());
    if let Some(path) = &options.summary {
        let mut summary = gpu.summary.json();
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
            println!("{USAGE}");
            Ok(())
        }
        Err(error) => Err(format!("{error}\n{USAGE}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rkfd-model: {error}");
            ExitCode::FAILURE
        }
    }
}
