# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The states of a half of the envs, which say what may be called next. Error messages show these words."""

from __future__ import annotations

IDLE = "not reset"  # -> async_reset
PENDING = "sent"  # -> recv
HELD = "received"  # -> send
READY = "loaded"  # -> recv, which returns the loaded rows
INTERRUPTED = "interrupted"  # -> async_reset of all
CLOSED = "closed"
FORKED = "inherited by a fork"
