# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Read from the envs what their expert has just played (puffervec/contract/experts.py).

A rollout receives the rows that a step led to and only then knows the step's actions, so it writes
them into the previous step of the storages (`Turn.put_played`). Runs in the learner.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from puffervec.contract.experts import Experts


class ExpertReader:
    """A reader of the expert's actions in a vec env with one row group."""

    def __init__(self, vec: Any, experts: Experts) -> None:
        """Take a vec env whose config is `experts.settings`."""
        self._vec, self._experts = vec, experts

    def read(self, half: int) -> tuple[Tensor, Tensor]:
        """Return the actions that led to a half's current rows; it must have no turn under way.

        Blocks for a round trip to a worker per env.

        Returns:
            Actions in the env's form, (rows, D), and whether each is an expert's, (rows,) bool.
        """
        envs = self._vec.halves[half].env_ids.tolist()
        played = [self._experts.played(self._vec.peek(env)) for env in envs]
        actions = np.concatenate([actions for actions, _ in played])
        known = np.concatenate([known for _, known in played])
        return torch.from_numpy(actions.reshape(len(known), -1)), torch.from_numpy(known)
