// SPDX-License-Identifier: GPL-2.0
//! The parts of the PCI function that a board may have or lack.

/// What the function has. The default is a card as it comes, as far as that is known: no public
/// listing of an MI210 shows whether it has a function level reset (cards of the Vega generation
/// have none).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// Device id, if it is not the chip's usual one.
    pub device: Option<u16>,
    /// BAR4, 256 bytes of I/O space.
    pub io: bool,
    /// The expansion ROM.
    pub rom: bool,
    /// Power management events.
    pub pme: bool,
    /// MSI.
    pub msi: bool,
    /// MSI-X.
    pub msix: bool,
    /// Function level reset.
    pub flr: bool,
    /// The capability of AMD's own at the beginning of extended configuration space.
    pub vendor: bool,
    /// Resizable BAR.
    pub rebar: bool,
    /// Address translation services.
    pub ats: bool,
    /// SR-IOV, with one virtual function.
    pub sriov: bool,
}

impl Default for Function {
    fn default() -> Function {
        Function {
            device: None,
            io: true,
            rom: true,
            pme: true,
            msi: true,
            msix: true,
            flr: false,
            vendor: true,
            rebar: true,
            ats: true,
            sriov: true,
        }
    }
}

impl Function {
    /// The names of [`Function::change`].
    pub const NAMES: &str = "io, rom, pme, msi, msix, flr, vendor, rebar, ats, sriov";

    /// Adds a part by its name, or takes it away: `flr`, `no-msix`.
    pub fn change(&mut self, text: &str) -> Result<(), String> {
        let (name, has) = match text.strip_prefix("no-") {
            Some(name) => (name, false),
            None => (text, true),
        };
        let part = match name {
            "io" => &mut self.io,
            "rom" => &mut self.rom,
            "pme" => &mut self.pme,
            "msi" => &mut self.msi,
            "msix" => &mut self.msix,
            "flr" => &mut self.flr,
            "vendor" => &mut self.vendor,
            "rebar" => &mut self.rebar,
            "ats" => &mut self.ats,
            "sriov" => &mut self.sriov,
            _ => return Err(format!("{text}: no part of the PCI function")),
        };
        *part = has;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name() {
        let mut function = Function::default();
        assert!(function.msix && !function.flr);
        function.change("no-msix").unwrap();
        function.change("flr").unwrap();
        assert!(!function.msix && function.flr);
        for name in Function::NAMES.split(", ") {
            function.change(&format!("no-{name}")).unwrap();
        }
        for text in ["no-no-msi", "MSI", ""] {
            assert!(function.change(text).is_err(), "{text}");
        }
    }
}
