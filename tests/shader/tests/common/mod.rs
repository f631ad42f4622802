// SPDX-License-Identifier: GPL-2.0
//! Loads kernels and runs them.
#![allow(dead_code)]

mod memory;

use std::time::Duration;

use memory::{Memory, CODE, DATA, SCRATCH};
use object::{FileFlags, Object, ObjectSegment, ObjectSymbol, RelocationFlags};
use rkfd_shader::code::Code;
use rkfd_shader::dispatch::{Launch, Seat};
use rkfd_shader::env::Host;
use rkfd_shader::group::Progress;
use rkfd_shader::isa::Isa;
use rkfd_shader::kernel::{Descriptor, UserData, DESCRIPTOR, USER};
use rkfd_shader::wave::Apertures;
use rustix::time::{clock_gettime, ClockId};

/// A code object, loaded.
pub struct CodeObject {
    image: Vec<u8>,
    symbols: Vec<(String, u64)>,
    version: u32,
    isa: Isa,
}

/// The generation that an ELF header's flags name (EF_AMDGPU_MACH).
fn isa(flags: FileFlags) -> Isa {
    match flags {
        FileFlags::Elf { e_flags, .. } if e_flags & 0xff == 0x3f => Isa::Gfx90a,
        FileFlags::Elf { e_flags, .. } if e_flags & 0xff == 0x4c => Isa::Gfx942,
        other => panic!("code for another part: {other:?}"),
    }
}

/// Loads a code object.
pub fn load(bytes: &[u8], version: u32) -> CodeObject {
    let file = object::File::parse(bytes).unwrap();
    let end = file
        .segments()
        .map(|s| s.address() + s.size())
        .max()
        .unwrap();
    let mut image = vec![0; (end as usize).next_multiple_of(4096) + 4096];
    for segment in file.segments() {
        let (at, data) = (segment.address() as usize, segment.data().unwrap());
        image[at..at + data.len()].copy_from_slice(data);
    }
    // Addresses of its own.
    for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
        const RELATIVE64: u32 = 13;
        let kind = RelocationFlags::Elf { r_type: RELATIVE64 };
        assert_eq!(relocation.flags(), kind);
        let address = CODE.wrapping_add_signed(relocation.addend());
        image[at as usize..][..8].copy_from_slice(&address.to_le_bytes());
    }
    let symbols = file
        .dynamic_symbols()
        .map(|symbol| (symbol.name().unwrap().to_owned(), symbol.address()))
        .collect();
    CodeObject {
        image,
        symbols,
        version,
        isa: isa(file.flags()),
    }
}

/// The thread's time on the processor, which other processes do not affect.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Bytes of kernel arguments, each at its own alignment.
#[derive(Default)]
pub struct Args(Vec<u8>);

impl Args {
    pub fn push(&mut self, value: &[u8]) {
        self.0.resize(self.0.len().next_multiple_of(value.len()), 0);
        self.0.extend(value);
    }
}

/// A kernel's buffers and sizes, until it is run.
pub struct Run<'a> {
    object: &'a CodeObject,
    kernel: &'a str,
    data: Vec<u8>,
    args: Args,
}

/// Results of a kernel.
pub struct Ran {
    /// Its memory from DATA on.
    pub data: Vec<u8>,
    /// Wave instructions.
    pub executed: u64,
    /// The processor time of that.
    pub time: Duration,
}

/// Parameters of a kernel.
pub struct Start {
    /// Items in all.
    pub grid: [u32; 3],
    /// Items of a group.
    pub size: [u32; 3],
    /// Bytes of LDS beside the kernel's own.
    pub lds: u32,
    /// Addresses of the arguments and of the packet.
    pub kernarg: u64,
    pub packet: u64,
    /// A dword that is stored there when it has run for a while, as a CPU would.
    pub poke: Option<(u64, u64)>,
}

