# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compile the loss by `torch.compile` where it pays. Runs in the learner.

bench/compile.py measured forward, loss and backward of a microbatch on 2 cores, against PPO's loss
in C (ppo_loss.py): a wide batch through a small MLP in float32 takes 0.94 of the time, every other
case 1.06 to 1.9 times as long; compiling takes 6 to 22 s of CPU time. So `train.compile auto` does
not compile on a CPU. On CUDA, where compiling saves kernel launches, it compiles for policies
without memory: over T steps an LSTM is a loop, which the compiler would unroll T times.

On a CPU one compilation serves all batch sizes: sizes are symbolic, batches always have weights,
and their rows are padded (samples.padded_rows), so that no batch has a single row, which would be
compiled again. On CUDA all batches have the size of device_step.py's buffers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import threading
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from puffervec.errors import ConfigError
from puffervec.train.config.algorithms import Loss
from puffervec.train.learn.samples import Batch
from puffervec.train.policies.distributions import ActionSpec

BACKEND = "inductor"
COMPILERS = ("g++", "clang++", "c++")


class CompiledLoss:
    """A loss that compiles itself in its first call; several threads may call it concurrently."""

    pads = True  # Expects batches of padded rows.

    def __init__(
        self, loss: Loss, device: torch.device, must: bool, backend: Any = BACKEND
    ) -> None:
        """Prepare the compilation.

        Args:
            must: Raise errors of the compiler; otherwise warn once and continue with the loss
                itself.
        """
        self._eager, self._must, self._failed = loss, must, False
        self._first, self._ready = threading.Lock(), False
        # The pool's threads provide the parallelism, and no helper processes stay behind.
        options: dict[str, Any] = (
            {"cpp.threads": 1, "compile_threads": 1} if device.type == "cpu" else {}
        )
        self._compiled = torch.compile(
            loss,
            dynamic=device.type == "cpu",
            backend=backend,
            options=options if backend == "inductor" else None,
        )

    def __call__(
        self, policy: nn.Module, spec: ActionSpec, batch: Batch, section: Any, bf16: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the loss and the sums of its figures; see `Loss`."""
        if batch.weights is None:
            batch = dataclasses.replace(batch, weights=torch.ones_like(batch.advantages))
        if not self._failed:
            try:
                # Without the lock, threads in the first call would each compile it in turn.
                with contextlib.nullcontext() if self._ready else self._first:
                    result: tuple[Tensor, Tensor] = self._compiled(
                        policy, spec, batch, section, bf16
                    )
                    self._ready = True
                return result
            except torch._dynamo.exc.TorchDynamoException as error:
                if self._must:
                    raise
                self._failed = True
                reason = str(error).strip().partition("\n")[0]
                warnings.warn(f"the loss is not compiled: {reason}", RuntimeWarning, stacklevel=2)
        return self._eager(policy, spec, batch, section, bf16)


def choose_loss(loss: Loss, wanted: str, device: torch.device, policy: nn.Module) -> Loss:
    """Return the loss for this policy, compiled if `train.compile` asks for it and it pays.

    Raises:
        ConfigError: `train.compile` is on, but there is no compiler.
    """
    if wanted == "on" and (missing := missing_compiler(device)):
        raise ConfigError(
            f"train.compile is on, but {missing}: install it, or use train.compile auto or off"
        )
    if wanted == "on" or (
        wanted == "auto" and pays(device, policy) and not missing_compiler(device)
    ):
        return CompiledLoss(loss, device, must=wanted == "on", backend=BACKEND)
    return loss


def pays(device: torch.device, policy: nn.Module) -> bool:
    """Return whether compiling is expected to save time; see the top of this file."""
    has_memory = bool(policy.initial_state(1))  # type: ignore[operator]
    return device.type != "cpu" and not has_memory


def missing_compiler(device: torch.device) -> str:
    """Return what `torch.compile` lacks on this machine, in words; "" for nothing."""
    if device.type == "cuda":
        from torch.utils._triton import has_triton

        return "" if has_triton() else "Triton does not work on this machine"
    own = os.environ.get("CXX")
    names = (own,) if own else COMPILERS
    return (
        ""
        if any(shutil.which(name) for name in names)
        else f"there is no C++ compiler ({' or '.join(names)})"
    )
