# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`RayTrainer`: a trainer whose rollouts are collected by hosts, over Ray. Runs in the learner."""

from __future__ import annotations

import types
from typing import Any

from puffervec.errors import ConfigError
from puffervec.system import extras
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import training_of
from puffervec.train.device.ranks import Ranks
from puffervec.train.run.learner import Generators
from puffervec.train.run.setup import Setup
from puffervec.train.run.trainer import Trainer


class RayTrainer(Trainer):
    """A run whose envs run on the hosts of `config.ray`.

    It is used like a `Trainer`, with the same metrics and checkpoints; each can resume from a
    checkpoint of the other.
    """

    def _check(self, config: TrainConfig, ranks: Ranks) -> None:
        """See Trainer."""
        extras.require("--ray", "ray")
        section, learners = config.ray, ranks.size
        if not section.address:
            raise ConfigError(
                "ray.address is empty: give the cluster (local, auto, HOST:PORT), or use a Trainer"
            )
        if section.hosts % learners:
            raise ConfigError(
                f"ray.hosts is {section.hosts}: must be a multiple of the {learners} learners, "
                "which share them"
            )
        if learners > 1 and not (section.hosts and section.segments):
            raise ConfigError(
                f"ray.hosts is {section.hosts} and ray.segments {section.segments}: with "
                f"{learners} learners set the number of hosts that they share, and of segments "
                "per update of each"
            )

    def _make_vec(self, setup: Setup) -> Any:
        """Join the cluster; return an object with those attributes of a vec env that are used."""
        from puffervec.wings.ray.cluster import Cluster

        section, learners = setup.run.config.ray, setup.ranks.size
        alone = section.address == "local" and not section.hosts
        self.cluster = Cluster(section, 1 if alone else section.hosts // learners)
        vec = types.SimpleNamespace(
            num_envs=setup.run.config.vec.num_envs, num_buffers=1, close=self.cluster.close
        )
        vec.env = types.SimpleNamespace(training=training_of(setup.run.config.target))
        return vec

    def _make_collector(self, setup: Setup, generators: Generators) -> Any:
        from puffervec.wings.ray.collector import RayCollector

        return RayCollector(setup, self.learner, self.cluster)

    def report(self, losses: Any) -> dict[str, float]:
        """See Trainer; also show which hosts joined and left."""
        notes = self.collector.notes + self.cluster.notes
        self.collector.notes, self.cluster.notes = [], []
        for note in notes:
            self.reporting.note(note)
        return super().report(losses)

    def _played_by(self) -> str:
        return str(self.collector.describe())
