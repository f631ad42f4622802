// SPDX-License-Identifier: GPL-2.0
//! Arguments of ioctls, checked.
