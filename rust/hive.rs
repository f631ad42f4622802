// SPDX-License-Identifier: GPL-2.0
//! The hives: which GPUs XGMI joins, and how each reaches the others. The PSP's application of each
//! GPU tells the numbers and the ways; all that it tells is checked. A GPU joins when it is bound,
//! and leaves when it is unbound, in any order and at any time.

mod files;

pub(crate) use files::HiveFiles;

use core::fmt;

use hw::xgmi::ta::{HiveId, NodeId, NodeList, TaError, XgmiWay, MOST_NODES};
use hw::xgmi::{HivePlace, HiveWays, XgmiPlace};
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

use crate::health::{WedgeReport, WedgedPart};
use crate::ip::hive_reset::HiveReset;
use crate::ip::psp::xgmi::{log_without_xgmi, SharedPsp, XgmiFailure};
use crate::ip::Hardware;
use crate::kern::arc_slot::{ArcSlot, FilledSlot};

/// The module's only list of hives.
static HIVES: ArcSlot<HiveList> = ArcSlot::new();

/// The members of all hives.
#[pin_data]
struct HiveList {
    /// Held while the applications of all members of a hive are asked, so that one after the other
    /// joins: two seconds for each PSP that does not answer. Outside of the lock of a PSP.
    #[pin]
    members: Mutex<KVec<HiveMember>>,
}

/// Keeps the list while the module is loaded.
pub(crate) struct HiveRegistration {
    _filled: FilledSlot<HiveList>,
}

impl HiveRegistration {
    /// No hive.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let list = Arc::pin_init(
            pin_init!(HiveList {
                members <- kernel::new_mutex!(KVec::new(), "HiveList::members"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self {
            _filled: HIVES.fill(list)?,
        })
    }
}

/// A GPU of a hive.
struct HiveMember {
    hive: HiveId,
    node: NodeId,
    psp: Arc<SharedPsp>,
    ways: HiveWays,
    hw: Arc<Hardware>,
}

/// Why a GPU cannot join the others of its hive.
enum JoinFailure {
    /// It is another chip than they are.
    Chip,
    /// Its registers tell another hive than theirs.
    Place,
    /// They fill the hive.
    Full,
    /// The application of one of the GPUs fails.
    Xgmi(XgmiFailure),
}

impl From<XgmiFailure> for JoinFailure {
    fn from(failure: XgmiFailure) -> Self {
        Self::Xgmi(failure)
    }
}

impl From<TaError> for JoinFailure {
    fn from(error: TaError) -> Self {
        Self::Xgmi(error.into())
    }
}

impl fmt::Display for JoinFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chip => f.write_str("the others of the hive are of another chip"),
            Self::Place => f.write_str("its registers do not agree with those of the others"),
            Self::Full => f.write_str("the hive has more GPUs than there can be"),
            Self::Xgmi(failure) => write!(f, "{failure}"),
        }
    }
}

impl HiveMember {
    fn place(&self) -> XgmiPlace {
        self.hw.gmc.place()
    }

    /// Whether both can be in one hive, as far as registers tell.
    fn fits(&self, other: &Self) -> Result<(), JoinFailure> {
        let (a, b) = (self.place(), other.place());
        let version = |member: &Self| member.hw.asic.ids.gfx_target_version;
        if version(self) != version(other) {
            return Err(JoinFailure::Chip);
        }
        if self.node == other.node {
            return Err(TaError::Twice(self.node).into());
        }
        if a.node == b.node || (a.others, a.segment) != (b.others, b.segment) {
            return Err(JoinFailure::Place);
        }
        Ok(())
    }
}

/// The members of one hive, in the order in which they joined.
fn of_hive(members: &[HiveMember], hive: HiveId) -> impl Iterator<Item = &HiveMember> {
    members.iter().filter(move |member| member.hive == hive)
}

/// The list of the members of one hive.
fn nodes_of(members: &[HiveMember], hive: HiveId) -> Result<NodeList, JoinFailure> {
    let mut nodes = NodeList::new();
    for member in of_hive(members, hive) {
        if !nodes.add(member.node)? {
            return Err(JoinFailure::Full);
        }
    }
    Ok(nodes)
}

/// Gives the applications of all members of one hive the numbers of these.
fn tell(members: &[HiveMember], hive: HiveId) -> Result<NodeList, JoinFailure> {
    let nodes = nodes_of(members, hive)?;
    for member in of_hive(members, hive) {
        member.psp.set_nodes(&nodes)?;
    }
    Ok(nodes)
}

/// Asks the applications of all members of one hive, which have been told `nodes`, how each reaches
/// the others.
fn ask(members: &mut [HiveMember], hive: HiveId, nodes: &NodeList) -> Result<(), JoinFailure> {
    let mut numbers = [0; MOST_NODES];
    for (number, member) in numbers.iter_mut().zip(of_hive(members, hive)) {
        *number = member.place().node as usize;
    }
    for member in members.iter_mut().filter(|member| member.hive == hive) {
        let told = member.psp.ways(member.node, nodes)?;
        let mut ways = HiveWays::default();
        for (way, number) in told.iter().zip(numbers).take(nodes.len()) {
            *ways.get_mut(number).ok_or(JoinFailure::Place)? = *way;
        }
        member.ways = ways;
    }
    for one in of_hive(members, hive) {
        for other in of_hive(members, hive) {
            let hops = |from: &HiveMember, to: &HiveMember| {
                from.ways
                    .get(to.place().node as usize)
                    .map_or(0, |way| way.hops)
            };
            let both = [hops(one, other), hops(other, one)];
            if both[0] != both[1] {
                let node = other.node;
                return Err(TaError::Asymmetric { node, hops: both }.into());
            }
        }
    }
    Ok(())
}

