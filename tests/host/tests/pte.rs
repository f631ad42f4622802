// SPDX-License-Identifier: GPL-2.0
//! Page-table entries, bit by bit as in the specification.

use hw::asic::gfx90a::MI210;
use hw::no_retry::{self, NoRetryTables};
use hw::pte::{
    Coherence, ContextBase, MemoryResidence, Mtype, PageAccess, Pde, Pte, PteFlags, PteFragment,
};
use hw::va::TableLevel;
use proptest::prelude::*;
use rkfd_host_tests::{entry, order};

fn flags() -> impl Strategy<Value = PteFlags> {
    let mtype = prop_oneof![
        Just(Mtype::Nc),
        Just(Mtype::Rw),
        Just(Mtype::Cc),
        Just(Mtype::Uc)
    ];
    (any::<[bool; 5]>(), mtype).prop_map(|([r, w, x, snooped, system], mtype)| PteFlags {
        readable: r,
        writeable: w,
        executable: x,
        snooped,
        system,
        mtype,
    })
}

proptest! {
    #[test]
    fn a_page_reads_back(address in 0u64..1 << 36, flags in flags(), order in 0u32..32) {
        let entry = Pte::page(address << 12, flags, PteFragment::new(order));
        prop_assert!(entry::is_valid(entry.raw()));
        prop_assert_eq!(entry::address(entry.raw()), address << 12);
        prop_assert_eq!(entry::flags(entry.raw()), flags);
        prop_assert_eq!(entry::order(entry.raw()), order);
        // Nothing but the fields of a PTE: bits 3, 56:48 and 63:59 are clear.
        prop_assert_eq!(entry.raw() & 0xf9ff_0000_0000_0008, 0);
    }

    #[test]
    fn no_address_reaches_the_flag_bits(address: u64) {
        let entry = Pte::page(address, PteFlags::default(), PteFragment::PAGE);
        prop_assert_eq!(entry.raw() & !0x0000_ffff_ffff_f000, 1);
        for level in [TableLevel::Pdb2, TableLevel::Pdb1, TableLevel::Pdb0] {
            let empty = Pde::table(level, 0).unwrap().raw();
            let table = Pde::table(level, address).unwrap();
            prop_assert_eq!(table.raw(), empty | address & 0x0000_ffff_ffff_ffc0);
        }
    }
}

#[test]
fn each_flag_has_its_bit() {
    let one = |change: fn(&mut PteFlags)| {
        let mut flags = PteFlags::default();
        change(&mut flags);
        flags.bits()
    };
    assert_eq!(one(|f| f.system = true), 1 << 1);
    assert_eq!(one(|f| f.snooped = true), 1 << 2);
    assert_eq!(one(|f| f.executable = true), 1 << 4);
    assert_eq!(one(|f| f.readable = true), 1 << 5);
    assert_eq!(one(|f| f.writeable = true), 1 << 6);
    assert_eq!(one(|f| f.mtype = Mtype::Rw), 1 << 57);
    assert_eq!(one(|f| f.mtype = Mtype::Cc), 2 << 57);
    assert_eq!(one(|f| f.mtype = Mtype::Uc), 3 << 57);
    let fragment = Pte::page(0, PteFlags::default(), PteFragment::new(9));
    assert_eq!(fragment.raw(), 9 << 7 | 1);
}

#[test]
fn a_gart_entry_is_uncached_snooped_host_memory() {
    // UC, EXECUTABLE, VALID, SYSTEM, SNOOPED, READABLE, WRITEABLE.
    assert_eq!(
        Pte::gart(0x1_2345_6000, Mtype::Uc).raw(),
        3 << 57 | 0x1_2345_6000 | 0b111_0111
    );
    assert_eq!(
        Pte::gart(0x1_2345_6000, Mtype::Nc).raw(),
        0x1_2345_6000 | 0b111_0111
    );
}

#[test]
fn directories_are_in_the_translate_further_form() {
    let table = 0x12_3456_7000;
    assert_eq!(
        Pde::table(TableLevel::Pdb2, table).unwrap().raw(),
        table | 1
    );
    assert_eq!(
        Pde::table(TableLevel::Pdb1, table).unwrap().raw(),
        9 << 59 | table | 1
    );
    assert_eq!(
        Pde::table(TableLevel::Pdb0, table).unwrap().raw(),
        1 << 56 | table | 1
    );
    assert!(Pde::table(TableLevel::Ptb, table).is_none());
    for level in [TableLevel::Pdb2, TableLevel::Pdb1, TableLevel::Pdb0] {
        let entry = Pde::table(level, table).unwrap();
        assert!(!entry::is_leaf(entry.raw(), level));
    }
}

