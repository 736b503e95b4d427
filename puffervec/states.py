# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a half of the envs is up to, and so what may be called next. The words stand in error messages."""

from __future__ import annotations

IDLE = "not reset"  # -> async_reset
PENDING = "sent"  # -> recv
HELD = "received"  # -> send
READY = "loaded"  # -> recv, which returns the loaded rows
INTERRUPTED = "interrupted"  # -> async_reset of all
CLOSED = "closed"
FORKED = "inherited by a fork"
