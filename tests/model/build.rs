// SPDX-License-Identifier: GPL-2.0
//! Generates constants from data/gfx90a-regs.csv: a module for each IP block, a constant for each
//! register, a module of fields for each register, and a table of all names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const CSV: &str = "data/gfx90a-regs.csv";

/// `NAME[hi:lo]` or `NAME[bit]`.
fn field(token: &str) -> Option<(&str, u32, u32)> {
    let (name, bits) = token.strip_suffix(']')?.split_once('[')?;
    let (hi, lo) = bits.split_once(':').unwrap_or((bits, bits));
    Some((name, hi.parse().ok()?, lo.parse().ok()?))
}

fn main() {
    println!("cargo:rerun-if-changed={CSV}");
    println!("cargo:rerun-if-changed=build.rs");
    let text = std::fs::read_to_string(CSV).expect(CSV);
    let mut modules: BTreeMap<String, String> = BTreeMap::new();
    let mut table = String::from("pub static TABLE: &[(u32, &str, &str)] = &[\n");
    for line in text.lines().filter(|line| line.starts_with("0x")) {
        let columns: Vec<&str> = line.splitn(5, ',').collect();
        let [dword, _, ip, name, fields] = columns[..] else {
            panic!("{CSV}: {line}");
        };
        let name = name.split('(').next().expect("a name");
        let (module, name) = match ip {
            "SDMA0" => ("sdma", name.trim_start_matches("SDMA0_")),
            _ => (ip, name),
        };
        writeln!(table, "    ({dword}, \"{ip}\", \"{name}\"),").expect("a string");
        let out = modules.entry(module.to_lowercase()).or_default();
        writeln!(out, "    pub const {name}: Reg = Reg({dword});").expect("a string");
        writeln!(out, "    pub mod {} {{", name.to_lowercase()).expect("a string");
        writeln!(out, "        use super::Field;").expect("a string");
        for (field, hi, lo) in fields.split_whitespace().filter_map(field) {
            writeln!(
                out,
                "        pub const {}: Field = Field::new({hi}, {lo});",
                field.to_uppercase()
            )
            .expect("a string");
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
    source.push_str(&table);
    source.push_str("];\n");
    let out = std::env::var("OUT_DIR").expect("OUT_DIR");
    std::fs::write(Path::new(&out).join("registers.rs"), source).expect("OUT_DIR");
}
