// SPDX-License-Identifier: GPL-2.0
//! The program as seen by QEMU and by a test: a vfio-user socket, a control socket, an exit status.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX,
    VFIO_PCI_BAR2_REGION_INDEX, VFIO_PCI_BAR4_REGION_INDEX, VFIO_PCI_BAR5_REGION_INDEX,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_ROM_REGION_INDEX,
};
use vfio_user::Client;

const RAM: u64 = 0x1000_0000;
const RAM_SIZE: u64 = 1 << 20;

struct Model {
    child: Child,
    dir: PathBuf,
    client: Client,
}

fn eventually<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = get() {
            return value;
        }
        assert!(Instant::now() < end, "{what}: not within 60 s");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Model {
    fn start(name: &str) -> Model {
        Model::with(name, &["--vram", "64M"])
    }

    fn with(name: &str, options: &[&str]) -> Model {
        let dir = std::env::temp_dir().join(format!("rkfd-model-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_rkfd-model"))
            .arg("--socket")
            .arg(dir.join("socket"))
            .arg("--control")
            .arg(dir.join("control"))
            .arg("--summary")
            .arg(dir.join("summary"))
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let client = eventually("socket", || Client::new(&dir.join("socket")).ok());
        Model { child, dir, client }
    }

    fn write(&mut self, byte: u64, value: u32) {
        let data = value.to_le_bytes();
        self.client
            .region_write(VFIO_PCI_BAR5_REGION_INDEX, byte, &data)
            .unwrap();
    }

    fn read(&mut self, byte: u64) -> u32 {
        let mut data = [0; 4];
        self.client
            .region_read(VFIO_PCI_BAR5_REGION_INDEX, byte, &mut data)
            .unwrap();
        u32::from_le_bytes(data)
    }

    fn vram(&self) -> &File {
        let region = self.client.region(VFIO_PCI_BAR0_REGION_INDEX).unwrap();
        assert_eq!(region.size, 64 << 20);
        region.file_offset.as_ref().unwrap().file()
    }

    /// The client goes away.
    fn finish(self) -> (Output, PathBuf) {
        self.client.shutdown().unwrap();
        drop(self.client);
        (self.child.wait_with_output().unwrap(), self.dir)
    }
}

fn ask(dir: &Path, commands: &[&str]) -> Vec<String> {
    let mut stream = UnixStream::connect(dir.join("control")).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    commands
        .iter()
        .map(|command| {
            stream.write_all(format!("{command}\n").as_bytes()).unwrap();
            answers.next().unwrap().unwrap()
        })
        .collect()
}

