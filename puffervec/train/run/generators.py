# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The random generators of a run. Runs in the learner.

Layers that draw, as dropout does, take from torch's one generator: with such layers of torch's one thread works
(policies/registry.py: draws); `nn.functional.dropout` in a policy of one's own needs `train.threads` 1 for it. With
`train.asynchronous` roll-out and update draw from it at once, and no two runs of such policies are alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from puffervec.train.run.state import Files


class Generators:
    """Generators of actions (on the device) and of shuffles (on the CPU), and torch's own; with a state as a part of a run."""

    def __init__(self, seed: int, device: torch.device) -> None:
        """Seed all of them."""
        self.device = device
        self.actions = torch.Generator(device).manual_seed(seed)
        self.shuffle = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)  # What layers draw from; nothing else here does.

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Return the file `random`."""
        found = {
            "actions": self.actions.get_state(),
            "shuffle": self.shuffle.get_state(),
            "torch": torch.get_rng_state(),
        }
        if self.device.type == "cuda":
            found["cuda"] = torch.cuda.get_rng_state(self.device)
        return {"random": found}

    def load_state(self, files: Files) -> list[str]:
        """Go on from `state`."""
        if "random" not in files:  # Saved by fewer ranks than there are now.
            return []
        tensors, notes = files["random"], []
        if tensors["actions"].shape == self.actions.get_state().shape:
            self.actions.set_state(tensors["actions"])
        else:  # The generators of CPU and CUDA are of different kinds.
            notes = [f"actions are drawn anew from the seed: those of the checkpoint were not drawn on {self.device.type}"]
        self.shuffle.set_state(tensors["shuffle"])
        if "torch" in tensors:
            torch.set_rng_state(tensors["torch"])
        if "cuda" in tensors and self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["cuda"], self.device)
        return notes
