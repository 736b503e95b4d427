# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The verbs of `puffer-train`. To add one: a file here that ends in VERB, a line in this table, one in docs/training.md."""

from __future__ import annotations

from puffervec.train.verbs import bench, cache, completion, eval, export, list, plot, sweep, train

_VERBS = (train.VERB, eval.VERB, list.VERB, plot.VERB, export.VERB, sweep.VERB, bench.VERB, cache.VERB)
VERBS = {verb.name: verb for verb in (*_VERBS, completion.verb(_VERBS))}
