# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The driving environment: scenes in, a compiled scene set and a C env out.

Everything here runs in the learner process, before workers start or after an evaluation; nothing
here runs per step. The way of a scene: `scenes` (JSON, checked) or `generate` -> `simplify` ->
`compile` -> `sceneset` (one file that every worker maps) -> csrc/drive.
"""
