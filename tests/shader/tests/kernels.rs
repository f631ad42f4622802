// SPDX-License-Identifier: GPL-2.0
//! Compiled kernels have the same results as the same computation on the host, for each code object
//! version and at -O0, -O2 and -O3.

mod common;
#[path = "common/compile.rs"]
mod compile;

use common::{bytes, CodeObject};
use compile::compile;

const N: usize = 1000;
const GRID: [u32; 3] = [1000, 1, 1];
const GROUP: [u32; 3] = [256, 1, 1];

/// Pseudo-random numbers that are always the same.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn words(&mut self, n: usize) -> Vec<u32> {
        (0..n).map(|_| (self.next() >> 32) as u32).collect()
    }

    fn wide(&mut self, n: usize) -> Vec<u64> {
        (0..n).map(|_| self.next()).collect()
    }

    fn floats(&mut self, n: usize, exponents: i32) -> Vec<f32> {
        self.doubles(n, exponents)
            .iter()
            .map(|&x| x as f32)
            .collect()
    }

    fn doubles(&mut self, n: usize, exponents: i32) -> Vec<f64> {
        (0..n)
            .map(|_| {
                let mantissa = self.next() as i64 as f64 / 2f64.powi(63);
                mantissa * 2f64.powi((self.next() % (2 * exponents as u64)) as i32 - exponents)
            })
            .collect()
    }
}

#[track_caller]
fn same32(got: &[f32], expected: &[f32]) {
    for (n, (a, b)) in got.iter().zip(expected).enumerate() {
        let same = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        assert!(same, "element {n}: {a:e}, not {b:e}");
    }
}

#[track_caller]
fn same64(got: &[f64], expected: &[f64]) {
    for (n, (a, b)) in got.iter().zip(expected).enumerate() {
        let same = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        assert!(same, "element {n}: {a:e}, not {b:e}");
    }
}

fn zip<A: Copy, B: Copy, C>(a: &[A], b: &[B], f: impl Fn(A, B) -> C) -> Vec<C> {
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}

fn integers(object: &CodeObject) {
    let mut numbers = Numbers(1);
    let (a, b) = (numbers.words(N), numbers.words(N));
    let ran = object
        .kernel("add")
        .buffer(&bytes(&a))
        .buffer(&bytes(&b))
        .buffer(&bytes(&a))
        .word(N as u32)
        .run(GRID, GROUP);
    let sums = zip(&a, &b, u32::wrapping_add);
    assert_eq!(ran.numbers::<u32>(&[4 * N, 4 * N], N), sums);

    let x: Vec<i32> = a.iter().map(|&a| a as i32).collect();
    let y: Vec<i32> = b.iter().map(|&b| (b as i32 >> (b & 31)) | 2).collect();
    let ran = object
        .kernel("divide_i32")
        .buffer(&bytes(&x))
        .buffer(&bytes(&y))
        .buffer(&bytes(&a))
        .buffer(&bytes(&a))
        .word(N as u32)
        .run(GRID, GROUP);
    assert_eq!(
        ran.numbers::<i32>(&[4 * N; 2], N),
        zip(&x, &y, i32::wrapping_div)
    );
    assert_eq!(
        ran.numbers::<i32>(&[4 * N; 3], N),
        zip(&x, &y, i32::wrapping_rem)
    );

    let (x, y) = (numbers.wide(N), numbers.wide(N));
    let y: Vec<u64> = y.iter().map(|&y| (y >> (y & 63)) | 1).collect();
    let ran = object
        .kernel("divide_u64")
        .buffer(&bytes(&x))
        .buffer(&bytes(&y))
        .buffer(&bytes(&x))
        .buffer(&bytes(&x))
        .word(N as u32)
        .run(GRID, GROUP);
    assert_eq!(
        ran.numbers::<u64>(&[8 * N; 2], N),
        zip(&x, &y, |x, y| x / y)
    );
    assert_eq!(
        ran.numbers::<u64>(&[8 * N; 3], N),
        zip(&x, &y, |x, y| x % y)
    );

    let x: Vec<u8> = a.iter().map(|&a| a as u8).collect();
    let ran = object
        .kernel("bytes")
        .buffer(&x)
        .buffer(&x)
        .word(N as u32)
        .run(GRID, GROUP);
    let expected: Vec<u8> = (0..N)
        .map(|n| (u32::from(x[n]) << 3) as u8 ^ (i32::from(x[N - 1 - n] as i8) >> 2) as u8)
        .collect();
    assert_eq!(ran.numbers::<u8>(&[N], N), expected);
}

