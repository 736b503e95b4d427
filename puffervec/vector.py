# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffervec.vector`: PufferLib's vector names, and VectorEnv.

They are make, Serial, Multiprocessing, reset, step, autotune and others.
"""

from puffervec.compat.pufferlib.vector import *  # noqa: F403
from puffervec.vec.vector_env import VectorEnv as VectorEnv
