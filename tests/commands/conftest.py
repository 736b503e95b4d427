# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Fixtures of this folder."""

from tests.fixtures.pages import a_run, browser, serve, trained  # noqa: F401
from tests.fixtures.training import small, torch_state  # noqa: F401
