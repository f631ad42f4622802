// SPDX-License-Identifier: GPL-2.0
//! Register-level model of a GPU, gfx90a (MI210, 1002:740f) or gfx942 (MI300X, 1002:74a1; see
//! [`asic`]), served over vfio-user.
//!
//! It behaves like the hardware, as far as the specification says, and shares no code with the
//! driver. An error of the *driver* (an unknown register, a packet that the engine refuses in VMID
//! 0, a fault of VMID 0, an address outside of VRAM or the DMA mappings, DMA without bus mastering)
//! ends the run with exit status 2. An error of *user space* is an interrupt. Where the
//! specification leaves something open, this was chosen:
//!
//! - *Ring ids* of SDMA interrupts: 0 from the GFX ring, 2 from an RLC queue.
//! - *Refused packets* of a user VMID (unknown opcode or field, misaligned, too large, registers):
//!   the queue halts with its read pointer at the packet, CONTEXT_STATUS.EXCEPTION = 1, IDLE = 1,
//!   and an interrupt of source 247. Its context words are: first dword of the packet, read pointer
//!   low and high, EXCEPTION. The queue goes on when RB_ENABLE goes from 0 to 1, which clears
//!   EXCEPTION. The same for a POLL_REGMEM that runs out of retries (source 246, EXCEPTION 2). A write
//!   pointer more than the ring's size ahead halts the queue with EXCEPTION 4 and no interrupt. A
//!   ring or indirect buffer that faults halts it with EXCEPTION 3 and only the hub's fault
//!   interrupt. The control socket's fail-copy is a refusal, too; in VMID 0 an error of memory
//!   (source 220).
//! - *Opcodes not known*, so refused: SEMAPHORE, COND_EXE, PRE_EXE, DUMMY_TRAP, tiled copies,
//!   FILL_MULTI, the variants of POLL_REGMEM. POLL_REGMEM with function 0 (always) touches nothing
//!   and so is allowed for all, as is the HDP form with the HDP registers; other registers are the
//!   kernel's.
//! - *RB_ENABLE cleared*: takes effect after the current packet, however long that takes (a
//!   sub-window can be terabytes), or between two tries of a poll; then CONTEXT_STATUS.IDLE is set.
//!   Inside an indirect buffer the read pointer is that of the INDIRECT packet, and resuming
//!   executes the buffer from its start. The read pointer can only be written while disabled.
//! - *F32_CNTL*: with HALT no packet begins, and a long copy or fill pauses, to go on when HALT is
//!   cleared. RESET ends it: its queue stops executing, and its read pointer stays at the packet,
//!   which would be executed anew. Other queues' registers stay as they are; their indirect buffers
//!   and polls begin anew. Short packets complete in either case.
//! - *Write pointers* never go down without MINOR_PTR_UPDATE: a doorbell below is ignored (in VMID
//!   0: an error), a register write below the read pointer is an error. A doorbell during
//!   MINOR_PTR_UPDATE counts when that ends. A packet whose end is past the write pointer waits. A
//!   64-bit doorbell stored as two halves acts on the high one. Each store to an engine's doorbells,
//!   of any page, that is not of one whole doorbell raises source 244 (in amdgpu's header: doorbell
//!   byte enables invalid). No source says which ring and VMID such an entry names: 0 was chosen for
//!   both, as a store of the bus has no VMID.
//! - *Time slices*: a queue runs for up to 200 us or until it polls or is empty; RLC queues only
//!   run with AUTO_CTXSW, and with their doorbell enabled: RB_ENABLE alone does not make the rest
//!   run. F32_CNTL.HALT is set out of reset.
//! - *FILL* repeats the four bytes of its data from the first byte on, whatever the fill size. The
//!   bits of its count below the fill size are ignored: fills by dwords may be counted as bytes - 4
//!   (ROCr) or bytes - 1 (KFDTest, PAL on gfx10).
//! - *PTEPDE_COPY and RMW* change the bits of the mask only.
//! - *TIMESTAMP* counts the 100 MHz reference clock; SET moves the engine's own count, GET reads
//!   it.
//! - *Retries*: an access of an SDMA queue that finds nothing valid, or lacks the permission, is
//!   retried until it can be done or finds a PTE that says no retry, if its context has
//!   RETRY_PERMISSION_OR_INVALID_PAGE_FAULT. Each try walks the tables (for this, amdgpu changes
//!   valid entries without a flush) and raises an entry with bit 7 of word 1. Of these the IH's
//!   retry CAM ([`cam`]) lets one for each page and PASID through until it is acknowledged. The
//!   whole engine waits meanwhile, and holds no translation; a reset of it ends that. Waves do the
//!   same if their VMID's SH_MEM_CONFIG.RETRY_DISABLE is clear (XNACK): an instruction begins when
//!   all of its memory is there, and until then its wave repeats it, while others go on; the wave
//!   may be saved there, and executes the instruction when it is back. The CP gives up at once.
//! - *Other faults*: reads give zero, writes are dropped, the engine goes on. Neighbouring pages
//!   that fault in the same way within one access (of at most 2 MiB) make one interrupt, and a
//!   packet that stays at the same page does not repeat it. WALKER_ERROR is 1 for an address out of
//!   range or in the hole, 2 + n for an invalid entry that should lead to level n (0 PTB), and the
//!   PDE0 enable bit stands for all of these; PERMISSION_FAULTS is bit 0 not valid, 1 read, 2
//!   write. STATUS and ADDR keep the first fault until cleared.
//! - *TLB*: leaves go when a request has both L1_PTES and L2_PTES, directory entries of level n
//!   with PDE n. A request's range registers must give the whole address space; out of reset they
//!   give nothing, and the request is acknowledged and flushes nothing. A fragment is trusted: its
//!   first page used decides for all. The acknowledge waits for accesses that use older
//!   translations. A fault interrupts when its context says so and VM_L2_PROTECTION_FAULT_CNTL for
//!   its client.
//! - *BAR0* is VRAM however it is accessed. A driver is refused that enables a context before
//!   HDP_NONSURFACE_BASE says so: its stores to the tables would go elsewhere.
//! - *PCI*: see [`function`] and Documentation/model-pci.md.
//! - *Interrupt ring*: see [`ih`]. With MC_SPACE = 1 IH_CHICKEN.MC_SPACE_GPA_ENABLE has to be set.
//! - *Firmware*: see [`psp`], and [`psp::start`] for its progress when the driver starts. Power and
//!   resets: see [`smu`]; the BIOS ROM: see [`board`].
//! - *HDP flushes* are done at once: a bit of GPU_HDP_FLUSH_DONE stays set from its first request
//!   on, regardless of other requests. A walk of page tables may miss stores of the host that no
//!   flush has followed, see [`hdp`]; everything else sees them at once.
//! - *Memory types*: there are no caches, but leaves, MQDs and control stacks whose types would
//!   make these incoherent are refused ([`walk`]), as is what firmware reads in a form other than
//!   amdgpu's ([`template`]).
//! - *Freedoms* of hardware, which the model takes if it is told to: see [`fate`].
//! - *Command processor*: see [`cp`].
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod access;
pub mod activity;
pub mod asic;
pub mod bar0;
mod bell;
pub mod board;
pub mod cam;
pub mod clock;
pub mod condition;
pub mod config;
pub mod control;
pub mod cp;
pub mod discovery;
pub mod dma;
pub mod error;
pub mod fate;
pub mod function;
pub mod gpu;
pub mod grbm;
pub mod hdp;
pub mod hive;
pub mod hub;
pub mod ih;
pub mod indirect;
pub mod layout;
#[allow(unsafe_code)]
pub mod mapping;
pub mod memory;
pub mod msi;
pub mod nbio;
pub mod own;
pub mod peers;
pub mod psp;
pub mod regs;
pub mod removal;
pub mod sdma;
pub mod server;
pub mod smn;
pub mod smu;
pub mod sq;
pub mod state;
pub mod summary;
pub mod template;
pub mod timing;
pub mod tlb;
pub mod utcl1;
pub mod vm;
pub mod walk;

#[cfg(test)]
mod tests;
