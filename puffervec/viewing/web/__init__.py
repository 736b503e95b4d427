# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pages for a browser. static/ holds what they are made of, and vendor/ code of others; nothing is
built at install.
"""
