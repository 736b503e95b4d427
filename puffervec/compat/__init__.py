# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Other libraries' import names over puffervec: a script changes one import line."""
