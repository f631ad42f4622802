# SPDX-License-Identifier: GPL-2.0
"""A slow interpreter of gfx90a's instructions in numpy, one wave of 64 lanes at a time. It shares
no code with the shader core, so that the two check each other. It knows the instructions that the
kernels need most: any other one raises Unknown."""
from .encoding import Unknown
from .dispatch import dispatch, load
from .memory import Memory

__all__ = ["Memory", "Unknown", "dispatch", "load"]
