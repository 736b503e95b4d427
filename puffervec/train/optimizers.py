# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What turns gradients into steps: Adam as one kernel over all weights, or Muon for matrices with Adam for the rest.

Muon (Jordan et al. 2024) takes about 20 times as long as Adam, which pays where samples are dear. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from puffervec.errors import ConfigError
from puffervec.train.config import TrainSection

HEADS = "output."  # The last layers: their rows are actions, not features, so Muon's orthogonal steps do not suit them.
BETAS = (0.9, 0.999)
State = dict[int, dict[str, Tensor]]  # by the parameter's place


class Part(Protocol):
    """An optimizer over some of the parameters."""

    parameters: list[nn.Parameter]
    capturable: bool  # a CUDA graph can hold its steps

    def set_lr(self, lr: float) -> None: ...
    def step(self) -> None: ...
    def state(self) -> State: ...
    def load_state(self, state: State) -> None: ...


class Adam:
    """Adam (Kingma and Ba 2015) by the kernel behind torch.optim.Adam(fused=True), with the same state.

    torch.optim's own class imports the compiler (two seconds of every start, and 100 MiB) and takes several times as long as
    the kernel for what a small policy has in weights.
    """

    def __init__(self, parameters: list[nn.Parameter], lr: float, eps: float, device: torch.device) -> None:
        """Args: device: of the parameters; on CUDA the steps and the step size are on it, for a graph."""
        self.parameters, self.eps = parameters, eps
        self.capturable = device.type == "cuda"
        self.lr: float | Tensor = torch.tensor(lr, device=device) if self.capturable else lr
        self._steps = [torch.zeros((), device=device) for _ in parameters]
        self._means = [torch.zeros_like(p, memory_format=torch.preserve_format) for p in parameters]
        self._squares = [torch.zeros_like(p, memory_format=torch.preserve_format) for p in parameters]

    def set_lr(self, lr: float) -> None:
        """Set the step size, in place where a graph knows where it stands."""
        if isinstance(self.lr, Tensor):
            self.lr.fill_(lr)
        else:
            self.lr = lr

    @torch.no_grad()
    def step(self) -> None:
        """Take a step along the gradients; parameters without one stay."""
        kept = zip(self.parameters, self._means, self._squares, self._steps, strict=True)
        used = [(p, p.grad, mean, square, step) for p, mean, square, step in kept if p.grad is not None]
        if not used:
            return
        parameters, gradients, means, squares, steps = (list(column) for column in zip(*used, strict=True))
        torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            parameters,
            gradients,
            means,
            squares,
            [],
            steps,
            lr=self.lr,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )

    def state(self) -> State:
        """As torch.optim.Adam has it; parameters that never had a gradient are left out."""
        kept = zip(self._steps, self._means, self._squares, strict=True)
        found = {i: {"step": a, "exp_avg": b, "exp_avg_sq": c} for i, (a, b, c) in enumerate(kept)}
        return {i: entries for i, entries in found.items() if float(entries["step"]) > 0}

    def load_state(self, state: State) -> None:
        """The inverse of `state`, in place."""
        for i, entries in state.items():
            places = self._steps[i], self._means[i], self._squares[i]
            for place, name in zip(places, ("step", "exp_avg", "exp_avg_sq"), strict=True):
                place.copy_(entries[name])


class Muon:
    """torch.optim.Muon, scaled so that a step is about as long as one of Adam's: the same lr suits both."""

    capturable = False  # Its step size is a number in Python, which a graph would keep for ever.

    def __init__(self, parameters: list[nn.Parameter], lr: float) -> None:
        """Args: parameters: matrices."""
        self.parameters = parameters
        self._muon = torch.optim.Muon(parameters, lr=lr, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")

    def set_lr(self, lr: float) -> None:
        """Set the step size."""
        for group in self._muon.param_groups:
            group["lr"] = lr

    def step(self) -> None:
        """Take a step along the gradients; parameters without one stay."""
        self._muon.step()  # type: ignore[no-untyped-call]

    def state(self) -> State:
        """As torch has it."""
        return dict(self._muon.state_dict()["state"])

    def load_state(self, state: State) -> None:
        """The inverse of `state`."""
        self._muon.load_state_dict({"state": state, "param_groups": self._muon.state_dict()["param_groups"]})


class Optimizers:
    """One or several optimizers over the parameters of a policy, seen as one."""

    def __init__(self, parameters: list[nn.Parameter], parts: list[Part]) -> None:
        """Args: parameters: all, in order; parts: each over some of them."""
        self.parameters, self.parts = parameters, parts
        self.capturable = all(part.capturable for part in parts)

    def set_lr(self, lr: float) -> None:
        """Set the step size of all."""
        for part in self.parts:
            part.set_lr(lr)

    def step(self) -> None:
        """Take a step along the gradients; parameters without one stay."""
        for part in self.parts:
            part.step()

    def state(self) -> dict[int, dict[str, Any]]:
        """By the parameter's place among all, whichever optimizer has it."""
        kept = {id(part): part.state() for part in self.parts}
        return {place: kept[id(part)][own] for part, own, place in self._places() if own in kept[id(part)]}

    def load_state(self, state: dict[int, dict[str, Any]]) -> None:
        """The inverse of `state`."""
        for part in self.parts:
            part.load_state({own: state[place] for of, own, place in self._places() if of is part and place in state})

    def _places(self) -> Iterator[tuple[Part, int, int]]:
        """Yield (optimizer, the parameter's place in it, its place among all)."""
        place = {id(parameter): index for index, parameter in enumerate(self.parameters)}
        for part in self.parts:
            for index, parameter in enumerate(part.parameters):
                yield part, index, place[id(parameter)]


@torch.no_grad()
def clip_gradients(parameters: list[nn.Parameter], limit: float) -> Tensor:
    """Scale the gradients down to a norm of `limit` over all; returns the norm before, (). Nothing is read back.

    As torch.nn.utils.clip_grad_norm_, which looks at each gradient's device and dtype anew.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, (limit / (norm + 1e-6)).clamp_max(1.0))
    return norm


def make_optimizer(policy: nn.Module, section: TrainSection, device: torch.device) -> Optimizers:
    """Return the optimizer that `train.optimizer` names.

    Raises: ConfigError where this version of torch has no Muon.
    """
    named = [(name, parameter) for name, parameter in policy.named_parameters() if parameter.requires_grad]
    everything = [parameter for _, parameter in named]
    if section.optimizer == "adam":
        return Optimizers(everything, [Adam(everything, section.lr, section.adam_eps, device)])
    if not hasattr(torch.optim, "Muon"):
        raise ConfigError(f"train.optimizer is 'muon', which torch {torch.__version__} lacks: use torch 2.9 or newer, or adam")
    matrices = [parameter for name, parameter in named if parameter.dim() == 2 and not name.startswith(HEADS)]
    others = [parameter for name, parameter in named if not any(parameter is matrix for matrix in matrices)]
    parts: list[Part] = [Adam(others, section.lr, section.adam_eps, device)] if others else []
    if matrices:
        parts.append(Muon(matrices, section.lr))
    return Optimizers(everything, parts)
