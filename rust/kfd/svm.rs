// SPDX-License-Identifier: GPL-2.0
//! Ioctl of shared virtual memory: sets and gets attributes of ranges.

use hw::svm::{AttributeChange, AttributeQuery, GpuIndex};
use hw::topology::gpu_id::GpuId;
use hw::va::{VaRange, PAGE_SIZE};
use kernel::prelude::*;

use super::args;
use super::caller::Caller;
use crate::kern::uapi::{SvmArgs, SvmAttribute};
use crate::kern::{errno, params, uaccess_ext};
use crate::process::svm::{MoveProgress, OpenedSvm};

/// Bytes before the attributes, and bytes of one attribute.
const HEAD: usize = core::mem::size_of::<SvmArgs>();
const EACH: usize = core::mem::size_of::<SvmAttribute>();

/// `KFD_IOCTL_SVM_OP_*`.
const SET: u32 = 0;
const GET: u32 = 1;

/// SVM, with the arguments at `arg`, and attributes behind them: `size` bytes in all, according to
/// the command.
///
/// # Errors
///
/// - `EPERM` unless the administrator has enabled it, as from amdkfd without it.
/// - `EOPNOTSUPP` for a secondary process.
/// - `EINVAL` for a range that is not whole pages or is empty, unknown operations, attributes that
///   do not fit into the command, or no attributes at all.
/// - `ENODEV` if the GPU is removed meanwhile.
/// - `EFAULT` for a range that is not the process's own memory.
/// - `EADDRINUSE` where a buffer is mapped.
pub(super) fn svm(caller: &Caller<'_>, arg: usize, size: usize) -> Result {
    if !params::is_svm_enabled() {
        return Err(EPERM);
    }
    if !caller.process.is_primary() {
        return Err(errno::not_supported());
    }
    let room = size.checked_sub(HEAD).ok_or(EINVAL)? / EACH;
    let args: SvmArgs = uaccess_ext::read_element(arg as u64, 0)?;
    if args.nattr as usize > room {
        return Err(EINVAL);
    }
    let first = (arg as u64).checked_add(HEAD as u64).ok_or(EFAULT)?;
    let mut attributes = KVVec::with_capacity(args.nattr as usize, GFP_KERNEL_ACCOUNT)?;
    for index in 0..args.nattr {
        let attribute: SvmAttribute = uaccess_ext::read_element(first, index)?;
        let attribute = renamed(&attribute, |gpu| caller.process.gpu_named(gpu));
        attributes.push(attribute, GFP_KERNEL_ACCOUNT)?;
    }
    if args.start_addr % PAGE_SIZE != 0 || args.size % PAGE_SIZE != 0 {
        return Err(EINVAL);
    }
    if args.start_addr == 0 || args.size == 0 {
        return Err(EINVAL);
    }
    match args.op {
        SET => {
            // Attributes are checked before the range, as by amdkfd.
            let gives = check(caller, &attributes)?;
            set_all(caller, range(&args)?, &attributes, gives)
        }
        GET => {
            get(caller, &args, &mut attributes)?;
            (0..args.nattr)
                .zip(&attributes)
                .try_for_each(|(index, answer)| {
                    let answer = renamed(answer, |gpu| caller.process.name_of(gpu));
                    uaccess_ext::write_element(first, index, &answer)
                })
        }
        _ => Err(EINVAL),
    }
}

/// The range of the arguments.
///
/// # Errors
///
/// `EOVERFLOW` for a range that wraps; `EFAULT` for addresses that no process has.
fn range(args: &SvmArgs) -> Result<VaRange> {
    args.start_addr.checked_add(args.size).ok_or(EOVERFLOW)?;
    VaRange::new(args.start_addr, args.size).map_err(|_| EFAULT)
}

/// The attribute with the result of `rename` where it has a GPU's id.
fn renamed(attribute: &SvmAttribute, rename: impl FnOnce(GpuId) -> GpuId) -> SvmAttribute {
    let has_gpu = AttributeChange::has_gpu(attribute.type_);
    let gpu = GpuId::from_raw(attribute.value).filter(|_| has_gpu);
    SvmAttribute {
        type_: attribute.type_,
        value: gpu.map_or(attribute.value, |gpu| rename(gpu).get().into()),
    }
}