fn floats(object: &CodeObject) {
    let mut numbers = Numbers(2);
    let (a, b, c) = (
        numbers.floats(N, 20),
        numbers.floats(N, 20),
        numbers.floats(N, 20),
    );
    let ran = object
        .kernel("fma_f32")
        .buffer(&bytes(&a))
        .buffer(&bytes(&b))
        .buffer(&bytes(&c))
        .word(N as u32)
        .run(GRID, GROUP);
    let expected: Vec<f32> = (0..N).map(|n| a[n].mul_add(b[n], -c[n])).collect();
    same32(&ran.numbers(&[4 * N; 2], N), &expected);

    let (a, b, c) = (
        numbers.doubles(N, 20),
        numbers.doubles(N, 20),
        numbers.doubles(N, 20),
    );
    let ran = object
        .kernel("fma_f64")
        .buffer(&bytes(&a))
        .buffer(&bytes(&b))
        .buffer(&bytes(&c))
        .word(N as u32)
        .run(GRID, GROUP);
    let expected: Vec<f64> = (0..N)
        .map(|n| a[n].mul_add(-b[n], c[n]) * a[n].abs())
        .collect();
    same64(&ran.numbers(&[8 * N; 2], N), &expected);

    // All exponents, so that quotients overflow and become denormal too.
    let (mut a, mut b) = (numbers.floats(N, 140), numbers.floats(N, 140));
    (a[0], b[0], a[1], b[1]) = (0.0, 1.0, 1.0, -0.0);
    (a[2], b[2], a[3], b[3]) = (f32::INFINITY, 2.0, 3.0, f32::NEG_INFINITY);
    (a[4], b[4], a[5], b[5]) = (0.0, 0.0, f32::NAN, 1.0);
    let ran = object
        .kernel("divide_f32")
        .buffer(&bytes(&a))
        .buffer(&bytes(&b))
        .buffer(&bytes(&a))
        .word(N as u32)
        .run(GRID, GROUP);
    same32(&ran.numbers(&[4 * N; 2], N), &zip(&a, &b, |a, b| a / b));
    let roots: Vec<f32> = a.iter().map(|a| a.abs()).collect();
    let ran = object
        .kernel("root_f32")
        .buffer(&bytes(&roots))
        .buffer(&bytes(&a))
        .word(N as u32)
        .run(GRID, GROUP);
    let expected: Vec<f32> = roots.iter().map(|a| a.sqrt()).collect();
    for (got, expected) in ran.numbers::<f32>(&[4 * N], N).iter().zip(&expected) {
        let apart = got.to_bits().abs_diff(expected.to_bits());
        assert!(apart <= 1 || got.is_nan(), "{got:e}, not {expected:e}");
    }

    let (a, b) = (numbers.doubles(N, 1000), numbers.doubles(N, 1000));
    let ran = object
        .kernel("divide_f64")
        .buffer(&bytes(&a))
        .buffer(&bytes(&b))
        .buffer(&bytes(&a))
        .word(N as u32)
        .run(GRID, GROUP);
    same64(&ran.numbers(&[8 * N; 2], N), &zip(&a, &b, |a, b| a / b));

    let half = |x: &f32| half::f16::from_f32(*x).to_bits();
    let (a, b, c) = (
        numbers.floats(N, 6),
        numbers.floats(N, 6),
        numbers.floats(N, 6),
    );
    let [a, b, c] = [a, b, c].map(|x| x.iter().map(half).collect::<Vec<u16>>());
    let ran = object
        .kernel("halves")
        .buffer(&bytes(&a))
        .buffer(&bytes(&b))
        .buffer(&bytes(&c))
        .word(N as u32)
        .run(GRID, GROUP);
    let value = |x: u16| half::f16::from_bits(x).to_f32();
    let expected: Vec<u16> = (0..N)
        .map(|n| {
            let product = half::f16::from_f32(value(a[n]) * value(b[n])).to_f32();
            half(&(product + value(c[n])))
        })
        .collect();
    assert_eq!(ran.numbers::<u16>(&[2 * N; 2], N), expected);
}

