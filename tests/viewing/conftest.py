# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Fixtures of this folder."""

from tests.fixtures.pages import a_run, browser, serve, trained  # noqa: F401
