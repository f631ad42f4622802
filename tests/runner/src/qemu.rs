// SPDX-License-Identifier: GPL-2.0
//! The command line of QEMU.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::fs::{memfd_create, MemfdFlags};

use crate::machine::{Machine, Model};
use crate::notes::Notes;
use crate::process::{Process, POLL};
use crate::sysroot::{random_word, text_of, Sysroot};

/// Emulated, string instructions go byte by byte: memory is cleared ten times as fast without
/// those that are meant to be the fastest. Without LA57, since the kernel forgets for a moment of
/// its boot that it has it, which KASAN reports when an interrupt comes just then.
const EMULATED: &str = "max,-erms,-fsrm,-fsrs,-fzrm,-la57";

/// On a busy machine the kernel finds too few ticks of the timer and takes it for broken, unless
/// told not to count.
const COMMAND_LINE: &str = "console=ttyS0 panic=-1 no_timer_check oops=panic log_buf_len=16M \
    printk.devkmsg=on random.trust_cpu=on";

/// An emulated processor may stand still for as long as the host runs others: the detectors of
/// stalls and lockups wait six times as long as usual. With KVM they have the kernel's own times.
const EMULATED_COMMAND_LINE: &str = " rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60";

/// MT/s of the memory's modules, as the firmware tells it.
const MEMORY_SPEED: u32 = 2666;

/// The memory of a NUMA machine's two nodes in `-numa`.
const NODES: u64 = 2;

/// The way in which QEMU runs the guest's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    Kvm,
    Emulation,
}

/// Where the output of the guest's commands goes, beside the file `out`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    File,
    /// To standard output, with input from standard input.
    Stdio,
}

/// A disk, whose serial number is its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    pub name: String,
    /// Its path in the sysroot.
    pub file: String,
    pub is_writable: bool,
}

/// The command line of a guest's QEMU. Paths are those of the sysroot.
#[derive(Debug)]
pub struct CommandLine<'a> {
    pub machine: &'a Machine,
    pub accel: Accel,
    pub output: Output,
    /// The folder of the run.
    pub dir: &'a str,
    pub vmlinuz: &'a str,
    pub disks: &'a [Disk],
}

