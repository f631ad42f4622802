// SPDX-License-Identifier: GPL-2.0
//! The order of turns, and the way of queues to the hardware and off it.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use super::super::gang::Gang;
use super::super::hqd::Hqd;
use super::super::mec::{Departure, State};
use super::super::{mqd, process, Slot};
use super::place::{Place, Room};
use super::{Engine, Entry, MapQueue, Runlist, Targets, Unmap};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::regs::gc::{self, cp_hqd_pq_doorbell_control as doorbell};
use crate::sdma;

/// The time that a queue after its time slice may take to leave before its place counts as taken.
const LEAVE: Duration = Duration::from_millis(100);

/// The order in which queues get a place.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Stays,
    Wants(u64, Instant),
    /// The queue that has been there longest makes room.
    Runs(Reverse<Instant>),
    Idle,
    Absent,
}

impl State {
    /// Schedules the next queues of the runlist; all of them if they fit.
    pub(in crate::cp) fn schedule(&mut self, gpu: &Gpu, now: Instant) -> Result<()> {
        let Some(mut list) = self.list.take() else {
            return Ok(());
        };
        let result = self.rotate(gpu, &mut list, now);
        self.list = Some(list);
        result
    }

    fn rotate(&mut self, gpu: &Gpu, list: &mut Runlist, now: Instant) -> Result<()> {
        // Within a turn only places that have become free are filled.
        let within = list.has_vacancy(gpu, &self.hqds)
            && list.turn_end(&self.hqds, now).is_some_and(|end| now < end);
        for entry in &mut list.entries {
            if let Some(place) = entry.place {
                if !place.is_loaded(gpu, &self.hqds) {
                    let leaving = entry.leaving.take();
                    entry.place = None;
                    entry.lost = leaving.is_none();
                    entry.wants = leaving.map(|_| now);
                }
            }
        }
        if !within {
            let chosen = self.choose_entries(gpu, list, now);
            for (n, entry) in list.entries.iter_mut().enumerate() {
                entry.turn = chosen.contains(&n);
            }
        }
        for entry in list.entries.iter_mut().filter(|entry| !entry.turn) {
            if let (Some(place), None) = (entry.place, entry.leaving) {
                let work = place.has_work(gpu, &self.hqds);
                let served = match place.runs_waves(&self.hqds) {
                    // Waves that go on are no packets: by these it would have the place behind
                    // queues with fewer of them for as long as it and they run a kernel.
                    true => list.floor,
                    false => entry.served + place.packets(&self.hqds),
                };
                match self.leave(gpu, place, &entry.map)? {
                    Departure::Hangs => continue,
                    Departure::Waves => entry.leaving = Some(now),
                    Departure::Gone => {
                        gpu.summary.cp_switches.bump();
                        entry.place = None;
                        entry.wants = work.then_some(now);
                    }
                }
                entry.served = served;
            }
        }
        let wanting = list.entries.iter().filter(|entry| entry.wants.is_some());
        list.floor = wanting
            .map(|entry| entry.served)
            .min()
            .unwrap_or(list.floor);
        self.release_vmids(gpu, list);
        list.stuck = true;
        // The queue that has waited longest comes first.
        let has_turn = |entry: &&mut Entry| entry.turn && !entry.lost;
        let mut turns: Vec<&mut Entry> = list.entries.iter_mut().filter(has_turn).collect();
        turns.sort_by_key(|entry| (entry.wants.is_none(), entry.served, entry.wants));
        let mut cleaned = false;
        for entry in turns {
            if let Some(place) = entry.place {
                if let Place::Sdma(engine, place) = place {
                    gpu.sdma[engine].keep(place);
                }
                continue;
            }
            let here = list.processes.iter().filter(|other| other.vmid.is_some());
            let is_full = list.at_once != 0 && here.count() >= list.at_once;
            let process = &mut list.processes[entry.process];
            let vmid = match process.vmid {
                Some(vmid) => vmid,
                None => match self.free_vmid().filter(|_| !is_full) {
                    Some(vmid) => {
                        if process.cleans {
                            self.clean(gpu, list.gang, list.at_once)?;
                            cleaned = true;
                        }
                        process.assign(gpu, list.gang, vmid);
                        self.vmids_used |= 1 << vmid;
                        vmid
                    }
                    None => continue,
                },
            };
            let Some(place) = self.enter(gpu, &entry.map, vmid, list.gang)? else {
                continue;
            };
            entry.place = Some(place);
            entry.came = now;
            entry.wants = None;
            list.stuck = false;
        }
        if !within {
            // The cleaner's time is not a part of the turn.
            list.turn_begin = Some(if cleaned { Instant::now() } else { now });
        }
        Ok(())
    }

