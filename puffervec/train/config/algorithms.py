# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The interface of an algorithm, and the registry of algorithms. Imports no torch.

A package adds an algorithm by an entry point in its pyproject.toml that loads to an `Algorithm`:

    [project.entry-points."puffervec.algorithms"]
    my_algorithm = "my_package:MINE"

Then `--train.algorithm my_algorithm` trains with it; `--train.algorithm module:MINE` needs no entry
point.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from puffervec.core.registry import Registry
from puffervec.errors import ConfigError
from puffervec.workers.python.creators import load

if TYPE_CHECKING:
    from torch import Tensor, nn

    from puffervec.train.config.sections import TrainSection
    from puffervec.train.learn.samples import Batch
    from puffervec.train.policies.distributions import ActionSpec

DEFAULT = "ppo"


class Loss(Protocol):
    """The function that gradient steps minimise."""

    def __call__(
        self, policy: nn.Module, spec: ActionSpec, batch: Batch, section: Any, bf16: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the loss, of shape (), and the algorithm's figures, (len(figures),), in float32.

        Both are sums over the samples of the batch, weighted by `batch.weights` if there are any,
        so that microbatches add up to their minibatch. This may run in several threads
        simultaneously, for different batches.

        Args:
            policy: the policy to train.
            spec: description of its actions.
            batch: samples of one microbatch.
            section: settings of the algorithm. If the run schedules them, `entropy_coef` and
                `kl_weight` are tensors () on the device with the values of this update.
            bf16: whether to run the policy under autocast.
        """


class LossTerm(Protocol):
    """A term that is added to the loss of any algorithm.

    Attributes:
        figures: names of its figures, which follow those of the algorithm.
    """

    figures: tuple[str, ...]

    def added_to(self, loss: Loss) -> Loss:
        """Return `loss` plus this term; the term's figures follow those of `loss`."""


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """A method by which updates improve a policy.

    Attributes:
        section: its settings: a frozen dataclass derived from TrainSection that adds its own
            fields, all with defaults. They are flags (`--train.NAME`) and are saved with the run
            like all others; `check` refuses bad values.
        loss: returns the loss. Called shortly before the first update, so that torch is imported
            only then.
        figures: names of the figures that the loss returns, in order. The log has their means as
            `losses/NAME`.
        stop: called after each epoch, as `stop(section, sums, samples)`: True ends the update.
            sums: the figures by name, summed over the epoch's samples of all ranks, tensors () on
            the device: reading one waits for the device.
        corrects_lag: whether the loss supports rollouts of older weights, with advantages that
            V-trace has corrected; `--ray` requires that.
        experts: whether it learns from the actions of the env's expert
            (puffervec/contract/experts.py), which then drives all agents: rollouts contain the
            expert's actions in place of drawn ones, and transitions without one are not valid.
        search: settings that `puffer-train sweep` searches in addition to the usual ones, as in
            `puffervec.Training`; "" excludes a setting.
    """

    section: type[TrainSection]
    loss: Callable[[], Loss]
    figures: tuple[str, ...]
    stop: Callable[[Any, Mapping[str, Tensor], int], bool] = lambda *_: False
    corrects_lag: bool = True
    experts: bool = False
    search: Mapping[str, str] = dataclasses.field(default_factory=dict)


_REGISTRY = Registry(
    "puffervec.algorithms",
    "algorithm",
    Algorithm,
    {
        DEFAULT: "puffervec.train.learn.ppo:PPO",
        "a2c": "puffervec.train.learn.a2c:A2C",
        "clone": "puffervec.train.learn.clone:CLONE",
    },
)
names = _REGISTRY.names


def get(name: str) -> Algorithm:
    """Return the algorithm of that name, or the one imported from "module:ATTRIBUTE".

    Raises: ConfigError.
    """
    if ":" not in name:
        return _REGISTRY.get(name)
    value: Any = load(name, f"train.algorithm {name}")
    if not isinstance(value, Algorithm):
        raise ConfigError(
            f"train.algorithm {name} is {value!r}: must be the name of a puffervec.train.Algorithm"
        )
    return value
