// SPDX-License-Identifier: GPL-2.0
//! Generates constants from data/CHIP-regs.csv: a module for each IP block, a constant for each
//! register, a module of fields for each register, and for each chip a table of its registers.
//!
//! A register of several chips has one number, its dword index in BAR5 of the first chip that has
//! it. Fields that a later chip has at other bits are in a module of that chip's name.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;

/// The chips, in whose order registers get their numbers.
const CHIPS: [&str; 2] = ["gfx90a", "gfx942"];

/// The number of a register, and the first chip's bits of each field.
#[derive(Default)]
struct Register {
    number: u32,
    fields: BTreeMap<String, (u32, u32)>,
    /// Fields at other bits, by chip.
    others: BTreeMap<&'static str, BTreeMap<String, (u32, u32)>>,
}

/// All registers, by module and name.
type Registers = BTreeMap<(String, String), Register>;

/// `NAME[hi:lo]` or `NAME[bit]`.
fn field(token: &str) -> Option<(&str, u32, u32)> {
    let (name, bits) = token.strip_suffix(']')?.split_once('[')?;
    let (hi, lo) = bits.split_once(':').unwrap_or((bits, bits));
    Some((name, hi.parse().ok()?, lo.parse().ok()?))
}

/// Adds the registers of a chip. Returns its table.
fn add(chip: &'static str, registers: &mut Registers) -> String {
    let file = format!("data/{chip}-regs.csv");
    println!("cargo:rerun-if-changed={file}");
    let text = std::fs::read_to_string(&file).expect(&file);
    let mut taken: HashMap<u32, (String, String)> = HashMap::new();
    for (key, register) in registers.iter() {
        taken.insert(register.number, key.clone());
    }
    let mut table = String::new();
    for line in text.lines().filter(|line| line.starts_with("0x")) {
        let columns: Vec<&str> = line.splitn(5, ',').collect();
        let [dword, _, ip, name, fields] = columns[..] else {
            panic!("{file}: {line}");
        };
        let name = name.split('(').next().expect("a name");
        let (module, name) = match ip {
            "SDMA0" => ("sdma", name.trim_start_matches("SDMA0_")),
            _ => (ip, name),
        };
        let dword = u32::from_str_radix(dword.trim_start_matches("0x"), 16).expect(line);
        let key = (module.to_lowercase(), name.to_owned());
        let is_new = !registers.contains_key(&key);
        let register = registers.entry(key).or_default();
        if is_new {
            register.number = dword;
            let taken = taken.get(&dword);
            assert!(taken.is_none(), "{file}: {line}: the number of {taken:?}");
        }
        for (field, hi, lo) in fields.split_whitespace().filter_map(field) {
            let bits = *register
                .fields
                .entry(field.to_uppercase())
                .or_insert((hi, lo));
            if bits != (hi, lo) {
                let others = register.others.entry(chip).or_default();
                others.insert(field.to_uppercase(), (hi, lo));
            }
        }
        let number = register.number;
        writeln!(table, "    ({dword}, {number}, \"{ip}\", \"{name}\"),").expect("a string");
    }
    table
}

/// The constants of fields.
fn constants(out: &mut String, fields: &BTreeMap<String, (u32, u32)>) {
    writeln!(out, "        use super::Field;").expect("a string");
    for (field, (hi, lo)) in fields {
        writeln!(out, "pub const {field}: Field = Field::new({hi}, {lo});").expect("a string");
    }
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let mut registers = Registers::new();
    let tables = CHIPS.map(|chip| (chip, add(chip, &mut registers)));
    let mut modules: BTreeMap<&str, String> = BTreeMap::new();
    for ((module, name), register) in &registers {
        let out = modules.entry(module).or_default();
        let number = register.number;
        writeln!(out, "    pub const {name}: Reg = Reg({number});").expect("a string");
        writeln!(out, "    pub mod {} {{", name.to_lowercase()).expect("a string");
        constants(out, &register.fields);
        for (chip, fields) in &register.others {
            writeln!(out, "    pub mod {chip} {{").expect("a string");
            constants(out, fields);
            writeln!(out, "    }}").expect("a string");
        }
        writeln!(out, "    }}").expect("a string");
    }
    let mut source = String::new();
    for (module, body) in &modules {
        writeln!(
            source,
            "pub mod {module} {{\n    use super::{{Field, Reg}};\n{body}}}"
        )
        .expect("a string");
    }
    for (chip, table) in tables {
        let chip = chip.to_uppercase();
        writeln!(source, "pub static {chip}: &[Row] = &[\n{table}];").expect("a string");
    }
    let out = std::env::var("OUT_DIR").expect("OUT_DIR");
    std::fs::write(Path::new(&out).join("registers.rs"), source).expect("OUT_DIR");
}
