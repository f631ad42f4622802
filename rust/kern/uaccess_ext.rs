// SPDX-License-Identifier: GPL-2.0
//! Structures in user memory of which the caller may know fewer or more fields than the driver.

use kernel::prelude::*;
use kernel::transmute::{AsBytes, FromBytes};
use kernel::uaccess::{UserPtr, UserSlice};

/// Reads a `T` of which the caller has `size` bytes. Fields that the caller lacks are zero; fields
/// that the driver lacks are not read.
///
/// # Errors
///
/// `EFAULT` if the memory cannot be read.
pub(crate) fn read_sized<T>(address: usize, size: usize) -> Result<T>
where
    T: AsBytes + FromBytes + pin_init::Zeroable,
{
    let mut value: T = pin_init::zeroed();
    let bytes = value.as_bytes_mut();
    let known = size.min(bytes.len());
    if let Some(bytes) = bytes.get_mut(..known) {
        UserSlice::new(UserPtr::from_addr(address), known)
            .reader()
            .read_slice(bytes)?;
    }
    Ok(value)
}

/// Writes as much of `value` as fits into the caller's `size` bytes; bytes beyond `value` stay as
/// they are.
///
/// # Errors
///
/// `EFAULT` if the memory cannot be written.
pub(crate) fn write_sized<T: AsBytes>(address: usize, size: usize, value: &T) -> Result {
    let bytes = value.as_bytes();
    let known = size.min(bytes.len());
    UserSlice::new(UserPtr::from_addr(address), known)
        .writer()
        .write_slice(bytes.get(..known).unwrap_or(bytes))
}

/// Reads element `index` of the caller's array of `T` at `address`.
///
/// # Errors
///
/// `EFAULT` if the memory cannot be read.
pub(crate) fn read_element<T: FromBytes>(address: u64, index: u32) -> Result<T> {
    let size = core::mem::size_of::<T>();
    let element = element_address(address, index, size)?;
    UserSlice::new(UserPtr::from_addr(element), size)
        .reader()
        .read()
}

/// Writes element `index` of the caller's array of `T` at `address`.
///
/// # Errors
///
/// `EFAULT` if the memory cannot be written.
pub(crate) fn write_element<T: AsBytes>(address: u64, index: u32, value: &T) -> Result {
    let size = core::mem::size_of::<T>();
    let element = element_address(address, index, size)?;
    UserSlice::new(UserPtr::from_addr(element), size)
        .writer()
        .write(value)
}

/// Writes `value` to the beginning of element `index` of the caller's array of `E` at `address`.
///
/// # Errors
///
/// `EFAULT` if the memory cannot be written.
pub(crate) fn write_head<E, T: AsBytes>(address: u64, index: u32, value: &T) -> Result {
    const { assert!(core::mem::size_of::<T>() <= core::mem::size_of::<E>()) };
    let element = element_address(address, index, core::mem::size_of::<E>())?;
    write_sized(element, core::mem::size_of::<T>(), value)
}

/// Writes the first `bytes` bytes of `dwords` to the caller's memory at `address`.
///
/// # Errors
///
/// `EFAULT` if the memory cannot be written.
pub(crate) fn write_dwords(address: u64, dwords: &[u32], bytes: u32) -> Result {
    let address = usize::try_from(address).map_err(|_| EFAULT)?;
    let data = AsBytes::as_bytes(dwords);
    let data = data.get(..bytes as usize).ok_or(EFAULT)?;
    UserSlice::new(UserPtr::from_addr(address), data.len())
        .writer()
        .write_slice(data)
}

/// Reads `count` dwords of the caller's memory at `address`.
///
/// # Errors
///
/// `EFAULT` if the memory cannot be read; `ENOMEM`.
pub(crate) fn read_dwords(address: u64, count: usize) -> Result<KVVec<u32>> {
    let address = usize::try_from(address).map_err(|_| EFAULT)?;
    let mut dwords = KVVec::from_elem(0u32, count, GFP_KERNEL_ACCOUNT)?;
    let bytes = AsBytes::as_bytes_mut(&mut *dwords);
    UserSlice::new(UserPtr::from_addr(address), bytes.len())
        .reader()
        .read_slice(bytes)?;
    Ok(dwords)
}

fn element_address(address: u64, index: u32, size: usize) -> Result<usize> {
    (size as u64)
        .checked_mul(index.into())
        .and_then(|offset| address.checked_add(offset))
        .and_then(|address| usize::try_from(address).ok())
        .ok_or(EFAULT)
}
