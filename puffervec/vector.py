# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Provide PufferLib's vector API under `puffervec.vector`, and VectorEnv.

The names are make, Serial, Multiprocessing, reset, step, autotune and others.
"""

from puffervec.compat.pufferlib.vector import *  # noqa: F403
from puffervec.vec.vector_env import VectorEnv as VectorEnv