    /// Puts a queue on the hardware, if there is a place for it.
    fn enter(&mut self, gpu: &Gpu, map: &MapQueue, vmid: u8, gang: Gang) -> Result<Option<Place>> {
        let Engine::Sdma(engine) = map.engine else {
            let Some(slot) = self.free_slot(gang) else {
                return Ok(None);
            };
            let load = self.load(gpu, slot, map, vmid, gang)?;
            return Ok(Some(Place::Hqd(slot, load, gang)));
        };
        let mapping = sdma::Mapping {
            mqd: map.mqd,
            vmid,
            doorbell: map.doorbell,
            wptr: map.wptr,
        };
        let place = gpu.sdma[engine].map(gpu, &mapping)?;
        Ok(place.map(|place| {
            gpu.summary.cp_loads.bump();
            Place::Sdma(engine, place)
        }))
    }

    /// Takes a queue off the hardware.
    fn leave(&mut self, gpu: &Gpu, place: Place, map: &MapQueue) -> Result<Departure> {
        match place {
            Place::Hqd(..) => {
                let slots: Vec<Slot> = place.hqds(&self.hqds).map(|(slot, _)| slot).collect();
                let mut last = Departure::Gone;
                for slot in slots {
                    last = last.max(self.take_off(gpu, slot)?);
                }
                Ok(last)
            }
            Place::Sdma(engine, place) => {
                if !gpu.sdma[engine].unmap(gpu, place, map.mqd)? {
                    return Ok(Departure::Hangs);
                }
                gpu.summary.cp_dequeues.bump();
                Ok(Departure::Gone)
            }
        }
    }

    /// Free places of all engines.
    fn room(&self, gpu: &Gpu, gang: Gang) -> Room {
        Room {
            compute: self.free_slots(gang).count(),
            sdma: std::array::from_fn(|n| gpu.sdma.get(n).map_or(0, |engine| engine.free_queues())),
        }
    }

    /// The entries that are to be on the hardware in the turn that begins. A queue that is about to
    /// leave counts as gone, unless it has taken long.
    fn choose_entries(&self, gpu: &Gpu, list: &Runlist, now: Instant) -> Vec<usize> {
        let mut order: Vec<(Rank, usize)> = Vec::new();
        for (n, entry) in list.entries.iter().enumerate().filter(|(_, e)| !e.lost) {
            let goes = entry.leaving.is_some_and(|since| now < since + LEAVE);
            let rank = match (entry.place, entry.wants) {
                (Some(_), _) if goes => continue,
                (Some(place), _) if place.stays(&self.hqds) => Rank::Stays,
                (Some(place), _) if place.has_work(gpu, &self.hqds) => {
                    Rank::Runs(Reverse(entry.came))
                }
                (Some(_), _) => Rank::Idle,
                (None, Some(since)) => Rank::Wants(entry.served, since),
                (None, None) => Rank::Absent,
            };
            order.push((rank, n));
        }
        order.sort();
        let mut room = self.room(gpu, list.gang);
        for entry in list.entries.iter().filter(|entry| entry.place.is_some()) {
            *room.of(entry.map.engine) += 1;
        }
        let at_once = match list.at_once {
            0 => usize::MAX,
            n => n,
        };
        let vmids = (self.resources.vmids.count_ones() as usize).min(at_once);
        let mut processes: Vec<usize> = Vec::new();
        let mut chosen = Vec::new();
        for (_, n) in order {
            let process = list.entries[n].process;
            let left = room.of(list.entries[n].map.engine);
            if *left == 0 {
                continue;
            }
            if !processes.contains(&process) {
                if processes.len() == vmids {
                    continue;
                }
                processes.push(process);
            }
            *left -= 1;
            chosen.push(n);
        }
        chosen
    }