fn groups(object: &CodeObject) {
    let mut numbers = Numbers(3);
    let a = numbers.words(N);
    let ran = object
        .kernel("sum")
        .buffer(&bytes(&a))
        .buffer(&[0; 16])
        .word(N as u32)
        .run([1024, 1, 1], GROUP);
    let expected: Vec<u32> = a
        .chunks(256)
        .map(|part| part.iter().fold(0u32, |sum, x| sum.wrapping_add(*x)))
        .collect();
    assert_eq!(ran.numbers::<u32>(&[4 * N], 4), expected);

    let bins: Vec<u8> = a.iter().map(|&x| (x >> 3) as u8).collect();
    let ran = object
        .kernel("histogram")
        .buffer(&bins)
        .buffer(&[0; 1024])
        .word(N as u32)
        .run([512, 1, 1], GROUP);
    let mut expected = vec![0; 256];
    bins.iter().for_each(|&bin| expected[usize::from(bin)] += 1);
    assert_eq!(ran.numbers::<u32>(&[N], 256), expected);

    let ran = object
        .kernel("atomics")
        .buffer(&[0; 16])
        .buffer(&[0; 16])
        .run([500, 1, 1], [100, 1, 1]);
    let xor = (0..500).fold(0, |all, n| all ^ n);
    assert_eq!(
        ran.numbers::<u32>(&[], 4),
        [124_750, 3493, xor, -499i32 as u32]
    );
    let steps = (0..500).fold(0u64, |x, _| x.wrapping_mul(3).wrapping_add(1));
    assert_eq!(ran.numbers::<u64>(&[16], 2), [124_750 << 30, steps]);

    // Small integers, so that every order of sums gives the same.
    let (x, y): (Vec<f32>, Vec<f32>) = (0..1024)
        .map(|n| ((n * 7 % 13) as f32, (n * 5 % 11) as f32 - 5.0))
        .unzip();
    let ran = object
        .kernel("multiply")
        .buffer(&bytes(&x))
        .buffer(&bytes(&y))
        .buffer(&bytes(&x))
        .word(32)
        .run([32, 32, 1], [16, 16, 1]);
    same32(&ran.numbers(&[4096; 2], 1024), &product(&x, &y, 32, 32));
}

/// A matrix of `rows` rows and depth `depth` times one with as many columns.
fn product(a: &[f32], b: &[f32], rows: usize, depth: usize) -> Vec<f32> {
    (0..rows * rows)
        .map(|n| {
            let (i, j) = (n / rows, n % rows);
            (0..depth).map(|k| a[i * depth + k] * b[k * rows + j]).sum()
        })
        .collect()
}

fn control(object: &CodeObject) {
    let a: Vec<u32> = (0..N as u32).map(|n| 1 + n * 37 % 2000).collect();
    let ran = object
        .kernel("collatz")
        .buffer(&bytes(&a))
        .buffer(&bytes(&a))
        .word(N as u32)
        .run(GRID, [192, 1, 1]);
    let expected: Vec<u32> = a
        .iter()
        .map(|&start| {
            let (mut x, mut steps) = (start, 0);
            while x != 1 {
                x = if x % 2 == 1 { 3 * x + 1 } else { x / 2 };
                steps += 1;
            }
            steps
        })
        .collect();
    assert_eq!(ran.numbers::<u32>(&[4 * N], N), expected);

    let ran = object
        .kernel("recurse")
        .buffer(&bytes(&a))
        .buffer(&bytes(&a))
        .run([128, 1, 1], [64, 1, 1]);
    let fibonacci = [0, 1, 1, 2, 3, 5, 8, 13];
    let expected: Vec<u32> = a[..128]
        .iter()
        .map(|&x| fibonacci[x as usize & 7])
        .collect();
    assert_eq!(ran.numbers::<u32>(&[4 * N], 128), expected);

    let ran = object
        .kernel("indirect")
        .buffer(&bytes(&a))
        .buffer(&bytes(&a))
        .run([128, 1, 1], [64, 1, 1]);
    let expected: Vec<u32> = a[..128]
        .iter()
        .map(|&x| [2 * x, x + 100, x.wrapping_sub(5)][x as usize % 3])
        .collect();
    assert_eq!(ran.numbers::<u32>(&[4 * N], 128), expected);

    let ran = object
        .kernel("private_array")
        .buffer(&bytes(&a))
        .buffer(&bytes(&a))
        .run([128, 1, 1], [128, 1, 1]);
    let expected: Vec<u32> = (0..128u32)
        .map(|t| {
            (0..32).fold(0u32, |sum, i| {
                let at = a[(i + t) as usize] & 31;
                sum.wrapping_mul(31).wrapping_add(a[at as usize] ^ t)
            })
        })
        .collect();
    assert_eq!(ran.numbers::<u32>(&[4 * N], 128), expected);

    let ran = object
        .kernel("generic")
        .buffer(&[0; 256])
        .run([64, 1, 1], [64, 1, 1]);
    let expected: Vec<u32> = (0..64)
        .map(|t| 70_000 + 500 + 3 + t * [100, 1, 10_000][t as usize % 3])
        .collect();
    assert_eq!(ran.numbers::<u32>(&[], 64), expected);
}

