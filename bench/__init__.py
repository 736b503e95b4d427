# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Benchmarks. Each file is a command (`python bench/sps.py --help`); none of it is installed with
the library.
"""