impl CodeObject {
    /// The names of its kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        let names = self.symbols.iter().map(|(name, _)| name.as_str());
        names.filter_map(|name| name.strip_suffix(".kd"))
    }

    pub fn kernel<'a>(&'a self, name: &'a str) -> Run<'a> {
        Run {
            object: self,
            kernel: name,
            data: Vec::new(),
            args: Args::default(),
        }
    }

    /// Runs a kernel on memory that has `data` from DATA on.
    pub fn start(&self, kernel: &str, data: &[u8], start: &Start) -> Result<Ran, String> {
        let &Start { grid, size, .. } = start;
        let symbol = format!("{kernel}.kd");
        let found = self.symbols.iter().find(|(name, _)| *name == symbol);
        let at = found.ok_or_else(|| format!("there is no {kernel}"))?.1;
        let bytes: &[u8; DESCRIPTOR] = self.image[at as usize..][..DESCRIPTOR].try_into().unwrap();
        let descriptor = Descriptor::of(bytes);
        // A stack for recursion, where the descriptor does not give the size.
        let private = descriptor.private.max(4096);
        let stride = (private * 64).next_multiple_of(1024);
        let waves = size.iter().product::<u32>().div_ceil(64);
        let memory = Memory::new(self.image.clone(), data.len(), (stride * waves) as usize);
        memory.store(DATA, data).unwrap();
        let (user, count) = descriptor.user(&UserData {
            private_segment_buffer: [
                SCRATCH as u32,
                (SCRATCH >> 32) as u32 | 1 << 31,
                stride * waves,
                0x00e0_0000 | 1 << 23,
            ],
            dispatch: start.packet,
            queue: 0,
            kernarg: start.kernarg,
            dispatch_id: 0,
            flat_scratch: SCRATCH,
            private,
            preload: [0; USER],
        });
        // clang-19 preloads no arguments by default.
        assert_eq!(descriptor.preload, 0);
        assert_eq!(count as u32, descriptor.rsrc2 >> 1 & 31);
        let launch = Launch {
            isa: self.isa,
            scratch: SCRATCH,
            pc: (CODE + at).wrapping_add_signed(descriptor.entry),
            rsrc1: descriptor.rsrc1,
            rsrc2: descriptor.rsrc2,
            rsrc3: descriptor.rsrc3,
            user,
            size,
            groups: [0, 1, 2].map(|n| grid[n].div_ceil(size[n])),
            last: [0, 1, 2].map(|n| (grid[n] - 1) % size[n] + 1),
            start: [0; 3],
            lds: descriptor.group + start.lds,
            apertures: Apertures {
                shared: 1,
                private: 2,
            },
            ttmps: None,
            debug: Default::default(),
        };
        launch.check().map_err(|reason| reason.to_string())?;
        let mut code = Code::new(self.isa);
        let mut executed = 0;
        let begin = cpu_time();
        for index in 0..launch.count() {
            let seats: Vec<Seat> = (0..waves)
                .map(|n| Seat {
                    scratch: n * stride,
                    ..Seat::default()
                })
                .collect();
            let mut group = launch.group(index, &seats, &());
            loop {
                match group.run(&mut code, &memory, 1 << 20) {
                    Ok(Progress::Done) => break,
                    Ok(_) if group.counts().all() < 1 << 28 => {}
                    Ok(_) => return Err("it does not end".into()),
                    Err(stop) => return Err(stop.to_string()),
                }
                if let Some((at, value)) = start.poke {
                    memory.store(at, &(value as u32).to_le_bytes()).unwrap();
                }
            }
            if let Some(fault) = group.fault() {
                return Err(format!("a fault at {:#x}", fault.address));
            }
            executed += group.counts().all();
        }
        let time = cpu_time() - begin;
        let mut data = vec![0; data.len()];
        memory.load(DATA, &mut data).unwrap();
        Ok(Ran {
            data,
            executed,
            time,
        })
    }
}

impl Run<'_> {
    /// A buffer argument with these bytes.
    pub fn buffer(mut self, bytes: &[u8]) -> Self {
        self.args
            .push(&(DATA + self.data.len() as u64).to_le_bytes());
        self.data.extend(bytes);
        self.data.resize(self.data.len().next_multiple_of(256), 0);
        self
    }

    /// An argument of 32 bits.
    pub fn word(mut self, value: u32) -> Self {
        self.args.push(&value.to_le_bytes());
        self
    }

    /// Runs `grid` items in groups of `size`.
    pub fn run(self, grid: [u32; 3], size: [u32; 3]) -> Ran {
        let Run {
            object,
            kernel,
            mut data,
            mut args,
        } = self;
        // Implicit arguments of version 5; those of 4 are all zero here.
        args.0.resize(args.0.len().next_multiple_of(8), 0);
        let mut hidden = vec![0; 256];
        if object.version > 4 {
            for n in 0..3 {
                hidden[4 * n..4 * n + 4].copy_from_slice(&(grid[n] / size[n]).to_le_bytes());
                hidden[12 + 2 * n..][..2].copy_from_slice(&(size[n] as u16).to_le_bytes());
                hidden[18 + 2 * n..][..2]
                    .copy_from_slice(&((grid[n] % size[n]) as u16).to_le_bytes());
            }
            // Apertures, which v5 code for older parts reads here.
            hidden[192..196].copy_from_slice(&0x2_0000u32.to_le_bytes());
            hidden[196..200].copy_from_slice(&0x1_0000u32.to_le_bytes());
        }
        args.0.extend(hidden);
        let buffers = data.len();
        let kernarg = DATA + buffers as u64;
        data.extend(&args.0);
        data.resize(data.len().next_multiple_of(64), 0);
        let dispatch = DATA + data.len() as u64;
        let mut packet = [0; 64];
        packet[2] = 3;
        for n in 0..3 {
            packet[4 + 2 * n..][..2].copy_from_slice(&(size[n] as u16).to_le_bytes());
            packet[12 + 4 * n..][..4].copy_from_slice(&grid[n].to_le_bytes());
        }
        data.extend(packet);
        let start = Start {
            grid,
            size,
            lds: 0,
            kernarg,
            packet: dispatch,
            poke: None,
        };
        let mut ran = object.start(kernel, &data, &start).unwrap();
        ran.data.truncate(buffers);
        ran
    }
}

/// Plain numbers.
pub trait Number: Copy {
    fn bytes(self) -> Vec<u8>;
    fn of(bytes: &[u8]) -> Self;
}

macro_rules! number {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn of(bytes: &[u8]) -> $ty {
                <$ty>::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    )*};
}
number!(u8, u16, u32, i32, u64, f32, f64);

/// The bytes of numbers.
pub fn bytes<T: Number>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(|value| value.bytes()).collect()
}

impl Ran {
    /// The numbers of the buffer behind `skipped` buffers of these sizes in bytes.
    pub fn numbers<T: Number>(&self, skipped: &[usize], count: usize) -> Vec<T> {
        let start: usize = skipped.iter().map(|len| len.next_multiple_of(256)).sum();
        let size = size_of::<T>();
        self.data[start..start + count * size]
            .chunks_exact(size)
            .map(T::of)
            .collect()
    }
}
