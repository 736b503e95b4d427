# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pages for a browser.

static/ holds their scripts and styles, vendor/ third-party code; nothing is built at install.
"""