#[test]
fn entries_of_new_tables_map_nothing() {
    for level in [
        TableLevel::Pdb2,
        TableLevel::Pdb1,
        TableLevel::Pdb0,
        TableLevel::Ptb,
    ] {
        assert!(!entry::is_valid(Pde::invalid(level)));
    }
    assert_eq!(Pde::invalid(TableLevel::Ptb), 1 << 4);
    assert_eq!(Pde::invalid(TableLevel::Pdb0), 1 << 12);
    assert!(entry::is_leaf(
        Pde::invalid(TableLevel::Pdb0),
        TableLevel::Pdb0
    ));
}

#[test]
fn memory_types_follow_the_policy_of_gfx90a() {
    let plain = Coherence::default();
    let coherent = Coherence {
        coherent: true,
        ..Coherence::default()
    };
    let uncached = Coherence {
        uncached: true,
        ..Coherence::default()
    };
    let both = Coherence {
        coherent: true,
        uncached: true,
        ..Coherence::default()
    };
    for (residence, coherence, mtype) in [
        (MemoryResidence::LocalVram, plain, Mtype::Rw),
        (MemoryResidence::LocalVram, coherent, Mtype::Cc),
        (MemoryResidence::LocalVram, uncached, Mtype::Uc),
        (MemoryResidence::LocalVram, both, Mtype::Uc),
        (MemoryResidence::Hive, plain, Mtype::Nc),
        (MemoryResidence::Hive, coherent, Mtype::Uc),
        (MemoryResidence::Hive, uncached, Mtype::Uc),
        (MemoryResidence::Host, plain, Mtype::Nc),
        (MemoryResidence::Host, coherent, Mtype::Uc),
        (MemoryResidence::Host, uncached, Mtype::Uc),
        (MemoryResidence::Host, both, Mtype::Uc),
    ] {
        assert_eq!(MI210.pte.mtype(residence, coherence), mtype);
        let flags = MI210
            .pte
            .flags(residence, PageAccess::READ.executable(), coherence);
        let host = residence == MemoryResidence::Host;
        assert_eq!(
            flags,
            PteFlags {
                readable: true,
                writeable: false,
                executable: true,
                snooped: residence != MemoryResidence::LocalVram,
                system: host,
                mtype
            }
        );
    }
}

#[test]
fn a_context_base_is_the_root_with_valid() {
    let base = ContextBase::new(0x12_3456_7000);
    assert_eq!((base.lo(), base.hi()), (0x3456_7001, 0x12));
    assert_eq!(base.raw(), 0x12_3456_7001);
    assert_eq!(ContextBase::NONE.raw(), 0);
}

#[test]
fn a_fragment_stays_in_its_field() {
    assert_eq!(order(PteFragment::PAGE), 0);
    assert_eq!(order(PteFragment::new(40)), 31);
}

#[test]
fn tables_without_retry_lead_everywhere_to_the_same_entry() {
    const FIRST: u64 = 0x12_3000;
    let tables: Vec<(u64, u64)> = NoRetryTables::at(FIRST).tables().collect();
    assert_eq!(NoRetryTables::at(FIRST).base(), ContextBase::new(FIRST));
    assert_eq!(no_retry::BYTES, 4 * 4096);
    let levels = [TableLevel::Pdb2, TableLevel::Pdb1, TableLevel::Pdb0];
    for (n, level) in levels.into_iter().enumerate() {
        let next = FIRST + (n as u64 + 1) * 4096;
        let entry = Pde::table(level, next).unwrap();
        assert!(!entry::is_leaf(entry.raw(), level) && entry::is_valid(entry.raw()));
        assert_eq!(tables[n], (n as u64 * 4096, entry.raw()));
    }
    // VALID, SYSTEM and PRT (51), and no address.
    assert_eq!(tables[3..], [(3 * 4096, 0x0008_0000_0000_0003)]);
    assert_eq!(Pte::NO_RETRY.raw(), tables[3].1);
}