#[test]
fn a_copy_from_vram_to_ram_with_an_interrupt() {
    let mut model = Model::start("copy");
    let mut id = [0; 4];
    model
        .client
        .region_read(VFIO_PCI_CONFIG_REGION_INDEX, 0, &mut id)
        .unwrap();
    assert_eq!(u32::from_le_bytes(id), 0x740f_1002);
    assert_eq!(model.read(0x378c), 64);
    model
        .client
        .region_write(VFIO_PCI_CONFIG_REGION_INDEX, 4, &[6, 0])
        .unwrap();
    // Plain files do for guest RAM and the eventfd.
    let file = |name: &str| {
        File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(model.dir.join(name))
            .unwrap()
    };
    let (ram, msi) = (file("ram"), file("msi"));
    ram.set_len(RAM_SIZE).unwrap();
    model
        .client
        .dma_map(0, RAM, RAM_SIZE, ram.as_raw_fd())
        .unwrap();
    let flags = VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_EVENTFD;
    model
        .client
        .set_irqs(VFIO_PCI_MSI_IRQ_INDEX, flags, 0, 1, &[msi.as_raw_fd()])
        .unwrap();
    // GART of MMHUB: one page at GPU address 0, table at VRAM 0x10000.
    let pte = RAM | 0x67;
    model
        .vram()
        .write_all_at(&pte.to_le_bytes(), 0x1_0000)
        .unwrap();
    let dword = |dword: u64| dword * 4;
    for (register, value) in [
        // BAR0 leads to VRAM.
        (0xf62, 2),
        (0x1ac2b, 0x1_0001),
        (0x1abc0, 1),
        // Interrupt ring at RAM + 0x1000, its write pointer at RAM + 0x2000.
        (0x122d, 1 << 4),
        (0x1121, ((RAM + 0x1000) >> 8) as u32),
        (0x1126, RAM as u32 + 0x2000),
        (0x1120, 1 | 8 << 1 | 1 << 8 | 1 << 17 | 1 << 28),
        (0xde0, 1),
        (0xef0, 0x200 << 2 | 20 << 16),
        // SDMA0: traps on, ring of 1 KiB at the start of VRAM, doorbell 0x200.
        (0x127c, 1),
        (0x12e1, 0),
        (0x12e2, 2),
        (0x130b, 0x200 << 2),
        (0x12f2, 1 << 28),
        (0x12e0, 1 | 8 << 1),
        (0x128a, 0),
    ] {
        model.write(dword(register), value);
    }
    model.vram().write_all_at(b"hello", 0x2000).unwrap();
    let words: [u32; 9] = [1, 4, 0, 0x2000, 0x200, 0x80, 0, 6, 7];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    model.vram().write_all_at(&bytes, 0).unwrap();
    model
        .client
        .region_write(VFIO_PCI_BAR2_REGION_INDEX, 0x800, &36u64.to_le_bytes())
        .unwrap();
    eventually("MSI", || (msi.metadata().unwrap().len() == 8).then_some(()));
    let mut got = [0; 5];
    ram.read_exact_at(&mut got, 0x80).unwrap();
    assert_eq!(&got, b"hello");
    let mut iv = [0; 4];
    ram.read_exact_at(&mut iv, 0x1000).unwrap();
    assert_eq!(iv, [8, 224, 0, 0x80]);

    let answers = ask(&model.dir, &["pause 0", "resume 0", "pause 9", "summary"]);
    assert_eq!(answers[..2], ["ok", "ok"]);
    assert!(answers[2].starts_with("error: "));
    let summary: serde_json::Value =
        serde_json::from_str(answers[3].strip_prefix("ok ").unwrap()).unwrap();
    assert_eq!(summary["packets"]["COPY_LINEAR"], 1);

    let (output, dir) = model.finish();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("COPY_LINEAR 1"), "{text}");
    let file = std::fs::read_to_string(dir.join("summary")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&file).unwrap();
    assert_eq!(summary["bytes"]["copied"], 5);
    assert_eq!(summary["interrupts"]["msis"], 1);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_card_by_default() {
    let image = std::env::temp_dir().join(format!("rkfd-model-{}.rom", std::process::id()));
    std::fs::write(&image, [0x55, 0xaa, 8]).unwrap();
    let mut model = Model::with("card", &["--rom", image.to_str().unwrap()]);
    let size = |region| model.client.region(region).unwrap().size;
    assert_eq!(size(VFIO_PCI_BAR0_REGION_INDEX), 64 << 30);
    assert_eq!(size(VFIO_PCI_BAR4_REGION_INDEX), 256);
    assert_eq!(size(VFIO_PCI_ROM_REGION_INDEX), 128 << 10);
    // VRAM, in MiB and as a range of addresses.
    let read = |model: &mut Model, dword: u64| model.read(dword * 4);
    assert_eq!(read(&mut model, 0xde3), 65_520);
    assert_eq!(read(&mut model, 0x1acc0), 0x2_0000);
    assert_eq!(read(&mut model, 0x1acc1), 0x2_0ffe);
    // The last bytes of BAR0 are there, and no part of VRAM.
    let region = model.client.region(VFIO_PCI_BAR0_REGION_INDEX).unwrap();
    let file = region.file_offset.as_ref().unwrap().file();
    assert_eq!(file.metadata().unwrap().len(), 64 << 30);
    // The first registers by I/O, and the pending bits of MSI-X, among which is no register.
    let index = 0x8000_1000u32.to_le_bytes();
    let mut data = [0; 4];
    let client = &mut model.client;
    client
        .region_write(VFIO_PCI_BAR4_REGION_INDEX, 0, &index)
        .unwrap();
    client
        .region_read(VFIO_PCI_BAR5_REGION_INDEX, 0, &mut data)
        .unwrap();
    assert_eq!(data, index);
    client
        .region_read(VFIO_PCI_BAR5_REGION_INDEX, 0x4_3000, &mut data)
        .unwrap();
    assert_eq!(data, [0; 4]);
    client
        .region_read(VFIO_PCI_ROM_REGION_INDEX, 0, &mut data)
        .unwrap();
    assert_eq!(data, [0x55, 0xaa, 8, 0xff]);
    let (output, dir) = model.finish();
    assert_eq!(output.status.code(), Some(0));
    std::fs::remove_file(image).unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_unknown_register_ends_the_run() {
    let mut model = Model::start("unknown");
    let mut data = [0; 4];
    let answer = model
        .client
        .region_read(VFIO_PCI_BAR5_REGION_INDEX, 0x48d0, &mut data);
    assert!(answer.is_err());
    let output = model.child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "rkfd-model: error: read of unknown register at byte 0x048d0 (dword 0x01234)\n"
    );
    std::fs::remove_dir_all(model.dir).unwrap();
}

#[test]
fn bad_command_lines() {
    for args in [
        &["--vram", "3"][..],
        &["--bar0", "3G"],
        &["--pci", "no-bar"],
        &["--fb-base", "x"],
        &["--socket"],
        &["--nonsense"],
        &[],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_rkfd-model"))
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(!output.stderr.is_empty());
    }
}
