# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A run over hosts (puffervec/wings/ray/collector.py) whose hosts live in this process, so that no
Ray has to be started.
"""

from __future__ import annotations

import dataclasses
import pickle
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

pytest.importorskip("ray")

from puffervec.errors import ConfigError, PuffervecError  # noqa: E402
from puffervec.train import TrainConfig  # noqa: E402
from puffervec.train.device.ranks import GroupRanks  # noqa: E402
from puffervec.wings.ray import (
    RayTrainer,  # noqa: E402
    cluster,  # noqa: E402
    collector,  # noqa: E402
)
from puffervec.wings.ray.host import Failure, Host, HostInfo, HostSetup, Request, load_weights  # noqa: E402
from puffervec.wings.ray.segment import Segment, store_segment  # noqa: E402
from puffervec.wings.ray.source import Answer, Ref  # noqa: E402
from tests.train.gangs import all_well  # noqa: E402

Small = Callable[..., TrainConfig]


class Rooms:
    """Hosts in this process, in the place of a cluster.

    Attributes:
        setup: what they are made of. stored: weights that were published. taken: segments, as they
        poll_started.
        coming: (host, answer) of those that are not ready yet, or None for a look in vain.
        gone: hosts that the next sync loses.
        looks: for hosts that have become ready: how long each may wait, in seconds.
    """

    def __init__(self, section: Any, hosts: int) -> None:
        self.section, self.hosts, self.notes = section, hosts, ["a note of the cluster"]
        self.looks: list[float] = []
        self.setup: HostSetup
        self.alive: dict[int, Host] = {}
        self.stored: list[bytes] = []
        self.taken: list[Segment] = []
        self.answers: dict[int, bytes] = {}
        self.coming: list[tuple[int, HostInfo | Failure] | None] = []
        self.gone: list[int] = []
        self.dropped: list[Ref] = []

    def start(self, setup: HostSetup) -> None:
        self.setup = setup
        for host in range(self.hosts or 1):
            self.coming.append((host, self.add(host)))

    def add(self, number: int) -> HostInfo | Failure:
        self.alive[number] = Host(pickle.loads(pickle.dumps(self.setup)), number)
        return self.alive[number].describe()

    def sync(self) -> list[int]:
        gone, self.gone = self.gone, []
        return gone

    def poll_started(self, timeout_s: float) -> list[tuple[int, HostInfo | Failure]]:
        self.looks.append(timeout_s)
        found = self.coming.pop(0) if self.coming else None
        return [] if found is None else [found]

    def put(self, weights: bytes) -> Ref:
        self.stored.append(weights)
        return weights

    def play(self, host: int, weights: Ref, order: Request) -> Ref:
        self.answers[len(self.answers)] = pickle.dumps(self.alive[host].play(weights, order))
        return len(self.answers) - 1

    def ready(self, refs: list[Ref], timeout_s: float) -> list[Ref]:
        return refs

    def take(self, ref: Ref) -> Answer:
        answer: Answer = pickle.loads(self.answers[ref])
        if isinstance(answer, Segment):
            self.taken.append(answer)
        return answer

    def drop(self, ref: Ref) -> None:
        self.dropped.append(ref)

    def name(self, host: int) -> str:
        return f"host {host}"

    def close(self) -> None:
        for host in self.alive.values():
            host.close()
        self.alive.clear()


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "Cluster", Rooms)


def config_of(small: Small, hosts: int = 2, **tables: dict[str, Any]) -> TrainConfig:
    ray = {"address": "auto", "hosts": hosts, "ahead": 1, **tables.pop("ray", {})}
    return small("cartpole", ray=ray, **tables)


@pytest.mark.slow
@pytest.mark.usefixtures("rooms")
@pytest.mark.parametrize(("hosts", "segments"), [(2, 0), (1, 3), (0, 1)])
def test_an_update_learns_from_the_segments_that_hosts_played(
    small: Small, hosts: int, segments: int
) -> None:
    """Its rows are those of the segments, in the order in which they came; all that is counted is
    of them.
    """
    config = config_of(small, hosts, ray={"segments": segments}, train={"scale_rewards": False})
    with RayTrainer(config) as trainer:
        made: Rooms = trainer.cluster
        wanted = segments or hosts
        for update in range(3):
            assert trainer.collect()
            assert len(made.taken) == (update + 1) * wanted and len(made.stored) == update + 1
            found = trainer.learner.storages["default"]
            twin = pickle.loads(pickle.dumps(trainer.learner.storages))
            for tensor in twin["default"].tensors().values():
                tensor.zero_()
            for place, segment in enumerate(made.taken[-wanted:]):
                store_segment(segment, twin, place)
                assert segment.version == update
            for name, tensor in found.tensors().items():
                assert name == "values" or torch.equal(tensor, twin["default"].tensors()[name]), (
                    name
                )
            steps = sum(segment.agent_steps for segment in made.taken[-wanted:])
            line = trainer.report(trainer.update())
            assert line["step"] == sum(segment.agent_steps for segment in made.taken)
            assert (
                line["ray/hosts"] == (hosts or 1)
                and line["ray/lag"] == line["ray/dropped"] == line["ray/deaths"] == 0
            )
            assert (
                line["ray/bytes_per_agent_step"]
                == sum(one.nbytes for one in made.taken[-wanted:]) / steps
            )
            seconds = sum(segment.seconds for segment in made.taken[-wanted:])
            assert line["ray/host_agent_steps_per_s"] == pytest.approx(steps / seconds)
            assert round(line["charts/env_steps_per_s"] * line["span_s"]) == 8 * 4 * wanted
        assert trainer.collector.turns == 3 * 8 * wanted
        said = (
            f"{hosts or 1} host{'s' * (hosts > 1)} of 4 envs, 4 rows each, {wanted} "
            f"segment{'s' * (wanted > 1)} an update"
        )
        assert said in trainer.describe()


@pytest.mark.slow
@pytest.mark.usefixtures("rooms")
def test_hosts_play_with_the_newest_weights_and_new_ones_are_sent_only_after_an_update(
    small: Small,
) -> None:
    with RayTrainer(config_of(small)) as trainer:
        made: Rooms = trainer.cluster
        trainer.request_stop()
        assert not trainer.collect() and trainer.collector.turns == 0 and len(made.stored) == 1
        trainer.stop_requested = False
        assert trainer.collect() and len(made.stored) == 1
        trainer.update()
        assert trainer.collect() and len(made.stored) == 2
        sent = pickle.loads(pickle.dumps(made.setup.policies))
        load_weights(sent, made.stored[1])
        for name, tensor in trainer.policies["default"].state_dict().items():
            assert torch.equal(sent["default"].state_dict()[name], tensor), name


@pytest.mark.usefixtures("rooms")
@pytest.mark.parametrize(
    ("precision", "observations", "sent"),
    [
        ("fp32", "auto", "exact"),
        ("bf16", "auto", "bf16"),
        ("bf16", "exact", "exact"),
        ("fp32", "uint8", "uint8"),
    ],
)
def test_hosts_are_told_how_observations_travel(
    small: Small, precision: str, observations: str, sent: str
) -> None:
    config = config_of(
        small, 1, ray={"observations": observations}, train={"precision": precision, "threads": 2}
    )
    with RayTrainer(config) as trainer:
        setup = trainer.cluster.setup
        assert (setup.observations, setup.bf16) == (sent, precision == "bf16")
        assert setup.cpus == 0, "the cluster sets them"
        own = setup.config
        assert (own.ray.address, own.train.device, own.train.threads) == (
            "",
            "cpu",
            0,
        )  # Threads: as many as a host has cores.
        kinds = {
            part.kind
            for part in trainer.cluster.alive[0]
            .play(b"", Request(-1, made_incarnation(trainer), 0))
            .arrays["default"]
            .values()
        }
        assert (sent in kinds) and kinds <= {sent, "exact", "bf16"}


def made_incarnation(trainer: RayTrainer) -> str:
    incarnation: str = trainer.cluster.alive[0].incarnation
    return incarnation


@pytest.mark.usefixtures("rooms")
def test_the_time_of_a_collect_is_that_of_hosts_and_that_of_copies(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RayTrainer(config_of(small)) as trainer:
        ticks = iter(range(100))
        clock = types.SimpleNamespace(
            perf_counter=lambda: float(next(ticks)), monotonic=lambda: 0.0
        )
        monkeypatch.setattr(collector, "time", clock)
        for collects in (1, 2):
            assert trainer.collect()
            times = trainer.collector.times
            # Six readings of the clock in each: at both ends of it all, and of both copies.
            assert (times.copy, times.env) == (2.0 * collects, 3.0 * collects)


@pytest.mark.usefixtures("rooms")
def test_hosts_that_are_late_are_waited_for_and_then_given_up(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(self: Rooms, setup: HostSetup) -> None:
        self.setup = setup
        self.coming += [
            None,
            None,
            (0, self.add(0)),
            None,
            *([(1, self.add(1))] if wait_s > 1 else []),
        ]

    monkeypatch.setattr(Rooms, "start", late)
    wait_s = 60.0
    with RayTrainer(config_of(small, ray={"wait_s": wait_s})) as trainer:
        assert len(trainer.cluster.looks) == 5 and trainer.collect()
        assert all(trainer.cluster.looks[:5]) and not any(trainer.cluster.looks[5:]), (
            "the learner waits for hosts only at the start"
        )
    wait_s = 0.01
    with pytest.raises(
        ConfigError, match=r"ray.hosts is 2: 1 of 2 started within 0.1 s, 10 x ray.wait_s"
    ):
        RayTrainer(config_of(small, ray={"wait_s": wait_s}))


@pytest.mark.usefixtures("rooms")
@pytest.mark.parametrize("bad_input", [False, True])
def test_a_host_that_cannot_start_ends_the_run_with_its_words(
    small: Small, monkeypatch: pytest.MonkeyPatch, bad_input: bool
) -> None:
    monkeypatch.setattr(
        Rooms, "add", lambda self, number: Failure("WorkerError: no memory", bad_input)
    )
    with pytest.raises(PuffervecError, match="host 0: WorkerError: no memory") as error:
        RayTrainer(config_of(small))
    assert isinstance(error.value, ConfigError) == bad_input


@pytest.mark.usefixtures("rooms")
def test_who_comes_after_the_first_weights_were_published_comes_later(small: Small) -> None:
    with RayTrainer(config_of(small, 0)) as trainer:
        made: Rooms = trainer.cluster
        trainer.collect()
        assert trainer.collector.source.version == 0
        made.coming.append((1, made.add(1)))
        trainer.collector._admit(0.0)
        assert trainer.collector.notes[1:] == ["host 1 has joined"]


@pytest.mark.slow
@pytest.mark.usefixtures("rooms")
def test_hosts_that_come_later_are_noted_and_those_that_leave_are_not_asked_again(
    small: Small,
) -> None:
    with RayTrainer(config_of(small, 0, ray={"segments": 2, "ahead": 2})) as trainer:
        made: Rooms = trainer.cluster
        assert trainer.collector.notes == ["a note of the cluster"] and made.notes == []
        trainer.collect()
        made.coming.append((1, made.add(1)))
        trainer.update()
        trainer.collect()
        assert trainer.collector.notes[1:] == ["host 1 has joined"]
        assert trainer.report(trainer.update())["ray/hosts"] == 2 and trainer.collector.notes == []
        made.gone = [0, 7]  # The other one had not joined yet.
        trainer.collect()
        assert trainer.report(trainer.update())["ray/hosts"] == 1 and made.dropped
        trainer.collect()
        assert {segment.incarnation for segment in made.taken[-2:]} == {made.alive[1].incarnation}


@pytest.mark.slow
@pytest.mark.usefixtures("rooms")
def test_segments_of_old_weights_are_dropped_and_counted(small: Small) -> None:
    with RayTrainer(config_of(small, 1, ray={"ahead": 3, "max_lag": 1})) as trainer:
        lines = []
        for _ in range(4):
            assert trainer.collect()
            lines.append(trainer.report(trainer.update()))
        versions = [segment.version for segment in trainer.cluster.taken]
    assert versions == sorted(versions)
    lags = [line["ray/lag"] for line in lines]
    assert lags[:2] == [0.0, 1.0] and all(lag <= 1 for lag in lags)
    assert [line["ray/dropped"] for line in lines][:3] == [0, 0, 1]


@pytest.mark.usefixtures("rooms")
def test_a_run_begins_with_the_seed_of_its_envs_and_each_life_has_its_own(small: Small) -> None:
    """Two runs of one seed play the same; hosts of one run, and runs of two seeds, do not."""

    def first(seed: int) -> list[torch.Tensor]:
        with RayTrainer(config_of(small, train={"seed": seed})) as trainer:
            trainer.collect()
            (name,) = [
                name
                for name in trainer.learner.storages["default"].tensors()
                if name.startswith("obs")
            ]
            rows = trainer.learner.storages["default"].tensors()[name][0].clone()
            return [rows[:4], rows[4:]]

    one, again, other = first(1), first(1), first(2)
    assert torch.equal(one[0], again[0]) and torch.equal(one[1], again[1])
    assert not torch.equal(one[0], one[1]) and not torch.equal(one[0], other[0])


@pytest.mark.usefixtures("rooms")
def test_seeds_of_all_learners_differ(small: Small) -> None:
    """The incarnations of a learner are as far apart as all learners have envs."""
    config = config_of(small, ray={"segments": 1})

    def stride(ranks: GroupRanks) -> int:
        with RayTrainer(config, ranks=ranks) as trainer:
            found: int = trainer.collector.source.stride
            return found

    assert all_well(2, stride) == [2 * config.vec.num_envs] * 2


@pytest.mark.usefixtures("rooms")
def test_a_run_goes_on_from_its_checkpoint_with_new_episodes(small: Small) -> None:
    with RayTrainer(config_of(small)) as trainer:
        trainer.train()
        steps, saved = trainer.counters.agent_steps, trainer.save()
    config = config_of(small)
    config = dataclasses.replace(
        config, train=dataclasses.replace(config.train, total_timesteps=2 * steps)
    )
    with RayTrainer(config, checkpoint=saved) as trainer:
        assert trainer.counters.agent_steps == steps and trainer.collector.full
        trainer.train()
        assert trainer.counters.agent_steps >= 2 * steps