    /// Free slots of the HIQ's, spread over the pipes.
    fn free_slots(&self, gang: Gang) -> impl Iterator<Item = Slot> + '_ {
        let mut slots: Vec<Slot> = Slot::all(gang.lead()).collect();
        slots.sort_by_key(|slot| (slot.queue(), slot.me(), slot.pipe()));
        slots.into_iter().filter(move |slot| {
            let mut hqds = gang.slots(*slot).map(|slot| &self.hqds[slot.index()]);
            self.resources.queues >> slot.local() & 1 == 1 && !hqds.any(Hqd::is_active)
        })
    }

    fn free_slot(&self, gang: Gang) -> Option<Slot> {
        self.free_slots(gang).next()
    }

    fn free_vmid(&self) -> Option<u8> {
        let free = self.resources.vmids & !self.vmids_used;
        (free != 0).then(|| free.trailing_zeros() as u8)
    }

    /// Frees the VMIDs of processes without a queue on the hardware.
    fn release_vmids(&mut self, gpu: &Gpu, list: &mut Runlist) {
        for (n, process) in list.processes.iter_mut().enumerate() {
            let used = |entry: &Entry| entry.process == n && entry.place.is_some();
            if list.entries.iter().any(used) {
                continue;
            }
            if let Some(vmid) = process.vmid.take() {
                process::release(gpu, list.gang, vmid);
                self.vmids_used &= !(1 << vmid);
            }
        }
    }

    /// Loads a queue's MQDs into `slot` of each XCC and starts it. Returns the number of that load
    /// of the HQDs.
    pub(in crate::cp) fn load(
        &mut self,
        gpu: &Gpu,
        slot: Slot,
        map: &MapQueue,
        vmid: u8,
        gang: Gang,
    ) -> Result<u64> {
        let stride = match gang.size() {
            1 => 0,
            _ => mqd::stride(&gpu.xcc(gang.lead()), map.mqd)?,
        };
        let slots: Vec<Slot> = gang.slots(slot).collect();
        for (n, &slot) in (0..).zip(&slots) {
            let mqd = map.mqd + n * stride;
            let map = MapQueue { mqd, ..*map };
            self.load_one(&gpu.xcc(slot.xcc()), slot, &map, vmid)?;
        }
        let hqds = slots
            .iter()
            .map(|slot| self.hqds[slot.index()].generation());
        let generation = hqds.max().unwrap_or(0);
        for slot in slots {
            self.hqds[slot.index()].set_generation(generation);
        }
        Ok(generation)
    }

    fn load_one(&mut self, gpu: &Gpu, slot: Slot, map: &MapQueue, vmid: u8) -> Result<()> {
        let hqd = &mut self.hqds[slot.index()];
        mqd::load(gpu, hqd, map.mqd)?;
        let control = hqd.regs.get(gc::CP_HQD_PQ_DOORBELL_CONTROL);
        let control = doorbell::DOORBELL_OFFSET.put(control, map.doorbell);
        let control = doorbell::DOORBELL_HIT.put(control, 0);
        hqd.regs.put(
            gc::CP_HQD_PQ_DOORBELL_CONTROL,
            doorbell::DOORBELL_EN.put(control, 1),
        );
        hqd.regs.put_wide(gc::CP_MQD_BASE_ADDR, map.mqd);
        hqd.regs.put_wide(gc::CP_HQD_PQ_WPTR_POLL_ADDR, map.wptr);
        hqd.regs.put(gc::CP_HQD_VMID, vmid.into());
        let reports = mqd::reports(gpu, slot.xcc())?;
        hqd.regs.check(reports).map_err(|reason| {
            let mqd = map.mqd;
            crate::error::ModelError::Other(format!("{slot}: MQD at {mqd:#x}: {reason}"))
        })?;
        hqd.activate();
        hqd.request_poll();
        gpu.summary.cp_loads.bump();
        self.restore(gpu, slot)
    }

    /// Takes queues of the runlist off and out of it. Returns false if one of them hangs.
    pub(in crate::cp) fn drop_entries(&mut self, gpu: &Gpu, unmap: &Unmap) -> Result<bool> {
        let Some(mut list) = self.list.take() else {
            return Ok(true);
        };
        let meant = |entry: &Entry| match &unmap.targets {
            Targets::All => true,
            Targets::Dynamic => !entry.map.is_static,
            Targets::Pasid(pasid) => list.processes[entry.process].pasid == *pasid,
            Targets::Doorbells(all) => all.contains(&entry.map.doorbell),
        };
        let mut left = Vec::new();
        let mut gone = true;
        for mut entry in list.entries {
            if !meant(&entry) {
                left.push(entry);
                continue;
            }
            let loaded = |place: &Place| place.is_loaded(gpu, &self.hqds);
            let Some(place) = entry.place.filter(loaded) else {
                continue;
            };
            if unmap.reset {
                let slots: Vec<Slot> = place.hqds(&self.hqds).map(|(slot, _)| slot).collect();
                for slot in slots {
                    self.hqds[slot.index()].unhang();
                }
            }
            if self.leave(gpu, place, &entry.map)? != Departure::Gone {
                gone = false;
                entry.unwanted = true;
                left.push(entry);
            }
        }
        list.entries = left;
        self.release_vmids(gpu, &mut list);
        self.list = (!list.entries.is_empty()).then_some(list);
        Ok(gone)
    }

    /// Abandons the queues that the driver wants off and that have not left: they get no turn any
    /// more, and keep place and VMID.
    pub(in crate::cp) fn abandon(&mut self) {
        let entries = self.list.iter_mut().flat_map(|list| &mut list.entries);
        for entry in entries.filter(|entry| entry.unwanted) {
            entry.lost = true;
            entry.turn = false;
            entry.leaving = None;
            if let Some(Place::Hqd(slot, load, gang)) = entry.place {
                let slots = gang.slots(slot).map(|slot| (slot, load));
                self.abandoned.extend(slots);
            }
        }
    }

    /// Returns whether a queue that was abandoned is still there.
    pub(in crate::cp) fn has_abandoned(&mut self) -> bool {
        let hqds = &self.hqds;
        self.abandoned
            .retain(|&(slot, load)| hqds[slot.index()].is_loaded(load));
        !self.abandoned.is_empty()
    }

    /// The list in the form that runs from now on. An error if it cannot run.
    pub(in crate::cp) fn begin_list(
        &mut self,
        gpu: &Gpu,
        list: Runlist,
        now: Instant,
    ) -> Result<std::result::Result<(), &'static str>> {
        if self.has_abandoned() {
            return Ok(Err(
                "RUN_LIST while a queue of the list before has not left",
            ));
        }
        let mut room = self.room(gpu, list.gang);
        let vmids = self.resources.vmids.count_ones() as usize;
        let of_compute = |entry: &Entry| entry.map.engine == Engine::Compute;
        let compute = list.entries.iter().any(of_compute);
        if compute && room.compute == 0 || !list.entries.is_empty() && vmids == 0 {
            return Ok(Err("RUN_LIST without SET_RESOURCES"));
        }
        let mut fits = list.processes.len() <= vmids;
        for entry in &list.entries {
            match room.of(entry.map.engine) {
                0 if !of_compute(entry) => {
                    return Ok(Err("more SDMA queues than the engine has RLC queues"));
                }
                0 => fits = false,
                left => *left -= 1,
            }
        }
        if !list.repeats && !fits {
            return Ok(Err(
                "the runlist does not fit and is not chained to its start",
            ));
        }
        gpu.summary.cp_runlists.bump();
        for _ in &list.processes {
            gpu.summary.pm4.count("MAP_PROCESS");
        }
        for _ in &list.entries {
            gpu.summary.pm4.count("MAP_QUEUES");
        }
        self.list = Some(list);
        self.schedule(gpu, now)?;
        Ok(Ok(()))
    }
}