impl CommandLine<'_> {
    /// The arguments; the last one is the kernel's command line.
    pub fn arguments(&self) -> Vec<String> {
        let machine = self.machine;
        let dir = self.dir;
        let mut out = Arguments(Vec::new());

        let mut chipset = machine.chipset.name().to_owned();
        if !machine.numa {
            chipset += ",memory-backend=mem";
        }
        if machine.iommu {
            chipset += ",kernel-irqchip=split";
        }
        out.option("-machine", chipset);
        self.memory(&mut out);
        out.option("-m", machine.memory.to_string());
        out.option("-smbios", format!("type=17,speed={MEMORY_SPEED}"));
        self.processors(&mut out);

        for (option, value) in [("-display", "none"), ("-vga", "none"), ("-nic", "none")] {
            out.option(option, value);
        }
        out.word("-no-reboot");
        out.option("-monitor", "none");
        out.word("-nodefaults");
        let append = |name: &str, path: &str| format!("file,id={name},path={dir}/{path},append=on");
        out.serial(
            append("console", "console"),
            "isa-serial,chardev=console,index=0",
        );
        let control = match machine.model {
            Model::None => "null,id=control".into(),
            _ => format!("socket,path={dir}/control.sock,id=control"),
        };
        out.serial(control, "isa-serial,chardev=control,index=1");
        // ttyS2 and ttyS3 get interrupts of their own; the usual ones are shared, and
        // edge-triggered.
        let output = match self.output {
            Output::File => append("out", "out"),
            Output::Stdio => format!("stdio,signal=off,logfile={dir}/out,logappend=on,id=out"),
        };
        out.serial(output, "isa-serial,chardev=out,index=2,irq=5");
        let status = append("status", "status");
        out.serial(status, "isa-serial,chardev=status,index=3,irq=7");
        out.option("-chardev", format!("pipe,id=monitor,path={dir}/monitor"));
        out.option("-mon", "chardev=monitor");
        self.devices(&mut out);
        self.disks(&mut out);

        out.option("-kernel", self.vmlinuz);
        out.option("-initrd", format!("{dir}/initrd"));
        let patience = match self.accel {
            Accel::Kvm => "",
            Accel::Emulation => EMULATED_COMMAND_LINE,
        };
        let iommu = if machine.iommu { " intel_iommu=on" } else { "" };
        out.option(
            "-append",
            format!("{COMMAND_LINE}{patience}{iommu} {}", machine.append),
        );
        out.0
    }

    fn memory(&self, out: &mut Arguments) {
        let machine = self.machine;
        if !machine.numa {
            let size = &machine.memory;
            out.option(
                "-object",
                format!("memory-backend-memfd,id=mem,size={size},share=on"),
            );
            return;
        }
        let half = machine.memory.bytes() / NODES;
        let cpus = u64::from(machine.cpus());
        for n in 0..NODES {
            out.option(
                "-object",
                format!("memory-backend-memfd,id=mem{n},size={half},share=on"),
            );
            let (first, last) = (n * cpus / NODES, (n + 1) * cpus / NODES - 1);
            out.option(
                "-numa",
                format!("node,nodeid={n},memdev=mem{n},cpus={first}-{last}"),
            );
        }
        // As between two sockets of AMD's.
        out.option("-numa", "dist,src=0,dst=1,val=32");
    }

    fn processors(&self, out: &mut Arguments) {
        let machine = self.machine;
        let bare = if machine.bare { ",-hypervisor" } else { "" };
        if machine.icount {
            out.option("-accel", "tcg,thread=single");
            out.option("-icount", "shift=0,sleep=on");
            out.option("-cpu", format!("{EMULATED}{bare}"));
        } else if self.accel == Accel::Kvm {
            out.option("-accel", "kvm");
            out.option("-cpu", format!("host{bare}"));
        } else {
            out.option("-accel", "tcg,thread=multi");
            out.option("-cpu", format!("{EMULATED}{bare}"));
        }
        let sockets = if machine.numa { ",sockets=2" } else { "" };
        out.option("-smp", format!("{}{sockets}", machine.cpus()));
    }

    fn devices(&self, out: &mut Arguments) {
        let machine = self.machine;
        if machine.numa {
            out.device("pxb-pcie,id=far,bus_nr=128,numa_node=1");
        }
        if machine.switch {
            out.device("pcie-root-port,id=root,chassis=1,slot=1");
            out.device("x3130-upstream,id=up,bus=root");
        }
        if machine.iommu {
            out.device("intel-iommu,caching-mode=on");
        }
        if machine.model == Model::None {
            return;
        }
        for n in 1..=machine.gpus {
            let suffix = suffix(n);
            let mut port = String::new();
            if machine.switch {
                port = format!("down{suffix}");
                out.device(format!(
                    "xio3130-downstream,id={port},bus=up,chassis=2,slot={n}"
                ));
            } else if machine.numa && n % 2 == 0 {
                port = format!("far{suffix}");
                out.device(format!(
                    "pcie-root-port,id={port},bus=far,chassis=3,slot={n}"
                ));
            } else if machine.ports {
                port = format!("root{n}");
                out.device(format!("pcie-root-port,id={port},chassis=4,slot={n}"));
            } else if machine.numa {
                port = "pcie.0".into();
            }
            if !port.is_empty() {
                port = format!(r#","bus":"{port}""#);
            }
            let socket = format!(
                r#"{{"type":"unix","path":"{}/vfio{suffix}.sock"}}"#,
                self.dir
            );
            out.device(format!(
                r#"{{"driver":"vfio-user-pci"{port},"socket":{socket}}}"#
            ));
        }
    }

    fn disks(&self, out: &mut Arguments) {
        for Disk {
            name,
            file,
            is_writable,
        } in self.disks
        {
            let mode = if *is_writable {
                "cache=unsafe"
            } else {
                "readonly=on"
            };
            out.option(
                "-drive",
                format!("if=none,id={name},file={file},format=raw,{mode}"),
            );
            out.device(format!("virtio-blk-pci,drive={name},serial={name}"));
        }
    }
}

/// The end of the names of a GPU's files: nothing for the first GPU, its number for others.
pub fn suffix(gpu: u32) -> String {
    match gpu {
        1 => String::new(),
        n => n.to_string(),
    }
}

