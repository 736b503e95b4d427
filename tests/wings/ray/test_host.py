# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A host (puffervec/wings/ray/host.py), in this process: what it plays, with which weights, and
what it says of failures.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import puffervec
from puffervec.train import TrainConfig
from puffervec.train.config.target import env_spec
from puffervec.train.learn.updater import reevaluate
from puffervec.train.policies.mapping import policy_rows
from puffervec.train.run.setup import RANK_SEEDS
from puffervec.wings.ray import host as host_module
from puffervec.wings.ray.host import (
    Failure,
    Host,
    HostInfo,
    HostSetup,
    Request,
    Restarted,
    dump_weights,
    load_weights,
    take_cores,
)
from puffervec.wings.ray.segment import Segment, store_segment

Small = Callable[..., TrainConfig]


@pytest.fixture
def made(small: Small) -> Iterator[Callable[..., Host]]:
    hosts: list[Host] = []

    def make(
        target: str = "cartpole",
        observations: str = "exact",
        tables: dict[str, Any] | None = None,
        **other: Any,
    ) -> Host:
        config = small(target, **(tables or {}))
        spec = env_spec(config)
        policies = {name: rows.build() for name, rows in policy_rows(spec, config).items()}
        setup = HostSetup(
            config, policies, False, observations, puffervec.__version__, spec.policy_hash(), 0
        )
        hosts.append(Host(dataclasses.replace(setup, **other), 0))
        return hosts[-1]

    yield make
    for host in hosts:
        host.close()


def play(
    host: Host, version: int = 0, policies: dict[str, nn.Module] | None = None, seed: int = 5
) -> Segment:
    answer = host.play(
        dump_weights(policies or host.policies), Request(version, host.incarnation, seed)
    )
    assert isinstance(answer, Segment), answer
    assert 0.0 < answer.seconds < 600.0  # not the clock's own time
    return copy.deepcopy(answer)  # Its arrays alias the host's.


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("able", [False, True])
def test_a_host_whose_processor_has_no_bf16_acts_without(
    made: Callable[..., Host], monkeypatch: pytest.MonkeyPatch, wanted: bool, able: bool
) -> None:
    """The learner chooses by its own processor."""
    monkeypatch.setattr(host_module, "cpu_has_bf16", lambda: able)
    assert made(bf16=wanted).rollout.bf16 == (wanted and able)


@pytest.mark.parametrize("tables", [{}, {"policy": {"memory": "lstm"}}])
def test_it_plays_with_the_weights_that_it_is_given(
    made: Callable[..., Host], tables: dict[str, Any]
) -> None:
    host = made(tables=tables)
    other = copy.deepcopy(host.policies)
    for parameter in other["default"].parameters():
        parameter.requires_grad_(False).add_(torch.randn_like(parameter) * 0.3)
    for version, policies in ((0, host.policies), (1, other)):
        segment = play(host, version, dict(policies))
        assert (segment.version, segment.incarnation) == (
            version,
            host.incarnation,
        ) and 24 <= segment.agent_steps <= 32
        learned = copy.deepcopy(host.learned)
        store_segment(segment, learned, 0)
        storage = learned["default"]
        for half in [half for half in storage.first_states if half]:
            del storage.first_states[half]
        ratios = reevaluate(policies["default"], storage, bool(tables), False, host.pool, 100)
        if version and tables:  # The weights before made what it remembers of step 0.
            break
        ratios = ratios[version:]  # They drew step 0 of the second rollout too.
        torch.testing.assert_close(ratios, torch.ones_like(ratios), rtol=0, atol=1e-5)


def test_roll_outs_follow_each_other(
    made: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    host = made(tables={"train": {"threads": 3}})
    assert threads[0] == 1 and host.pool.count == 3
    first, second = play(host), play(host)
    for name, part in first.arrays["default"].items():
        assert np.array_equal(part.data[-1], second.arrays["default"][name].data[0])


def test_seeds_decide_what_a_life_plays(made: Callable[..., Host]) -> None:
    a, b, c = made(), made(), made()
    weights = dict(a.policies)
    one, same, other = (
        play(a, policies=weights),
        play(b, policies=weights),
        play(c, policies=weights, seed=6),
    )
    rows = [
        next(part.data for name, part in found.arrays["default"].items() if "obs" in name)
        for found in (one, same, other)
    ]
    assert np.array_equal(rows[0], rows[1]) and not np.array_equal(rows[0], rows[2])
    assert a.actions.initial_seed() == 5 + RANK_SEEDS, "no env has this seed"


def test_an_order_for_the_life_before_is_not_played(made: Callable[..., Host]) -> None:
    host = made()
    answer = host.play(dump_weights(host.policies), Request(0, "another", 5))
    assert answer == Restarted(host.incarnation) and not host.rollout.full


def test_episodes_and_rewards_travel_as_numbers(made: Callable[..., Host]) -> None:
    host = made(tables={"train": {"horizon": 64, "scale_rewards": True}})
    play(host)
    counted = play(host).counted
    rows = np.frombuffer(counted.episodes).reshape(-1, host.tally.episodes.columns)
    assert len(rows) > 0 and (rows[:, 0] > 8).all()  # Returns of episodes of CartPole.
    total, count = counted.scales["default"]
    assert total > 0 and 0 < count <= 4 * 64


def test_about_says_what_episodes_leave(made: Callable[..., Host]) -> None:
    about = made().describe()
    assert (
        isinstance(about, HostInfo) and about.pid == os.getpid() and "serial with" in about.vec_env
    )
    assert made("CartPole-v1").describe().facts.agents == ()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"version": "0.0.1"}, "the learner 0.0.1: install the learner"),
        ({"spec_hash": "x"}, "other observations or actions"),
    ],
)
def test_a_host_of_another_version_says_so(
    made: Callable[..., Host], other: dict[str, str], words: str
) -> None:
    host = made(**other)
    for answer in (host.describe(), host.play(b"", Request(0, host.incarnation, 1))):
        assert isinstance(answer, Failure) and answer.bad_input and words in answer.text


def test_a_failing_env_is_an_answer(made: Callable[..., Host]) -> None:
    host = made("probe", tables={"env": {"episode_length": 4}})
    host.vec.close()
    answer = host.play(dump_weights(host.policies), Request(0, host.incarnation, 1))
    assert isinstance(answer, Failure) and not answer.bad_input and "closed" in answer.text


def test_weights_travel_by_name(made: Callable[..., Host]) -> None:
    one, other = (
        {"a": nn.Linear(2, 3), "b/c": nn.Linear(1, 1)},
        {"a": nn.Linear(2, 3), "b/c": nn.Linear(1, 1)},
    )
    with pytest.raises(KeyError):
        load_weights(other, dump_weights(one))  # Names of policies have no slash, see check_names.
    load_weights(other, dump_weights({"a": one["a"]}))
    assert torch.equal(one["a"].weight, other["a"].weight) and not torch.equal(
        one["b/c"].weight, other["b/c"].weight
    )


@pytest.mark.parametrize(
    ("number", "cpus", "cores"),
    [(0, 2, {2, 3}), (1, 2, {5, 7}), (2, 2, {2, 3}), (1, 3, {2, 3, 7}), (1, 4, None), (0, 0, None),
     (6, 1, {5})],
)  # fmt: skip
def test_hosts_of_one_machine_keep_to_their_cores(
    monkeypatch: pytest.MonkeyPatch, number: int, cpus: int, cores: set[int] | None
) -> None:
    kept: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0: {7, 2, 3, 5}}[pid])
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: kept.append(cores))
    take_cores(number, cpus)
    assert kept == ([] if cores is None else [cores])
