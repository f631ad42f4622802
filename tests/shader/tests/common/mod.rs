// SPDX-License-Identifier: GPL-2.0
//! Compiles kernels and runs them.

mod memory;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use memory::{Memory, CODE, DATA, SCRATCH};
use object::{Object, ObjectSegment, ObjectSymbol};
use rkfd_shader::code::Code;
use rkfd_shader::dispatch::{Launch, Seat};
use rkfd_shader::env::Host;
use rkfd_shader::group::Progress;
use rkfd_shader::kernel::{Descriptor, UserData, DESCRIPTOR};
use rkfd_shader::wave::Apertures;
use rustix::time::{clock_gettime, ClockId};

/// A code object, loaded.
pub struct CodeObject {
    image: Vec<u8>,
    symbols: Vec<(String, u64)>,
    version: u32,
}

/// Compiles tests/kernels.hip for a code object version and an optimisation level.
pub fn compile(version: u32, level: u32) -> CodeObject {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels.hip");
    let out =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kernels.v{version}.O{level}.co"));
    let status = Command::new("clang-19")
        .args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output"])
        .args([
            "--offload-arch=gfx90a:sramecc+:xnack-",
            "-nogpuinc",
            "-nogpulib",
        ])
        .args(["-std=c++17", "-munsafe-fp-atomics", "-ffp-contract=off"])
        .arg(format!("-mcode-object-version={version}"))
        .arg(format!("-O{level}"))
        .arg(&source)
        .arg("-o")
        .arg(&out)
        .status()
        .expect("clang-19 is there");
    assert!(status.success());
    load(&std::fs::read(&out).unwrap(), version)
}

fn load(bytes: &[u8], version: u32) -> CodeObject {
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
    let symbols = file
        .dynamic_symbols()
        .map(|symbol| (symbol.name().unwrap().to_owned(), symbol.address()))
        .collect();
    CodeObject {
        image,
        symbols,
        version,
    }
}

/// The thread's time on the processor, of which others on the machine take nothing away.
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

/// What a kernel left behind.
pub struct Ran {
    data: Vec<u8>,
    /// Wave instructions.
    pub executed: u64,
    /// How much time of the processor that took.
    pub time: Duration,
}

impl CodeObject {
    pub fn kernel<'a>(&'a self, name: &'a str) -> Run<'a> {
        Run {
            object: self,
            kernel: name,
            data: Vec::new(),
            args: Args::default(),
        }
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
        let symbol = format!("{kernel}.kd");
        let at = object
            .symbols
            .iter()
            .find(|(name, _)| *name == symbol)
            .unwrap()
            .1;
        let bytes: &[u8; DESCRIPTOR] = object.image[at as usize..][..DESCRIPTOR]
            .try_into()
            .unwrap();
        let descriptor = Descriptor::of(bytes);
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
        // A stack for recursion, where the descriptor cannot say how much.
        let private = descriptor.private.max(4096);
        let stride = (private * 64).next_multiple_of(1024);
        let waves = size.iter().product::<u32>().div_ceil(64);
        let memory = Memory::new(object.image.clone(), data.len(), (stride * waves) as usize);
        memory.store(DATA, &data).unwrap();
        let (user, count) = descriptor.user(&UserData {
            private_segment_buffer: [
                SCRATCH as u32,
                (SCRATCH >> 32) as u32 | 1 << 31,
                stride * waves,
                0x00e0_0000 | 1 << 23,
            ],
            dispatch,
            queue: 0,
            kernarg,
            dispatch_id: 0,
            flat_scratch: SCRATCH,
            private,
        });
        assert_eq!(count as u32, descriptor.rsrc2 >> 1 & 31);
        let launch = Launch {
            pc: (CODE + at).wrapping_add_signed(descriptor.entry),
            rsrc1: descriptor.rsrc1,
            rsrc2: descriptor.rsrc2,
            rsrc3: descriptor.rsrc3,
            user,
            size,
            groups: [0, 1, 2].map(|n| grid[n].div_ceil(size[n])),
            last: [0, 1, 2].map(|n| (grid[n] - 1) % size[n] + 1),
            start: [0; 3],
            lds: descriptor.group,
            apertures: Apertures {
                shared: 1,
                private: 2,
            },
            ttmps: None,
        };
        launch.check().unwrap();
        let mut code = Code::new();
        let mut executed = 0;
        let start = cpu_time();
        for index in 0..launch.count() {
            let seats: Vec<Seat> = (0..waves)
                .map(|n| Seat {
                    scratch: n * stride,
                    ..Seat::default()
                })
                .collect();
            let mut group = launch.group(index, &seats);
            loop {
                match group.run(&mut code, &memory, 1 << 24) {
                    Ok(Progress::Done) => break,
                    Ok(_) => assert!(group.counts().all() < 1 << 28, "{kernel} does not end"),
                    Err(stop) => panic!("{kernel}: {stop}"),
                }
            }
            assert_eq!(group.fault(), None, "{kernel}");
            executed += group.counts().all();
        }
        let time = cpu_time() - start;
        let mut data = vec![0; buffers];
        memory.load(DATA, &mut data).unwrap();
        Ran {
            data,
            executed,
            time,
        }
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