struct Arguments(Vec<String>);

impl Arguments {
    fn word(&mut self, word: impl Into<String>) {
        self.0.push(word.into());
    }

    fn option(&mut self, option: &str, value: impl Into<String>) {
        self.word(option);
        self.word(value);
    }

    fn device(&mut self, device: impl Into<String>) {
        self.option("-device", device);
    }

    fn serial(&mut self, chardev: String, device: &str) {
        self.option("-chardev", chardev);
        self.device(device);
    }
}

/// Finds the accelerator that works on this machine. /dev/kvm may exist and not work: it is used
/// after a kernel has booted with it, which is tried once for each boot of this machine.
///
/// # Errors
///
/// A signal ends the runner.
pub fn accel(places: &Sysroot, vmlinuz: &str, notes: &Notes) -> Result<Accel> {
    static TRIED: Mutex<()> = Mutex::new(());
    let _one = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    let node = places.root.join("dev/kvm");
    if !is_device("/dev/kvm".as_ref()) || (!is_device(&node) && !make_node(&node)) {
        return Ok(Accel::Emulation);
    }
    let boot = text_of("/proc/sys/kernel/random/boot_id");
    if let Some(accel) = recorded(&places.cache, &boot) {
        return Ok(accel);
    }
    notes.note("trying KVM");
    let accel = if try_kvm(places, vmlinuz)? {
        Accel::Kvm
    } else {
        notes.note("/dev/kvm does not work here: emulating (TCG)");
        Accel::Emulation
    };
    // Without the record, the next run tries KVM again.
    let _ = record(&places.cache, &boot, accel);
    Ok(accel)
}

/// The file of the cache with this machine's boot and its accelerator. All checkouts share it.
const VERDICT: &str = "kvm-verdict";

/// The accelerator that works on this machine, if it was found in this boot of the machine.
fn recorded(cache: &Path, boot: &str) -> Option<Accel> {
    let verdict = text_of(cache.join(VERDICT));
    let mut words = verdict.split_whitespace();
    if words.next() != Some(boot.trim()) {
        return None;
    }
    match words.next()? {
        "kvm" => Some(Accel::Kvm),
        "tcg" => Some(Accel::Emulation),
        _ => None,
    }
}

/// Records the accelerator that works. Another checkout may do so at the same time, so the file
/// gets its name when it is complete.
fn record(cache: &Path, boot: &str, accel: Accel) -> Result<()> {
    let word = match accel {
        Accel::Kvm => "kvm",
        Accel::Emulation => "tcg",
    };
    let file = cache.join(format!("{VERDICT}.{}", random_word()?));
    let result = fs::write(&file, format!("{} {word}\n", boot.trim()))
        .and_then(|()| fs::rename(&file, cache.join(VERDICT)));
    if result.is_err() {
        let _ = fs::remove_file(&file);
    }
    Ok(result?)
}

fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|data| data.file_type().is_char_device())
}

