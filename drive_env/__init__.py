# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The driving environment: compiles scenes into a scene set and runs the C env on it.

Everything here runs in the learner process, before workers start or after an evaluation; nothing
here runs per step. A scene passes through `scenes` (JSON, checked) or `generate`, then `simplify`,
`compile` and `sceneset` (one file that every worker maps), and ends in csrc/drive.
"""