fn lanes(object: &CodeObject) {
    let ran = object
        .kernel("lanes")
        .buffer(&[0; 6 * 256])
        .run([64, 1, 1], [64, 1, 1]);
    let out = ran.numbers::<u32>(&[], 384);
    for t in 0..64usize {
        let square = |n: usize| (n * n) as u32;
        assert_eq!(out[t], square(63 - t));
        // From the previous lane, within a row of 16.
        assert_eq!(out[64 + t], if t % 16 == 0 { 9 } else { square(t - 1) });
        assert_eq!(out[128 + t], square(t ^ 1));
        assert_eq!(out[192 + t], square(17));
        assert_eq!(out[256 + t], t as u32);
        assert_eq!(out[320 + t], 0xaaaa_aaaa);
    }
}

fn matrices(object: &CodeObject) {
    let a: Vec<f32> = (0..64).map(|n| (n * 7 % 13) as f32 - 6.0).collect();
    let b: Vec<f32> = (0..64).map(|n| (n * 5 % 11) as f32).collect();
    let zeros = vec![0f32; 1024];
    for (kernel, size, depth) in [("matrix_16", 16, 4), ("matrix_32", 32, 2)] {
        let ran = object
            .kernel(kernel)
            .buffer(&bytes(&a))
            .buffer(&bytes(&b))
            .buffer(&bytes(&zeros))
            .run([64, 1, 1], [64, 1, 1]);
        let got = ran.numbers::<f32>(&[256, 256], size * size);
        assert_eq!(got, product(&a, &b, size, depth), "{kernel}");
    }
    let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let ran = object
        .kernel("matrix_f64")
        .buffer(&bytes(&wide(&a)))
        .buffer(&bytes(&wide(&b)))
        .buffer(&bytes(&wide(&zeros[..256])))
        .run([64, 1, 1], [64, 1, 1]);
    assert_eq!(
        ran.numbers::<f64>(&[512, 512], 256),
        wide(&product(&a, &b, 16, 4))
    );
}

/// Accesses outside of a buffer resource.
fn buffers(object: &CodeObject) {
    let a: Vec<u32> = (1..=256).collect();
    let b = [5u32; 256];
    let ran = object
        .kernel("buffers")
        .buffer(&bytes(&a))
        .buffer(&bytes(&b))
        .buffer(&[0; 4 * 256])
        .run([64, 1, 1], [64, 1, 1]);
    // The scalar offset takes four of the 100 bytes.
    let raw = |offset: u32| if offset < 96 { offset / 4 + 2 } else { 0 };
    let out = ran.numbers::<u32>(&[1024, 1024], 256);
    let stored = ran.numbers::<u32>(&[1024], 256);
    for t in 0..64 {
        let at = t as usize;
        assert_eq!(out[at], raw(8 * t + 4), "first dword of {t}");
        assert_eq!(out[64 + at], raw(8 * t + 8), "second dword of {t}");
        assert_eq!(out[128 + at], if t < 50 { t + 1 } else { 0 }, "index {t}");
        let old = if 8 * t < 104 { 1000 + 2 * t } else { 0 };
        assert_eq!(out[192 + at], old, "atomic of {t}");
        let inside = t < 26 && t % 2 == 0;
        assert_eq!(
            stored[at],
            if inside { 1000 + t + 7 } else { 5 },
            "store of {t}"
        );
    }
}

fn all(part: &str, version: u32, level: u32) {
    let object = compile(part, "kernels", version, level);
    integers(&object);
    floats(&object);
    groups(&object);
    control(&object);
    lanes(&object);
    matrices(&object);
    buffers(&object);
}

#[test]
fn version_4() {
    for level in [0, 2, 3] {
        all("gfx90a", 4, level);
    }
}

#[test]
fn version_5() {
    for level in [0, 2, 3] {
        all("gfx90a", 5, level);
    }
}

#[test]
fn version_6() {
    for level in [0, 2, 3] {
        all("gfx90a", 6, level);
    }
}

#[test]
fn gfx942() {
    for level in [0, 2, 3] {
        all("gfx942", 5, level);
    }
}
