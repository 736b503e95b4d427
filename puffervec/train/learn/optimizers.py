# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turn gradients into steps: Adam as one kernel over all weights, or Muon for matrices.

    adam      Adam for all weights
    muon      Muon for the hidden matrices, in steps as long as Adam's; Adam for all other weights
    muon_sgd  Muon for all matrices, in steps of singular values near lr; SGD for vectors

Muon (Jordan et al. 2024) takes up to 100 times as long as Adam (matrices of 64 to 256, one CPU
core), which pays where samples are expensive. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from puffervec.train.config.schedules import value_at
from puffervec.train.config.sections import TrainSection

# The last layers: their rows are actions, not features, for which Muon's orthogonal steps are
# unsuitable.
HEADS = "output."
BETAS = (0.9, 0.999)
# Constants of Muon; the second is from Moonlight (arXiv:2502.16982), section 2.2.
MOMENTUM, RMS_OF_ADAM = 0.95, 0.2
# Coefficients of x, x^3 and x^5 in each round of Newton-Schulz, which acts on the singular values.
Rounds = tuple[tuple[float, float, float], ...]
# Keller Jordan, kellerjordan.github.io/posts/muon: fast, but singular values end in 0.5 to 1.5.
NEWTON_SCHULZ: Rounds = ((3.4445, -4.7750, 2.0315),) * 5
# You Jiacheng 2025, x.com/YouJiacheng/status/1905861218138804534: singular values above a 300th of
# the norm end between 0.97 and 1.15.
CLOSER_TO_ONE: Rounds = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)
State = dict[int, dict[str, Tensor]]  # By the index of the parameter.


class Part:
    """An optimizer over some of the parameters.

    Attributes:
        capturable: Whether a CUDA graph can record its steps.
    """

    def __init__(self, parameters: list[nn.Parameter], lr: float, device: torch.device) -> None:
        """Take the parameters.

        Args:
            device: The parameters' device; on CUDA the learning rate is a tensor on it, for a
                graph.
        """
        self.parameters = parameters
        self.capturable = device.type == "cuda"
        self.lr: float | Tensor = torch.tensor(lr, device=device) if self.capturable else lr

    def set_lr(self, lr: float) -> None:
        """Set the learning rate, in place if a graph may hold its address."""
        if isinstance(self.lr, Tensor):
            self.lr.fill_(lr)
        else:
            self.lr = lr

    def step(self) -> None:
        """Take a step along the gradients; parameters without a gradient stay."""
        raise NotImplementedError

    def state(self) -> State:
        """Return the state as torch.optim does, without parameters that never had a gradient."""
        raise NotImplementedError

    def load_state(self, state: State) -> None:
        """Restore the result of `state`, in place if a graph may hold its address."""
        raise NotImplementedError


class Adam(Part):
    """Adam (Kingma and Ba 2015) by the kernel behind torch.optim.Adam(fused=True), with its state.

    torch.optim's class imports the compiler (two seconds of every start, and 100 MiB) and takes
    several times as long as the kernel for the weights of a small policy.
    """

    def __init__(
        self, parameters: list[nn.Parameter], lr: float, eps: float, device: torch.device
    ) -> None:
        super().__init__(parameters, lr, device)
        self.eps = eps
        self._counts = torch.zeros(len(parameters), device=device)
        self._steps, self._one = list(self._counts.unbind()), torch.ones((), device=device)
        self._means = [torch.zeros_like(p, memory_format=torch.preserve_format) for p in parameters]
        self._squares = [
            torch.zeros_like(p, memory_format=torch.preserve_format) for p in parameters
        ]

    @torch.no_grad()
    def step(self) -> None:
        entries = zip(self.parameters, self._means, self._squares, self._steps, strict=True)
        used = [
            (p, laid_out_as(p, p.grad), mean, square, step)
            for p, mean, square, step in entries
            if p.grad is not None
        ]
        if not used:
            return
        parameters, gradients, means, squares, steps = (
            list(column) for column in zip(*used, strict=True)
        )
        if len(used) == len(self.parameters):
            self._counts.add_(self._one)  # Allocates nothing.
        else:
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
        parts = zip(self._steps, self._means, self._squares, strict=True)
        state = {i: {"step": a, "exp_avg": b, "exp_avg_sq": c} for i, (a, b, c) in enumerate(parts)}
        return {i: entries for i, entries in state.items() if float(entries["step"]) > 0}

    def load_state(self, state: State) -> None:
        for i, entries in state.items():
            tensors = self._steps[i], self._means[i], self._squares[i]
            for tensor, name in zip(tensors, ("step", "exp_avg", "exp_avg_sq"), strict=True):
                tensor.copy_(entries[name])


