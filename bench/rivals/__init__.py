# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The libraries that bench/peers.py compares, one file each, and the envs that all of them step.

Each sample is taken by a separate Python process (sample.py), so that no library's threads, imports
or leftovers disturb another's, and a library that needs other versions of NumPy and Gymnasium can
have its own interpreter. So nothing here may need puffervec, except the file that measures it.
"""
