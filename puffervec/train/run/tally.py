# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Statistics of past rollouts: finished episodes, numbers in infos, the scale of rewards.

They cover rollouts that this process collects and rollouts that hosts send (wings/ray). Each host
computes the statistics of its own envs, so that only sums and rows of numbers are sent. Runs in the
learner and on hosts.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from puffervec.train.collect.episodes import EpisodeWindow, InfoMeans, NumericInfos, ReturnScale
from puffervec.train.collect.storage import Storage
from puffervec.train.device.ranks import Ranks
from puffervec.train.policies.mapping import PolicyRows
from puffervec.train.run.state import Files, Tensors

_INFO = "info/"


@dataclasses.dataclass(frozen=True)
class EpisodeFacts:
    """A description of the records that the episodes of an env produce.

    Attributes:
        records: as for `EpisodeWindow`.
        rates: as for `EpisodeWindow`.
        types: as for `EpisodeWindow`.
        agents: as for `InfoMeans`; None for C envs.
        by_place: as for `EpisodeWindow`.
    """

    records: tuple[str, ...] = ()
    rates: Mapping[str, str] = dataclasses.field(default_factory=dict)
    types: tuple[str, ...] = ()
    agents: tuple[object, ...] | None = None
    by_place: bool = False


@dataclasses.dataclass(frozen=True)
class Counted:
    """The statistics of a rollout in a form that can be sent.

    Attributes:
        episodes: bytes of `EpisodeWindow.rows`.
        infos: `InfoMeans.sums` as JSON.
        scales: `ReturnScale.sums` by policy.
    """

    episodes: bytes
    infos: bytes
    scales: Mapping[str, tuple[float, float]]


def facts_of(vec: Any, policies: Sequence[str], python: bool) -> EpisodeFacts:
    """Return a description of the records that the episodes of a vec env produce.

    Args:
        vec: the vec env.
        policies: names of the policies.
        python: whether its envs are Python envs, which have no records.
    """
    rates, kinds = ({}, tuple(policies)) if python else (_rates(vec), vec.env.agent_types)
    types = tuple(kinds) if len(kinds) > 1 and not rates else ()
    agents = tuple(getattr(vec.driver_env, "possible_agents", ())) if python else None
    names = () if python else tuple(vec.spec.record_names)
    return EpisodeFacts(names, rates, types, agents, by_place=vec.spec.tasks > 1)


def _rates(vec: Any) -> dict[str, str]:
    """Return the rates of a C env's records, including those that depend on its settings."""
    training, names = vec.env.training, set(vec.spec.record_names)
    return {
        **training.rates,
        **{name: of for name, of in training.more_rates.items() if names.issuperset(of.split("/"))},
    }


class Tally:
    """The statistics of a run's past rollouts."""

    def __init__(
        self, rows: Mapping[str, PolicyRows], storages: Mapping[str, Storage], ranks: Ranks
    ) -> None:
        """Build the scales of the rewards.

        Args:
            rows: rows by policy.
            storages: the storages that updates learn from, by policy.
            ranks: the ranks whose rollouts are counted together.
        """
        self.ranks, self._learned = ranks, storages
        # One scale per policy, because the returns of different kinds of agents are unrelated.
        sections = {name: own.settings.train for name, own in rows.items() if name in storages}
        self.return_scales = {
            name: ReturnScale(storages[name].rows, own.gamma)
            for name, own in sections.items()
            if own.scale_rewards
        }

    def expect(self, facts: EpisodeFacts) -> None:
        """Set which records episodes produce, before any are counted."""
        self.episodes = EpisodeWindow(facts.records, facts.rates, facts.types, facts.by_place)
        self.info_means = None if facts.agents is None else InfoMeans(facts.agents)

    def counted(
        self, episodes: Iterable[np.ndarray], numeric: Iterable[NumericInfos], whole: bool = True
    ) -> Counted:
        """Return the statistics of a rollout.

        Args:
            episodes: records of its finished episodes.
            numeric: numbers from its infos.
            whole: whether the storages contain a complete rollout; only then rewards are included.
        """
        infos = {} if self.info_means is None else self.info_means.sums(numeric)
        scales = {
            name: self._sums(name, scale) for name, scale in self.return_scales.items() if whole
        }
        return Counted(self.episodes.rows(episodes).tobytes(), json.dumps(infos).encode(), scales)

    def _sums(self, name: str, scale: ReturnScale) -> tuple[float, float]:
        storage = self._learned[name]
        return scale.sums(storage.rewards[1:].cpu().numpy(), storage.valid().cpu().numpy())

    def count(self, parts: Sequence[Counted]) -> None:
        """Count the episodes of a rollout, which may have several parts; all ranks must call it."""
        ended = b"".join(self.ranks.gather(b"".join(part.episodes for part in parts)))
        self.episodes.add_rows(np.frombuffer(ended).reshape(-1, self.episodes.columns))
        if self.info_means is not None:
            for part in parts:
                for data in self.ranks.gather(part.infos):
                    self.info_means.add_sums(json.loads(data))

    def scale_rewards(self, parts: Sequence[Counted]) -> None:
        """Scale the rewards in the storages in place; all ranks must call it.

        The unscaled rewards are not needed any more once the records exist.
        """
        for name, scale in self.return_scales.items():
            totals, counts = zip(*(part.scales[name] for part in parts), strict=True)
            scale.add(*self.ranks.sums([sum(totals), sum(counts)]))
            self._learned[name].rewards[1:].mul_(scale.factor)

    def means(self) -> dict[str, float]:
        """Return the metrics of finished episodes: `episode/<name>`, `env/<name>`."""
        return self.episodes.means() | ({} if self.info_means is None else self.info_means.means())

    def state(self) -> dict[str, Tensors]:
        """Return the files `returns` and `episodes`."""
        files: dict[str, Tensors] = {}
        if self.return_scales:
            files["returns"] = {
                _scale_name(name): torch.tensor(
                    [scale.mean_square, scale.rollouts], dtype=torch.float64
                )
                for name, scale in self.return_scales.items()
            }
        files["episodes"] = {
            "window": torch.from_numpy(self.episodes.state()),
            "total": torch.tensor([self.episodes.total]),
        }
        if self.episodes.by_place:
            files["episodes"]["ages"] = torch.from_numpy(self.episodes.ages())
        infos = {} if self.info_means is None else self.info_means.state()
        files["episodes"] |= {
            f"{_INFO}{name}": torch.from_numpy(part) for name, part in infos.items()
        }
        return files

    def load_state(self, files: Files) -> list[str]:
        """Resume from `state`."""
        for name, scale in self.return_scales.items():
            mean_square, rollouts = files["returns"][_scale_name(name)].tolist()
            scale.mean_square, scale.rollouts = mean_square, int(rollouts)
        if "episodes" in files:  # Older checkpoints lack it: the means then start empty.
            tensors = files["episodes"]
            ages = tensors["ages"].numpy() if "ages" in tensors else None
            self.episodes.load_state(tensors["window"].numpy(), int(tensors["total"].item()), ages)
            if self.info_means is not None:
                infos = {
                    name.removeprefix(_INFO): part.numpy()
                    for name, part in tensors.items()
                    if name.startswith(_INFO)
                }
                self.info_means.load_state(infos)
        return []


def _scale_name(policy: str) -> str:
    return "scale" if policy == "default" else f"scale/{policy}"