def laid_out_as(parameter: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient in the parameter's memory layout.

    The kernel ignores strides: with a transposed gradient, each weight would get the gradient of
    another one.
    """
    return (
        gradient
        if gradient.stride() == parameter.stride()
        else torch.empty_like(parameter).copy_(gradient)
    )


class Nesterov(Part):
    """SGD with Nesterov momentum: m = mu * m + g, then a step of -lr * (g + mu * m).

    Equals torch.optim.SGD(momentum=0.95, nesterov=True). The momenta are saved as means of the
    gradients, (1 - mu) * m.
    """

    def __init__(self, parameters: list[nn.Parameter], lr: float, device: torch.device) -> None:
        """Take the parameters."""
        super().__init__(parameters, lr, device)
        # By the parameter's index; only of parameters that have had a gradient.
        self._momenta: dict[int, Tensor] = {}

    @torch.no_grad()
    def step(self) -> None:
        for parameter, update in self._updates():
            parameter.add_(update * self.lr, alpha=-1 / (1 - MOMENTUM))

    def state(self) -> State:
        return {place: {"momentum_buffer": momentum} for place, momentum in self._momenta.items()}

    def load_state(self, state: State) -> None:
        for place, entries in state.items():
            self._momenta.setdefault(place, torch.zeros_like(self.parameters[place])).copy_(
                entries["momentum_buffer"]
            )

    def _updates(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Advance the momenta; yield each parameter with a gradient and its (1 - mu)(g + mu m)."""
        for place, parameter in enumerate(self.parameters):
            if (gradient := parameter.grad) is None:
                continue
            if place not in self._momenta:
                self._momenta[place] = torch.zeros_like(
                    gradient, memory_format=torch.preserve_format
                )
            momentum = self._momenta[place].lerp_(gradient, 1 - MOMENTUM)
            yield parameter, gradient.lerp(momentum, MOMENTUM)


def as_long_as_adam(rows: int, columns: int) -> float:
    """Return the factor of lr with which a step is about as long as Adam's (Moonlight)."""
    return float(RMS_OF_ADAM * max(rows, columns) ** 0.5)


def as_tall(rows: int, columns: int) -> float:
    """Return Muon's original factor of lr: 1, or more for matrices with more rows than columns."""
    return float(max(1.0, rows / columns) ** 0.5)


class Muon(Nesterov):
    """Muon (Jordan et al. 2024): the steps of SGD, but with all singular values nearly equal.

    With the default arguments an lr that suits Adam suits Muon too. It then equals
    torch.optim.Muon(weight_decay=0, adjust_lr_fn="match_rms_adamw"), with its state; with `as_tall`
    it equals adjust_lr_fn="original". In addition, matrices of one shape, transposed or not, are
    processed together, a CUDA graph can record the steps, and a parameter of more dimensions is
    treated as a matrix by flattening all but the first.
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        lr: float,
        device: torch.device,
        rounds: Rounds = NEWTON_SCHULZ,
        scale: Callable[[int, int], float] = as_long_as_adam,
    ) -> None:
        """Take the matrices.

        Args:
            rounds: See `orthogonalize`.
            scale: Factor of lr, from the matrix's rows and columns.
        """
        super().__init__(parameters, lr, device)
        self.rounds, self.scale = rounds, scale

    @torch.no_grad()
    def step(self) -> None:
        alike: dict[tuple[int, ...], list[tuple[nn.Parameter, Tensor]]] = {}
        for parameter, update in self._updates():
            matrix = update.flatten(1)
            wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
            alike.setdefault(tuple(wide.shape), []).append((parameter, wide))
        for members in alike.values():
            wides = torch.stack([wide for _, wide in members])
            updates = orthogonalize(wides, self.rounds).float() * self.lr
            for (parameter, _), update in zip(members, updates, strict=True):
                rows, columns = len(parameter), parameter.numel() // len(parameter)
                own = update if rows <= columns else update.T
                parameter.add_(own.reshape(parameter.shape), alpha=-self.scale(rows, columns))


def orthogonalize(matrices: Tensor, rounds: Rounds) -> Tensor:
    """Return wide matrices (N, rows, columns) with singular values near 1, in bf16 on a GPU.

    A CPU without bf16 instructions takes 20 times as long for products in bf16 as in float32.

    Args:
        rounds: Coefficients of the rounds of Newton-Schulz; few rounds leave the values inexact.
    """
    x = matrices if matrices.device.type == "cpu" else matrices.bfloat16()
    x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for linear, cubic, quintic in rounds:
        gram = x @ x.mT
        x = torch.baddbmm(
            x, torch.baddbmm(gram, gram, gram, beta=cubic, alpha=quintic), x, beta=linear
        )
    return x


class Optimizers:
    """One or several optimizers over the parameters of a policy, used as one."""

    def __init__(self, parameters: list[nn.Parameter], parts: list[Part]) -> None:
        """Combine the parts.

        Args:
            parameters: All, in order.
            parts: Each over some of them.
        """
        self.parameters, self.parts = parameters, parts
        self.capturable = all(part.capturable for part in parts)

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of all parts."""
        for part in self.parts:
            part.set_lr(lr)

    def step(self) -> None:
        """Take a step along the gradients; parameters without a gradient stay."""
        for part in self.parts:
            part.step()

    def state(self) -> dict[int, dict[str, Any]]:
        """Return the states by the parameter's index among all, whatever part it belongs to."""
        states = {id(part): part.state() for part in self.parts}
        return {
            index: states[id(part)][own]
            for part, own, index in self._indices()
            if own in states[id(part)]
        }

    def load_state(self, state: dict[int, dict[str, Any]]) -> None:
        """Restore the result of `state`."""
        for part in self.parts:
            part.load_state(
                {
                    own: state[index]
                    for other, own, index in self._indices()
                    if other is part and index in state
                }
            )

    def _indices(self) -> Iterator[tuple[Part, int, int]]:
        """Yield (part, the parameter's index in it, its index among all)."""
        every = {id(parameter): index for index, parameter in enumerate(self.parameters)}
        for part in self.parts:
            for index, parameter in enumerate(part.parameters):
                yield part, index, every[id(parameter)]


@torch.no_grad()
def clip_gradients(parameters: list[nn.Parameter], limit: float) -> Tensor:
    """Scale the gradients down to a norm of at most `limit`; return the old norm, of shape ().

    Nothing is read back. Equals torch.nn.utils.clip_grad_norm_, which inspects each gradient's
    device and dtype in every call.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, (limit / (norm + 1e-6)).clamp_max(1.0))
    return norm


def make_optimizer(policy: nn.Module, section: TrainSection, device: torch.device) -> Optimizers:
    """Return the optimizer that `train.optimizer` names."""
    by_name = [
        (name, parameter)
        for name, parameter in policy.named_parameters()
        if parameter.requires_grad
    ]
    everything = [parameter for _, parameter in by_name]
    lr = value_at(section.lr, 0)
    if section.optimizer == "adam":
        return Optimizers(everything, [Adam(everything, lr, section.adam_eps, device)])
    sgd = section.optimizer == "muon_sgd"
    matrices = [
        parameter
        for name, parameter in by_name
        if (parameter.dim() >= 2 if sgd else parameter.dim() == 2 and not name.startswith(HEADS))
    ]
    others = [
        parameter
        for name, parameter in by_name
        if not any(parameter is matrix for matrix in matrices)
    ]
    parts: list[Part] = []
    if others:
        parts.append(
            Nesterov(others, lr, device) if sgd else Adam(others, lr, section.adam_eps, device)
        )
    if matrices:
        parts.append(
            Muon(matrices, lr, device, CLOSER_TO_ONE, as_tall)
            if sgd
            else Muon(matrices, lr, device)
        )
    return Optimizers(everything, parts)