fn make_node(path: &Path) -> bool {
    let mut command = Command::new("mknod");
    command
        .args(["-m", "600"])
        .arg(path)
        .args(["c", "10", "232"]);
    command.stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Boots a kernel without a root file system, which panics for want of one.
fn try_kvm(places: &Sysroot, vmlinuz: &str) -> Result<bool> {
    let mut command = places.program("qemu-system-x86_64");
    command
        .args([
            "-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "512M",
        ])
        .args([
            "-display",
            "none",
            "-vga",
            "none",
            "-nic",
            "none",
            "-no-reboot",
        ])
        .args(["-serial", "stdio", "-append", "console=ttyS0 panic=-1"])
        .args(["-kernel", vmlinuz]);
    finds_no_root(&mut command)
}

/// How long a trial lasts at most.
const TRIAL: Duration = Duration::from_secs(30);

/// Whether the kernel whose console is a program's output has come to its root file system. QEMU
/// stays, paused, when KVM cannot go on, and its error ends the trial. The output goes to files
/// without names, which no other run of the runner can meet.
fn finds_no_root(command: &mut Command) -> Result<bool> {
    let console = fs::File::from(memfd_create("kvm-console", MemfdFlags::CLOEXEC)?);
    let errors = fs::File::from(memfd_create("kvm-errors", MemfdFlags::CLOEXEC)?);
    command.stdout(console.try_clone()?);
    command.stderr(errors.try_clone()?);
    let start = Instant::now();
    let mut process = Process::start(command)?;
    while process.wait_for(POLL)?.is_none() {
        if start.elapsed() >= TRIAL || is_stopped(&text_so_far(&errors)?) {
            break;
        }
    }
    Ok(text_so_far(&console)?.lines().any(|line| {
        line.split_once("Kernel panic")
            .is_some_and(|(_, l)| l.contains("root fs"))
    }))
}

/// Returns whether QEMU's messages say that KVM cannot go on.
fn is_stopped(messages: &str) -> bool {
    ["KVM internal error", "kvm run failed"]
        .iter()
        .any(|error| messages.contains(error))
}

/// The text of a file that a program writes. The place at which the program writes stays.
fn text_so_far(file: &fs::File) -> Result<String> {
    let len = usize::try_from(file.metadata()?.len())?;
    let mut text = vec![0; len];
    file.read_exact_at(&mut text, 0)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Chipset;
    use crate::size::Size;

    fn line(machine: &Machine, disks: &[Disk]) -> String {
        line_with(Accel::Emulation, machine, disks)
    }

    fn line_with(accel: Accel, machine: &Machine, disks: &[Disk]) -> String {
        let line = CommandLine {
            machine,
            accel,
            output: Output::File,
            dir: "/vm/x.1",
            vmlinuz: "/k/vmlinuz",
            disks,
        };
        line.arguments().join(" ")
    }

    #[test]
    fn the_usual_machine() {
        let expected = "\
            -machine q35,memory-backend=mem \
            -object memory-backend-memfd,id=mem,size=3G,share=on -m 3G -smbios type=17,speed=2666 \
            -accel tcg,thread=multi -cpu max,-erms,-fsrm,-fsrs,-fzrm,-la57 -smp 2 \
            -display none -vga none -nic none -no-reboot -monitor none -nodefaults \
            -chardev file,id=console,path=/vm/x.1/console,append=on \
            -device isa-serial,chardev=console,index=0 \
            -chardev socket,path=/vm/x.1/control.sock,id=control \
            -device isa-serial,chardev=control,index=1 \
            -chardev file,id=out,path=/vm/x.1/out,append=on \
            -device isa-serial,chardev=out,index=2,irq=5 \
            -chardev file,id=status,path=/vm/x.1/status,append=on \
            -device isa-serial,chardev=status,index=3,irq=7 \
            -chardev pipe,id=monitor,path=/vm/x.1/monitor -mon chardev=monitor \
            -device {\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\
            \"path\":\"/vm/x.1/vfio.sock\"}} \
            -kernel /k/vmlinuz -initrd /vm/x.1/initrd -append console=ttyS0 panic=-1 \
            no_timer_check oops=panic log_buf_len=16M printk.devkmsg=on random.trust_cpu=on \
            rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60 ";
        assert_eq!(expected, line(&Machine::default(), &[]));
    }

    #[test]
    fn stalls_are_seen_as_early_as_usual_with_kvm() {
        let line = line_with(Accel::Kvm, &Machine::default(), &[]);
        assert!(line.contains(" -accel kvm -cpu host -smp 2 "));
        assert!(!line.contains("stall_timeout") && !line.contains("watchdog_thresh"));
    }

    #[test]
    fn numa_halves_memory_and_processors() {
        let machine = Machine {
            numa: true,
            gpus: 2,
            memory: Size::gib(4),
            ..Machine::default()
        };
        let line = line(&machine, &[]);
        for part in [
            "-machine q35 -object memory-backend-memfd,id=mem0,size=2147483648,share=on \
             -numa node,nodeid=0,memdev=mem0,cpus=0-0 ",
            " -numa node,nodeid=1,memdev=mem1,cpus=1-1 -numa dist,src=0,dst=1,val=32 -m 4G ",
            " -smp 2,sockets=2 ",
            " -device pxb-pcie,id=far,bus_nr=128,numa_node=1 ",
            "{\"driver\":\"vfio-user-pci\",\"bus\":\"pcie.0\",",
            " -device pcie-root-port,id=far2,bus=far,chassis=3,slot=2 ",
            "\"bus\":\"far2\",\"socket\":{\"type\":\"unix\",\"path\":\"/vm/x.1/vfio2.sock\"}}",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }

    #[test]
    fn a_switch_has_a_port_for_each_gpu() {
        let machine = Machine {
            switch: true,
            iommu: true,
            gpus: 2,
            append: "page_poison=1".into(),
            ..Machine::default()
        };
        let line = line(&machine, &[]);
        for part in [
            "-machine q35,memory-backend=mem,kernel-irqchip=split ",
            " -device x3130-upstream,id=up,bus=root -device intel-iommu,caching-mode=on \
             -device xio3130-downstream,id=down,bus=up,chassis=2,slot=1 ",
            " -device xio3130-downstream,id=down2,bus=up,chassis=2,slot=2 ",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(line.ends_with(" watchdog_thresh=60 intel_iommu=on page_poison=1"));
    }

    #[test]
    fn ports_of_the_root_bus() {
        let machine = Machine {
            ports: true,
            gpus: 2,
            ..Machine::default()
        };
        let line = line(&machine, &[]);
        for part in [
            " -device pcie-root-port,id=root1,chassis=4,slot=1 ",
            " -device pcie-root-port,id=root2,chassis=4,slot=2 ",
            "{\"driver\":\"vfio-user-pci\",\"bus\":\"root2\",",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }

    #[test]
    fn other_machines() {
        let machine = Machine {
            icount: true,
            bare: true,
            chipset: Chipset::Pc,
            model: Model::None,
            ..Machine::default()
        };
        let disk = |name: &str, is_writable| Disk {
            name: name.into(),
            file: format!("/d/{name}"),
            is_writable,
        };
        let line = line(&machine, &[disk("swap", true), disk("trixie", false)]);
        for part in [
            "-machine pc,memory-backend=mem ",
            " -accel tcg,thread=single -icount shift=0,sleep=on ",
            "-la57,-hypervisor -smp 1 ",
            " -chardev null,id=control ",
            " -drive if=none,id=swap,file=/d/swap,format=raw,cache=unsafe ",
            " -drive if=none,id=trixie,file=/d/trixie,format=raw,readonly=on \
             -device virtio-blk-pci,drive=trixie,serial=trixie ",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(!line.contains("vfio-user-pci"));
    }

    #[test]
    fn an_incomplete_verdict_is_none() {
        let cache = std::env::temp_dir().join(format!("rkfd-verdict-{}", random_word().unwrap()));
        // A lost cache is no failure of the boot, for which the verdict is known.
        assert!(record(&cache, "boot\n", Accel::Kvm).is_err());
        fs::create_dir(&cache).unwrap();
        for accel in [Accel::Emulation, Accel::Kvm] {
            record(&cache, "boot\n", accel).unwrap();
            assert_eq!(Some(accel), recorded(&cache, "boot\n"));
        }
        assert_eq!(None, recorded(&cache, "another\n"));
        // Only the verdict has a name in the cache.
        assert_eq!(1, fs::read_dir(&cache).unwrap().count());
        for text in ["", "boot", "boot kv"] {
            fs::write(cache.join(VERDICT), text).unwrap();
            assert_eq!(None, recorded(&cache, "boot\n"), "{text:?}");
        }
        fs::remove_dir_all(&cache).unwrap();
    }

    #[test]
    fn consoles_of_several_runs_are_apart() {
        let console = |text: &str| {
            let mut command = Command::new("echo");
            finds_no_root(command.arg(text)).unwrap()
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let panic = "Kernel panic - not syncing: VFS: Unable to mount root fs on";
                scope.spawn(|| assert!(console(panic)));
                scope.spawn(|| assert!(!console("Linux version 7")));
            }
        });
    }

    #[test]
    fn an_error_of_kvm_ends_the_trial() {
        let script = "echo 'KVM internal error. Suberror: 1' >&2; sleep 60";
        let start = Instant::now();
        assert!(!finds_no_root(Command::new("sh").args(["-c", script])).unwrap());
        assert!(start.elapsed() < TRIAL, "{:?}", start.elapsed());
    }
}
