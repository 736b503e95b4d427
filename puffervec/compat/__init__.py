# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Other libraries' import names over puffervec: one changed import line, the rest of the script
stays.
"""
