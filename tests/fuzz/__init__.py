# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Fuzzing of everything that reads data from outside; see scripts/fuzz.py."""
