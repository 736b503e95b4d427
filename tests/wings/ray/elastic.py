# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A run on machines that come and go: several of Ray's nodes on this machine. test_cluster.py
starts it as a process.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable

import ray
from ray.cluster_utils import Cluster

from puffervec.train import TrainConfig
from puffervec.wings.ray import RayTrainer

LONGEST_S = 120.0


def train_until(trainer: RayTrainer, condition: Callable[[], bool]) -> None:
    """Learn on until the condition holds, and three updates more."""
    give_up = time.monotonic() + LONGEST_S
    left = 3
    while left:
        assert trainer.collect()
        trainer.report(trainer.update())
        left -= condition()
        assert time.monotonic() < give_up, vars(trainer.collector.source)


def main(folder: str) -> None:
    """Begin with two machines and the learner's, which plays nothing; one more joins, then one
    leaves.
    """
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    machines = [cluster.add_node(num_cpus=1) for _ in range(2)]
    tables = {
        "vec": {"num_envs": 4, "backend": "serial"},
        "train": {"horizon": 8, "device": "cpu", "total_timesteps": 10**9, "compile": "off"},
        "ray": {"address": cluster.address},
        "log": {"folder": folder, "dashboard": "plain"},
    }
    with RayTrainer(TrainConfig.of("cartpole").merged(tables)) as trainer:
        playing = trainer.collector.source.members
        train_until(trainer, lambda: len(playing) == 2)
        machines.append(cluster.add_node(num_cpus=1))
        train_until(trainer, lambda: len(playing) == 3)
        cluster.remove_node(machines[0])
        train_until(trainer, lambda: len(playing) == 2)
        checkpoint = trainer.save()
    # Two hosts that must have machines of their own; then more than there is room for.
    tables["ray"] = {"address": cluster.address, "hosts": 2}
    with RayTrainer(TrainConfig.of("cartpole").merged(tables), checkpoint=checkpoint) as trainer:
        train_until(trainer, lambda: True)
        nodes = {actor["NodeID"] for actor in map(dict, _actors()) if actor["State"] == "ALIVE"}
        assert len(nodes) == 2, nodes
    cluster.shutdown()
    print("came and went")


def _actors() -> list[dict[str, str]]:
    from ray._private.state import actors

    found = actors().values()
    return [{"State": actor["State"], "NodeID": actor["Address"]["NodeID"]} for actor in found]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1])
    ray.shutdown()