/// Adds `member` to the others of its hive. After an error they are as before.
fn add(members: &mut KVec<HiveMember>, member: HiveMember) -> Result<(), JoinFailure> {
    let hive = member.hive;
    for other in of_hive(members, hive) {
        other.fits(&member)?;
    }
    members
        .push(member, GFP_KERNEL)
        .map_err(|error| XgmiFailure::Psp(error.into()))?;
    let asked = tell(members, hive).and_then(|nodes| ask(members, hive, &nodes));
    if asked.is_err() {
        let _ = members.pop();
        // What these answered before stays true for the ways among them.
        let _ = tell(members, hive);
    }
    asked
}

/// The membership of a GPU, which lasts as long as this exists. Dropped before its firmware goes.
pub(crate) struct HiveMembership {
    list: Arc<HiveList>,
    node: NodeId,
    hw: Arc<Hardware>,
}

impl HiveMembership {
    /// Lets the GPU of `hw` join the others of its hive, which the application of `psp` knows.
    /// `None` if it cannot: then it works alone, and the log has one line that says why. May sleep.
    pub(crate) fn join(hw: &Arc<Hardware>, psp: &Arc<SharedPsp>) -> Option<Self> {
        let list = HIVES.get()?;
        let joined = psp
            .ids()
            .map_err(JoinFailure::from)
            .and_then(|(hive, node)| {
                let member = HiveMember {
                    hive,
                    node,
                    psp: psp.clone(),
                    ways: HiveWays::default(),
                    hw: hw.clone(),
                };
                let mut members = list.members.lock();
                add(&mut members, member)?;
                hw.hive.set(hive.get());
                Ok((hive, node, of_hive(&members, hive).count()))
            });
        match joined {
            Ok((hive, node, count)) => {
                dev_info!(
                    &*hw.dev,
                    "XGMI: GPU {:#x} of hive {:#x}, of which {count} of {} are here\n",
                    node.get(),
                    hive.get(),
                    hw.gmc.place().others + 1
                );
                Some(Self {
                    list,
                    node,
                    hw: hw.clone(),
                })
            }
            Err(JoinFailure::Xgmi(failure)) => {
                log_without_xgmi(hw, &failure);
                None
            }
            Err(failure) => {
                dev_warn!(
                    &*hw.dev,
                    "XGMI is not used: {}\n",
                    format_args!("{failure}")
                );
                None
            }
        }
    }
}

impl Drop for HiveMembership {
    fn drop(&mut self) {
        let mut members = self.list.members.lock();
        self.hw.hive.set(0);
        let own = members.iter().position(|member| member.node == self.node);
        let Some(Ok(left)) = own.map(|place| members.remove(place)) else {
            return;
        };
        for member in members.iter_mut().filter(|member| member.hive == left.hive) {
            if let Some(way) = member.ways.get_mut(left.place().node as usize) {
                *way = XgmiWay::default();
            }
        }
        // One that does not answer is noticed by its own users.
        let _ = tell(&members, left.hive);
        drop(members);
        drop(left);
    }
}

/// Why the GPU of `hw`, which hangs, cannot be reset with the others of its hive, if it cannot.
pub(crate) fn obstacle_to_reset(hw: &Hardware) -> Option<&'static str> {
    let all = hw.gmc.place().others + 1;
    if all == 1 || hw.hive.reset().is_some() {
        return None;
    }
    let hive = hw.hive.get();
    let here = HIVES.get().map_or(0, |list| {
        let members = list.members.lock();
        let members = members.iter();
        members.filter(|member| member.hive.get() == hive).count()
    });
    (hive == 0 || u32::try_from(here) != Ok(all))
        .then_some("XGMI joins it to others, which would have to be reset with it")
}

/// Begins the reset of the GPU of `hw`, which hangs, and of all others of its hive, each of which
/// is reported as wedged. Each takes itself down, and waits for the others. No effect on a GPU that
/// is in no hive, or whose hive is being reset.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn start_reset(hw: &Hardware) -> Result {
    let hive = hw.hive.get();
    let Some(list) = HIVES.get().filter(|_| hive != 0) else {
        return Ok(());
    };
    let mut others = KVec::new();
    {
        let members = list.members.lock();
        if hw.hive.reset().is_some() {
            return Ok(());
        }
        for member in members.iter().filter(|member| member.hive.get() == hive) {
            others.push(member.hw.clone(), GFP_KERNEL)?;
        }
        let reset = HiveReset::new(u32::try_from(others.len())?)?;
        for member in &others {
            member.hive.set_reset(reset.clone());
        }
    }
    for other in others {
        if !core::ptr::eq(&*other, hw) {
            other.health.wedge(WedgeReport {
                part: WedgedPart::Hive,
                suspect: None,
            });
        }
    }
    Ok(())
}

/// The places of all members.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn places() -> Result<KVec<HivePlace>> {
    let mut places = KVec::new();
    let Some(list) = HIVES.get() else {
        return Ok(places);
    };
    for member in list.members.lock().iter() {
        let place = HivePlace {
            hive: member.hive.get(),
            number: member.place().node as usize,
            nodes: member.place().others as usize + 1,
            ways: member.ways,
        };
        places.push(place, GFP_KERNEL)?;
    }
    Ok(places)
}

/// That of the GPU of `hw` among `places`; that of a GPU without a hive if it is not there.
pub(crate) fn place_of(hw: &Hardware, places: &[HivePlace]) -> HivePlace {
    let (hive, number) = (hw.hive.get(), hw.gmc.place().node as usize);
    let mut places = places.iter();
    let own = places.find(|place| hive != 0 && (place.hive, place.number) == (hive, number));
    own.copied().unwrap_or_default()
}
