// SPDX-License-Identifier: GPL-2.0
//! AMDGPU_CTX: makes, frees and describes contexts.

use kernel::{prelude::*, sync::Arc, time::msecs_to_jiffies};

use super::{contexts::RenderContext, file::RenderFile};
use crate::{
    kern::{
        drm::{
            file::OpenDrmFile,
            ioctl::{Delivery, DrmIoctl, IoctlAnswer, IoctlInput},
            uapi::{self, ctx_op, ctx_priority, stable_pstate},
            DrmDriver,
        },
        errno, task,
    },
    mem::GpuMemory,
};

/// How long the jobs of a context that is freed have, milliseconds: amdgpu's time.
const END_MS: u32 = 1000;

/// The number of a context that is to be freed.
pub(super) struct CtxToFree(Option<u32>);

impl IoctlInput<uapi::Ctx> for CtxToFree {
    fn read(args: &uapi::Ctx) -> Result<Self> {
        let wanted = args.wanted();
        Ok(Self((wanted.op == ctx_op::FREE).then_some(wanted.ctx_id)))
    }
}

/// The context that was freed. Its jobs may wait for others' jobs, which an unplug ends: so it is
/// dropped when an unplug does not wait any more.
pub(super) struct FreedContext(Option<Arc<RenderContext>>);

impl IoctlAnswer<uapi::Ctx> for FreedContext {
    fn deliver(self, _args: &mut uapi::Ctx) -> Result<Delivery> {
        drop(self.0);
        Ok(Delivery::Done)
    }
}

/// CTX: makes, frees and describes contexts.
///
/// A GPU that is reset goes and comes back as another one, so a file that can still make calls has
/// seen no reset. The clocks cannot be held for a profiler.
///
/// # Errors
///
/// `EINVAL` for unknown operations, flags and contexts; `EACCES` for a high priority without
/// CAP_SYS_NICE, unless the file is the master of its device; `EOPNOTSUPP` for a state of the
/// clocks; `ENOSPC` with too many contexts; `ENOMEM`.
pub(super) struct CtxIoctl;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile>> DrmIoctl<D> for CtxIoctl {
    type Args = uapi::Ctx;
    type Input = CtxToFree;
    type Answer = FreedContext;

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::CTX_NR);

    const NAME: &'static CStr = c"AMDGPU_CTX";

    /// Lets the jobs of a context that is freed end. Those that are not done in time, or when a
    /// signal comes, fail.
    fn prepare(file: &OpenDrmFile<'_, D>, input: &mut CtxToFree) -> Result {
        let context = input
            .0
            .and_then(|number| file.data().contexts().get(number));
        let mut fences = KVec::new();
        if let Some(context) = context {
            context.add_busy(&mut fences)?;
        }
        for fence in fences {
            if fence.wait_interruptible(msecs_to_jiffies(END_MS)).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn call(
        file: &OpenDrmFile<'_, D>,
        args: &mut Self::Args,
        _: &CtxToFree,
    ) -> Result<FreedContext> {
        let contexts = file.data().contexts();
        let wanted = args.wanted();
        let (flags, number) = (wanted.flags, wanted.ctx_id);
        let is_setter = wanted.op == ctx_op::SET_STABLE_PSTATE;
        let known = if is_setter { stable_pstate::MASK } else { 0 };
        if flags & !known != 0 {
            return Err(EINVAL);
        }
        match wanted.op {
            ctx_op::ALLOC => {
                // A number that is no priority counts as the normal one.
                let is_high = matches!(
                    wanted.priority,
                    ctx_priority::HIGH | ctx_priority::VERY_HIGH
                );
                if is_high && !task::may_raise_priority() && !file.is_master() {
                    return Err(EACCES);
                }
                args.answer_id(contexts.add(RenderContext::new(file.device())?)?);
            }
            ctx_op::FREE => {
                let freed = contexts.remove(number).ok_or(EINVAL)?;
                return Ok(FreedContext(Some(freed)));
            }
            ctx_op::QUERY_STATE => {
                file.data().context(number)?;
                args.answer_state(0);
            }
            ctx_op::QUERY_STATE2 => {
                let guilty = file.data().context(number)?.is_guilty();
                args.answer_state(if guilty { uapi::CTX_GUILTY } else { 0 });
            }
            ctx_op::GET_STABLE_PSTATE => {
                file.data().context(number)?;
                args.answer_pstate(stable_pstate::NONE);
            }
            ctx_op::SET_STABLE_PSTATE => {
                if flags > stable_pstate::PEAK {
                    return Err(EINVAL);
                }
                file.data().context(number)?;
                if flags != stable_pstate::NONE {
                    return Err(errno::not_supported());
                }
            }
            _ => return Err(EINVAL),
        }
        Ok(FreedContext(None))
    }
}
