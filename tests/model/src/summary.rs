// SPDX-License-Identifier: GPL-2.0
//! Counters of the device's work, and their text and JSON forms.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rkfd_shader::counts::{Class, Counts};
use serde_json::{json, Value};

/// A counter.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds one.
    pub fn bump(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Raises the count to `n` if that is more.
    pub fn reach(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }

    /// Resets the count to zero.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Counters by name.
#[derive(Default)]
pub struct Tally(Mutex<BTreeMap<&'static str, u64>>);

impl Tally {
    /// Adds one to the counter called `name`.
    pub fn count(&self, name: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(name).or_default() += 1;
    }

    /// All of them.
    pub fn get(&self) -> BTreeMap<&'static str, u64> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Counters of one SDMA engine.
#[derive(Default)]
pub struct EngineCounts {
    /// Packets completed, by name.
    packets: Tally,
    /// Bytes copied, filled and written by packets.
    pub bytes: Count,
    /// Packets that were refused and halted a user queue.
    pub refused: Count,
}

impl EngineCounts {
    /// Counts a completed packet.
    pub fn packet(&self, name: &'static str) {
        self.packets.count(name);
    }

    fn packets(&self) -> BTreeMap<&'static str, u64> {
        self.packets.get()
    }
}

/// Counters of one XCC: dispatches begun, groups and waves launched.
#[derive(Default)]
#[allow(missing_docs)]
pub struct XccCounts {
    pub dispatches: Count,
    pub groups: Count,
    pub waves: Count,
}

/// All counters.
#[derive(Default)]
#[allow(missing_docs)]
pub struct Summary {
    pub engines: Vec<EngineCounts>,
    pub xccs: Vec<XccCounts>,
    pub bytes_copied: Count,
    pub bytes_filled: Count,
    pub bytes_written: Count,
    /// TIMESTAMP packets to addresses that are no multiple of 32, which ROCr takes care to avoid.
    pub timestamps_unaligned: Count,
    pub tlb_hits: Count,
    pub tlb_walks: Count,
    pub tlb_flushes: Count,
    pub doorbells_sdma: Count,
    pub doorbells_cp: Count,
    pub doorbells_ih: Count,
    pub doorbells_unattached: Count,
    pub ivs: Count,
    pub msis: Count,
    pub msixs: Count,
    pub msis_rearmed: Count,
    pub msis_dropped: Count,
    pub ih_overflows: Count,
    pub ih_lost: Count,
    pub faults: Count,
    /// Faults of retried accesses, their entries that the retry CAM kept out of the ring, its
    /// acknowledgements, those of free places, the retried accesses, and the duration of the
    /// longest, microseconds.
    pub retry_faults: Count,
    pub cam_hits: Count,
    pub cam_acks: Count,
    pub cam_idle_acks: Count,
    pub retried: Count,
    pub longest_retry: Count,
    pub register_reads: Count,
    pub register_writes: Count,
    /// Of registers and doorbells, since the device last ceased to be bus master.
    pub without_master: Count,
    pub dma_maps: Count,
    pub dma_unmaps: Count,
    pub resets: Count,
    /// Times that it lost its power while it was asleep.
    pub power_losses: Count,
    /// Messages that the SMU has completed, and those of them that transferred its measurements.
    pub smu_messages: Count,
    pub smu_measurements: Count,
    /// Packets of compute queues.
    pub pm4: Tally,
    pub aql: Tally,
    /// Queues started, by registers or MQD.
    pub cp_loads: Count,
    /// Queues taken off with their state saved.
    pub cp_dequeues: Count,
    /// Events through EOP buffers.
    pub cp_eops: Count,
    /// Packets refused.
    pub cp_refused: Count,
    /// Runlists begun, assignments of a VMID to a process, and removals of a queue in favour of
    /// others.
    pub cp_runlists: Count,
    pub cp_vmids: Count,
    pub cp_switches: Count,
    /// Queues that hung.
    pub cp_hangs: Count,
    /// Queues that left with a dispatch in progress, and that came back with one.
    pub cp_saves: Count,
    pub cp_restores: Count,
    /// Dispatches begun, groups and waves launched, their instructions by class, and the number of
    /// active lanes of those that have lanes.
    pub sq_dispatches: Count,
    pub sq_groups: Count,
    pub sq_waves: Count,
    pub sq_classes: [Count; Class::ALL.len()],
    pub sq_lanes: Count,
    /// Accesses of lanes to LDS beyond their group's.
    pub sq_outside: Count,
    /// Waves saved and restored, interrupts of waves.
    pub sq_saved: Count,
    pub sq_restored: Count,
    /// Runs of the cleaner shader.
    pub sq_cleaned: Count,
    pub sq_interrupts: Count,
}

impl Summary {
    /// Those of a chip with so many SDMA engines and XCCs.
    pub fn new(engines: usize, xccs: usize) -> Summary {
        Summary {
            engines: (0..engines).map(|_| EngineCounts::default()).collect(),
            xccs: (0..xccs).map(|_| XccCounts::default()).collect(),
            ..Summary::default()
        }
    }

    /// The host's accesses to registers and doorbells.
    pub fn accesses(&self) -> u64 {
        let counts = [
            &self.register_reads,
            &self.register_writes,
            &self.doorbells_sdma,
            &self.doorbells_cp,
            &self.doorbells_ih,
        ];
        counts.into_iter().map(Count::get).sum()
    }

    /// Adds the instructions of waves.
    pub fn count_instructions(&self, counts: &Counts) {
        for (count, &more) in self.sq_classes.iter().zip(&counts.classes) {
            count.add(more);
        }
        self.sq_lanes.add(counts.lanes);
        self.sq_outside.add(counts.outside);
    }

    /// Wave instructions of all classes.
    pub fn instructions(&self) -> u64 {
        self.sq_classes.iter().map(Count::get).sum()
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let mut packets: BTreeMap<&str, u64> = BTreeMap::new();
        for engine in &self.engines {
            for (name, count) in engine.packets() {
                *packets.entry(name).or_default() += count;
            }
        }
        let engines: Vec<Value> = self
            .engines
            .iter()
            .map(|engine| {
                json!({
                    "packets": engine.packets(),
                    "bytes": engine.bytes.get(),
                    "refused": engine.refused.get(),
                })
            })
            .collect();
        let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
        for ((_, name), count) in Class::ALL.iter().zip(&self.sq_classes) {
            classes.insert(name, count.get());
        }
        classes.insert("lanes active", self.sq_lanes.get());
        let xccs = self.xccs.iter().enumerate().map(|(n, xcc)| {
            let counts = json!({
                "dispatches": xcc.dispatches.get(),
                "groups": xcc.groups.get(),
                "waves": xcc.waves.get(),
            });
            (format!("xcc{n}"), counts)
        });
        let refused: u64 = self.engines.iter().map(|engine| engine.refused.get()).sum();
        let mut all = json!({
            "packets": packets,
            "bytes": {
                "copied": self.bytes_copied.get(),
                "filled": self.bytes_filled.get(),
                "written": self.bytes_written.get(),
            },
            "timestamps": {
                "unaligned": self.timestamps_unaligned.get(),
            },
            "tlb": {
                "hits": self.tlb_hits.get(),
                "walks": self.tlb_walks.get(),
                "flushes": self.tlb_flushes.get(),
            },
            "doorbells": {
                "sdma": self.doorbells_sdma.get(),
                "cp": self.doorbells_cp.get(),
                "ih": self.doorbells_ih.get(),
                "unattached": self.doorbells_unattached.get(),
            },
            "interrupts": {
                "ivs": self.ivs.get(),
                "msis": self.msis.get(),
                "msixs": self.msixs.get(),
                "rearmed": self.msis_rearmed.get(),
                "dropped": self.msis_dropped.get(),
                "overflows": self.ih_overflows.get(),
                "lost": self.ih_lost.get(),
            },
            "faults": self.faults.get(),
            "retries": {
                "accesses": self.retried.get(),
                "acks": self.cam_acks.get(),
                "faults": self.retry_faults.get(),
                "filtered": self.cam_hits.get(),
                "idle_acks": self.cam_idle_acks.get(),
                "longest_us": self.longest_retry.get(),
            },
            "refused": refused,
            "registers": {
                "reads": self.register_reads.get(),
                "without_master": self.without_master.get(),
                "writes": self.register_writes.get(),
            },
            "dma": {
                "maps": self.dma_maps.get(),
                "unmaps": self.dma_unmaps.get(),
            },
            "resets": self.resets.get(),
            "power": {
                "losses": self.power_losses.get(),
            },
            "smu": {
                "messages": self.smu_messages.get(),
                "measurements": self.smu_measurements.get(),
            },
            "pm4": self.pm4.get(),
            "aql": self.aql.get(),
            "cp": {
                "loads": self.cp_loads.get(),
                "dequeues": self.cp_dequeues.get(),
                "eops": self.cp_eops.get(),
                "refused": self.cp_refused.get(),
                "hangs": self.cp_hangs.get(),
                "runlists": self.cp_runlists.get(),
                "vmids": self.cp_vmids.get(),
                "switches": self.cp_switches.get(),
                "saves": self.cp_saves.get(),
                "restores": self.cp_restores.get(),
            },
            "sq": {
                "dispatches": self.sq_dispatches.get(),
                "groups": self.sq_groups.get(),
                "waves": self.sq_waves.get(),
                "instructions": self.instructions(),
                "saved": self.sq_saved.get(),
                "restored": self.sq_restored.get(),
                "cleaned": self.sq_cleaned.get(),
                "interrupts": self.sq_interrupts.get(),
                "lds_outside": self.sq_outside.get(),
            },
            "instructions": classes,
            "engines": engines,
        });
        if let (Value::Object(groups), true) = (&mut all, self.xccs.len() > 1) {
            groups.extend(xccs);
        }
        all
    }

    /// One line for each group of counters.
    pub fn text(&self) -> String {
        let mut text = String::from("rkfd-model summary\n");
        let json = self.json();
        let Value::Object(groups) = &json else {
            return text;
        };
        for (name, value) in groups {
            match value {
                Value::Object(counts) => {
                    let counts: Vec<String> = counts
                        .iter()
                        .map(|(key, count)| format!("{key} {count}"))
                        .collect();
                    let _ = writeln!(text, "  {name}: {}", counts.join(", "));
                }
                Value::Array(engines) => {
                    for (n, engine) in engines.iter().enumerate() {
                        let packets: u64 = engine["packets"]
                            .as_object()
                            .map_or(0, |p| p.values().filter_map(Value::as_u64).sum());
                        let _ = writeln!(
                            text,
                            "  sdma{n}: packets {packets}, bytes {}, refused {}",
                            engine["bytes"], engine["refused"]
                        );
                    }
                }
                other => {
                    let _ = writeln!(text, "  {name}: {other}");
                }
            }
        }
        text
    }
}
