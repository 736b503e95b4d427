# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What turns gradients into steps: Adam as one kernel over all weights, or Muon for matrices with Adam for the rest.

Fused Adam takes 51 instead of 163 us a step for a small net on a CPU; Muon (Jordan et al. 2024) takes about 20 times as long,
which pays where samples are dear. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from puffervec.errors import ConfigError
from puffervec.train.config import TrainSection

HEADS = "output."  # The last layers: their rows are actions, not features, so Muon's orthogonal steps do not suit them.


class Optimizers:
    """One or several torch optimizers over the parameters of a policy, seen as one."""

    def __init__(self, parameters: list[nn.Parameter], parts: list[torch.optim.Optimizer]) -> None:
        """Args: parameters: all, in order; parts: each over some of them."""
        self.parameters, self.parts = parameters, parts
        # Muon's step size is a number in Python, which a graph would keep for ever.
        self.capturable = all(group.get("capturable", False) for part in parts for group in part.param_groups)

    def set_lr(self, lr: float) -> None:
        """Set the step size of all."""
        for part in self.parts:
            for group in part.param_groups:
                if isinstance(group["lr"], torch.Tensor):
                    group["lr"].fill_(lr)  # A graph knows where it stands.
                else:
                    group["lr"] = lr

    def step(self) -> None:
        """Take a step along the gradients; parameters without one stay."""
        for part in self.parts:
            part.step()

    def state(self) -> dict[int, dict[str, Any]]:
        """By the parameter's place among all, whichever optimizer has it."""
        kept = {id(part): part.state_dict()["state"] for part in self.parts}
        return {place: kept[id(part)][own] for part, own, place in self._places() if own in kept[id(part)]}

    def load_state(self, state: dict[int, dict[str, Any]]) -> None:
        """The inverse of `state`."""
        for part in self.parts:
            mine = {own: state[place] for of, own, place in self._places() if of is part and place in state}
            part.load_state_dict({"state": mine, "param_groups": part.state_dict()["param_groups"]})

    def _places(self) -> Iterator[tuple[torch.optim.Optimizer, int, int]]:
        """Yield (optimizer, the parameter's place in it, its place among all)."""
        place = {id(parameter): index for index, parameter in enumerate(self.parameters)}
        for part in self.parts:
            own = [parameter for group in part.param_groups for parameter in group["params"]]
            for index, parameter in enumerate(own):
                yield part, index, place[id(parameter)]


def make_optimizer(policy: nn.Module, section: TrainSection, device: torch.device) -> Optimizers:
    """Return the optimizer that `train.optimizer` names; on CUDA its steps can be captured in a graph, if they are Adam's.

    Raises: ConfigError where this version of torch has no Muon.
    """
    named = [(name, parameter) for name, parameter in policy.named_parameters() if parameter.requires_grad]
    everything = [parameter for _, parameter in named]
    if section.optimizer == "adam":
        return Optimizers(everything, [_adam(everything, section, device)])
    if not hasattr(torch.optim, "Muon"):
        raise ConfigError(f"train.optimizer is 'muon', which torch {torch.__version__} lacks: use torch 2.9 or newer, or adam")
    matrices = [parameter for name, parameter in named if parameter.dim() == 2 and not name.startswith(HEADS)]
    others = [parameter for name, parameter in named if not any(parameter is matrix for matrix in matrices)]
    parts: list[torch.optim.Optimizer] = [_adam(others, section, device)] if others else []
    if matrices:
        # Scaled so that a step is about as long as one of Adam's: the same lr suits both.
        muon = torch.optim.Muon(matrices, lr=section.lr, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
        parts.append(muon)
    return Optimizers(everything, parts)


def _adam(parameters: list[nn.Parameter], section: TrainSection, device: torch.device) -> torch.optim.Optimizer:
    on_cuda = device.type == "cuda"
    adam = torch.optim.Adam(parameters, lr=section.lr, eps=section.adam_eps, fused=True, capturable=on_cuda)
    for group in adam.param_groups if on_cuda else ():
        group["lr"] = torch.tensor(section.lr, device=device)
    return adam