/// The GPU of this id, if it exists and is not being taken from the process.
fn gpu_id(caller: &Caller<'_>, id: u32) -> Option<GpuId> {
    let context = caller.context_of(args::gpu_id(id).ok()?).ok()?;
    (!context.is_closed()).then(|| context.gpu().hw.id)
}

/// Some index for a GPU, to check attributes before its real index is needed.
fn any_index(caller: &Caller<'_>, id: u32) -> Option<GpuIndex> {
    gpu_id(caller, id).and(GpuIndex::new(0))
}

/// Sets `attributes` of `range` for `caller`, whose process need not be the calling one.
///
/// # Errors
///
/// Those of the ioctl.
pub(super) fn set(caller: &Caller<'_>, range: VaRange, attributes: &mut [SvmAttribute]) -> Result {
    for attribute in attributes.iter_mut() {
        *attribute = renamed(attribute, |gpu| caller.process.gpu_named(gpu));
    }
    let gives = check(caller, attributes)?;
    set_all(caller, range, attributes, gives)
}

/// Checks `attributes`; returns whether a GPU may use the range afterwards.
///
/// # Errors
///
/// `EINVAL`, also for a process without an address space.
fn check(caller: &Caller<'_>, attributes: &[SvmAttribute]) -> Result<bool> {
    let mut gives = false;
    for attribute in attributes {
        let change =
            AttributeChange::new(attribute.type_, attribute.value, |id| any_index(caller, id));
        gives |= change.map_err(|_| EINVAL)?.gives_access();
    }
    match caller.process.has_vm() {
        true => Ok(gives),
        false => Err(EINVAL),
    }
}

fn set_all(
    caller: &Caller<'_>,
    range: VaRange,
    attributes: &[SvmAttribute],
    gives: bool,
) -> Result {
    // Where page faults are retried, the caller does not have to wait for pages that GPUs have not
    // accessed.
    if gives && !caller.process.retries() {
        caller.process.svm().wait_for_pages(range)?;
        if !caller.process.has_vm() {
            return Err(ENODEV);
        }
    }
    let mut progress = MoveProgress::default();
    let mut done = apply(caller, range, attributes, &mut progress);
    // A GPU that has been removed cannot be named in an attribute.
    while done == Err(errno::in_progress()) {
        done = apply(caller, range, attributes, &mut progress).map_err(|error| match error {
            EINVAL => ENODEV,
            other => other,
        });
    }
    done
}

/// Applies `attributes` to `range`, once: see [`OpenedSvm::set`].
fn apply(
    caller: &Caller<'_>,
    range: VaRange,
    attributes: &[SvmAttribute],
    progress: &mut MoveProgress,
) -> Result {
    let mut svm = caller.process.svm().open_for(caller.process, range)?;
    let mut changes = KVVec::with_capacity(attributes.len(), GFP_KERNEL_ACCOUNT)?;
    for attribute in attributes {
        let change = with_gpu(caller, &mut svm, |gpu| {
            AttributeChange::new(attribute.type_, attribute.value, gpu)
        })?;
        changes.push(change, GFP_KERNEL_ACCOUNT)?;
    }
    svm.set(caller.process, range, &changes, progress)
}

fn get(caller: &Caller<'_>, args: &SvmArgs, attributes: &mut [SvmAttribute]) -> Result {
    let range = range(args)?;
    let mut svm = caller.process.svm().open_for(caller.process, range)?;
    let summary = svm.summary(range);
    for attribute in attributes {
        let question = with_gpu(caller, &mut svm, |gpu| {
            AttributeQuery::new(attribute.type_, attribute.value, gpu)
        })?;
        let (kind, value) = summary.answer(question);
        attribute.type_ = kind;
        attribute.value = value.unwrap_or(attribute.value);
    }
    Ok(())
}

/// Calls `f`, which converts an attribute and may look up the index of a GPU for that.
///
/// # Errors
///
/// `EINVAL` if `f` refuses the attribute; `ENOSPC`; `ENOMEM`.
fn with_gpu<T, E>(
    caller: &Caller<'_>,
    svm: &mut OpenedSvm<'_>,
    f: impl FnOnce(&mut dyn FnMut(u32) -> Option<GpuIndex>) -> Result<T, E>,
) -> Result<T> {
    let mut failed = Ok(());
    let made = f(&mut |id| {
        let index = svm.index(gpu_id(caller, id)?);
        index.map_err(|error| failed = Err(error)).ok()
    });
    failed?;
    made.map_err(|_| EINVAL)
}
