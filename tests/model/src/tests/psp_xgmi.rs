// SPDX-License-Identifier: GPL-2.0
//! The trusted application for XGMI.

use super::psp_rig::*;
use super::rig::*;
use crate::psp::commands::{BAD_PARAMETERS, BAD_STATE, SECURITY};
use crate::psp::image::Kind;

const IMAGE: u64 = 40 * MIB;
const BUFFER: u64 = 41 * MIB;
const ANSWERED: u32 = 1 << 31;

/// A member of a hive of four cards with its PSP at work.
fn member() -> Psp {
    let mut psp = Psp::in_hive("0/4:8192");
    psp.good_ring();
    psp
}

fn load(psp: &mut Psp, image: &[u8]) -> u32 {
    psp.rig.poke(vram(IMAGE), image);
    let (at, buffer) = (FB + IMAGE, FB + BUFFER);
    let bytes = image.len() as u32;
    let arguments = [lo(at), hi(at), bytes, lo(buffer), hi(buffer), 0x4000];
    psp.command(1, &arguments).unwrap().status
}

/// Executes a command with these words at `at` of the buffer. Returns the TA's status.
fn invoke(psp: &mut Psp, command: u32, at: u64, words: &[u32]) -> u32 {
    psp.rig.poke(vram(BUFFER), &[0; 0x820]);
    psp.rig.poke(vram(BUFFER), &command.to_le_bytes());
    for (n, word) in (0..).zip(words) {
        let place = vram(BUFFER + at + 4 * n);
        psp.rig.poke(place, &word.to_le_bytes());
    }
    assert_eq!(psp.command(3, &[1, command]).unwrap().status, 0);
    assert_eq!(word(psp, 4), command | ANSWERED);
    word(psp, 8)
}

fn word(psp: &Psp, at: u64) -> u32 {
    psp.rig.peek32(vram(BUFFER + at))
}

/// A list of nodes of the hive.
fn list(nodes: &[u32]) -> Vec<u32> {
    let mut words = vec![nodes.len() as u32, 0];
    for node in nodes {
        words.extend([0x7700_0001 + node * 0x100, 0x8c31_02f4, 0x100, !0]);
    }
    words
}

#[test]
fn it_is_loaded_once() {
    let mut psp = member();
    assert_eq!(load(&mut psp, &sample(Kind::XGMI_TA)), BAD_STATE);
    assert_eq!(psp.set_up_tmr(), Ok(0));
    assert_eq!(load(&mut psp, &sample(Kind::RLC)), SECURITY);
    assert_eq!(load(&mut psp, &sample(Kind::XGMI_TA)), 0);
    assert_eq!(psp.rig.peek32(psp.session_place()), 1);
    assert_eq!(load(&mut psp, &sample(Kind::XGMI_TA)), BAD_STATE);
    assert_eq!(psp.command(3, &[7, 0]).unwrap().status, BAD_PARAMETERS);
    assert_eq!(psp.command(2, &[1]).unwrap().status, 0);
    assert_eq!(psp.command(2, &[1]).unwrap().status, BAD_PARAMETERS);
}

#[test]
fn ids_hops_and_links() {
    let mut psp = member();
    assert_eq!(psp.set_up_tmr(), Ok(0));
    assert_eq!(load(&mut psp, &sample(Kind::XGMI_TA)), 0);
    // Not before it is initialized; not before the nodes are set, nor about others.
    assert_eq!(invoke(&mut psp, 2, 0x10, &[]), 4);
    assert_eq!(invoke(&mut psp, 0, 0x10, &[]), 0);
    assert_eq!(invoke(&mut psp, 3, 0x10, &list(&[0, 1])), 7);
    assert_eq!(invoke(&mut psp, 4, 0x10, &list(&[1, 2])), 6);
    assert_eq!(invoke(&mut psp, 4, 0x10, &list(&[0, 1, 1])), 6);
    assert_eq!(invoke(&mut psp, 4, 0x10, &list(&[])), 5);
    assert_eq!(invoke(&mut psp, 2, 0x10, &[]), 0);
    assert_ne!(word(&psp, 0x418), 0);
    assert_eq!(invoke(&mut psp, 1, 0x10, &[]), 0);
    assert_eq!(word(&psp, 0x418), 0x7700_0001);
    assert_eq!(invoke(&mut psp, 4, 0x10, &list(&[0, 2])), 0);
    assert_eq!(invoke(&mut psp, 3, 0x10, &list(&[0, 1])), 7);
    assert_eq!(invoke(&mut psp, 3, 0x10, &list(&[0, 2])), 0);
    assert_eq!([word(&psp, 0x418), word(&psp, 0x430)], [2, 0x7700_0201]);
    assert_eq!([word(&psp, 0x428) & 0xff, word(&psp, 0x438) & 0xff], [0, 1]);
    assert_eq!(invoke(&mut psp, 0xb, 0x418, &list(&[0, 2])), 0);
    assert_eq!([word(&psp, 0x428) & 0xff, word(&psp, 0x438) & 0xff], [0, 1]);
    // The second set of records has none.
    assert_eq!(invoke(&mut psp, 0, 0xc, &[1]), 0);
    assert_eq!(invoke(&mut psp, 0xb, 0x418, &list(&[0, 2])), 0);
    assert_eq!(word(&psp, 0x438) & 0xff, 0);
}

#[test]
fn faults() {
    let mut psp = member();
    assert_eq!(psp.set_up_tmr(), Ok(0));
    psp.fault("ta=unloaded");
    assert_eq!(load(&mut psp, &sample(Kind::XGMI_TA)), SECURITY);
    psp.fault("ta=0x9");
    assert_eq!(load(&mut psp, &sample(Kind::XGMI_TA)), 0);
    assert_eq!(invoke(&mut psp, 0, 0x10, &[]), 9);
    psp.fault("ta=no-hive");
    assert_eq!(invoke(&mut psp, 0, 0x10, &[]), 0);
    assert_eq!(invoke(&mut psp, 2, 0x10, &[]), 0);
    assert_eq!([word(&psp, 0x418), word(&psp, 0x41c)], [0, 0]);
    psp.fault("ta=no-hops");
    assert_eq!(invoke(&mut psp, 4, 0x10, &list(&[0, 2])), 0);
    assert_eq!(invoke(&mut psp, 3, 0x10, &list(&[0, 2])), 0);
    assert_eq!(word(&psp, 0x438) & 0xff, 0);
    psp.fault("ta=many-links");
    assert_eq!(invoke(&mut psp, 0xb, 0x418, &list(&[0, 2])), 0);
    assert_eq!(word(&psp, 0x438) & 0xff, 9);
}
