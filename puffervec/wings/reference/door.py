# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Entry point of `puffervec.wings.reference`; see puffervec/doors.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from puffervec.train.device.ranks import Ranks
    from puffervec.train.policies.run_spec import RunSpec
    from puffervec.wings.reference.divergence import DivergenceTerm


def terms(run: RunSpec, ranks: Ranks) -> dict[str, DivergenceTerm]:
    """Return the KL terms of a run by policy, for those with `train.kl_to`.

    Raises:
        ConfigError: a reference does not exist, does not fit, or has memory.
        CheckpointError: a reference cannot be read.
    """
    from puffervec.wings.reference.divergence import terms

    return terms(run, ranks)
