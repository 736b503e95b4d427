# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The arithmetic of bench/scale.py: what limits a cluster, on numbers that are easily checked."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from bench import scale
from bench.scale import Costs, Plant, check, costs_of, on_one_machine, predict

# A segment of 1,000 agent-steps takes 0.1 s to play, and 1 MB to send.
COSTS = Costs(
    steps=1000.0,
    play=0.1,
    put=0.0,
    take=0.001,
    order=0.0,
    cpu=0.101,
    update=0.4,
    nbytes=1e6,
    weights=1e4,
)
PLANT = Plant(
    host_cores=1, gbit=8.0, gpu_steps_per_s=1e6, gradient_steps=0
)  # 1 GB/s; 1 ms a segment.


def test_hosts_limit_until_the_learner_has_enough() -> None:
    one = predict(COSTS, PLANT, hosts=1, gpus=1)
    assert (one.limit, one.agent_steps_per_s, one.lag) == ("simulation", pytest.approx(10_000), 1.0)
    assert one.parts["learner"] == pytest.approx(0.001 + 0.001) and one.parts[
        "network"
    ] == pytest.approx(0.001)
    assert predict(COSTS, PLANT, hosts=32, gpus=1).agent_steps_per_s == pytest.approx(320_000)
    many = predict(
        COSTS, PLANT, hosts=64, gpus=1
    )  # 64 segments: 0.1 s to play, 0.128 s to learn from.
    assert (many.limit, many.agent_steps_per_s) == ("learner", pytest.approx(64_000 / 0.128))


def test_more_gpus_share_hosts_and_exchange_gradients() -> None:
    alone = predict(COSTS, PLANT, hosts=64, gpus=1)
    both = predict(COSTS, PLANT, hosts=64, gpus=2)
    assert (
        both.limit == "simulation"
        and both.agent_steps_per_s == pytest.approx(640_000)
        and both.parts["learner"] < alone.period_s
    )
    talking = predict(COSTS, dataclasses.replace(PLANT, gradient_steps=1000), hosts=64, gpus=2)
    assert talking.parts["learner"] == pytest.approx(both.parts["learner"] + 1000 * scale.MESSAGE_S)
    far = dataclasses.replace(
        PLANT, gradient_steps=1, gpus_per_machine=1
    )  # The weights' size goes around the machines too.
    assert predict(COSTS, far, hosts=64, gpus=2).parts["learner"] == pytest.approx(
        0.064 + scale.MESSAGE_S + 1e4 / 1e9
    )


def test_the_network_is_shared_by_the_learners_of_a_machine() -> None:
    slow = dataclasses.replace(PLANT, gbit=0.08)  # 10 MB/s: ten segments a second.
    row = predict(COSTS, slow, hosts=32, gpus=1)
    assert (row.limit, row.agent_steps_per_s) == ("network", pytest.approx(10_000))
    assert predict(COSTS, slow, hosts=32, gpus=2).agent_steps_per_s == pytest.approx(10_000)
    apart = dataclasses.replace(slow, gpus_per_machine=1)
    assert predict(COSTS, apart, hosts=32, gpus=2).agent_steps_per_s == pytest.approx(20_000)
    heavy = dataclasses.replace(COSTS, weights=1e8)  # Then weights out are more than segments in.
    assert predict(heavy, slow, hosts=2, gpus=1).parts["network"] == pytest.approx(20.0)


def test_policy_lag_limits_where_updates_take_few_of_many_segments() -> None:
    plant = dataclasses.replace(PLANT, most_segments=4, gpu_steps_per_s=1e9, ahead=2, max_lag=4)
    row = predict(COSTS, plant, hosts=100, gpus=1)
    # What is asked for arrives up to two rollouts later, by when no more than five updates may
    # have been made.
    assert (row.limit, row.period_s, row.lag) == ("policy lag", pytest.approx(2 * 0.1 / 5), 4.0)
    assert (
        predict(COSTS, dataclasses.replace(plant, max_lag=100), hosts=100, gpus=1).limit
        != "policy lag"
    )


def test_a_host_of_many_cores_sends_as_much_more() -> None:
    big = dataclasses.replace(PLANT, host_cores=16, gpu_steps_per_s=1e9)
    row = predict(COSTS, big, hosts=1, gpus=1)
    assert row.agent_steps_per_s == pytest.approx(160_000) and row.parts[
        "network"
    ] == pytest.approx(0.016)
    puts = dataclasses.replace(COSTS, put=0.01)  # One after the other: 16 times as much.
    assert predict(puts, big, hosts=1, gpus=1).parts["simulation"] == pytest.approx(0.26)


@pytest.mark.parametrize(
    ("hosts", "cores", "learn", "period"),
    [
        (1, 2, False, 0.1),
        (2, 3, False, 0.1),
        (2, 2, False, 0.101),  # The learner takes 2 ms of one of the cores.
        (4, 2, False, 0.202),
        (4, 3, False, 0.404 / 3),
        (1, 2, True, 0.401),
        (2, 3, True, 0.802),  # The learner has its core alone.
        (2, 2, True, 0.902),  # One of the hosts plays beside it.
    ],
)
def test_on_one_machine_they_share_cores(
    hosts: int, cores: int, learn: bool, period: float
) -> None:
    assert on_one_machine(COSTS, hosts, cores, learn) == pytest.approx(hosts * 1000 / period)


def test_cores_that_play_at_once_slow_each_other() -> None:
    crowd = dataclasses.replace(COSTS, crowds={1: 1.0, 2: 1.25, 4: 1.5})
    assert [
        on_one_machine(crowd, hosts, 8, learn=False) for hosts in (1, 2, 3, 4)
    ] == pytest.approx([10_000, 20_000 / 1.25, 30_000 / 1.25, 40_000 / 1.5])
    big = dataclasses.replace(PLANT, host_cores=16, gpu_steps_per_s=1e9)
    assert predict(crowd, big, hosts=1, gpus=1).agent_steps_per_s == pytest.approx(160_000 / 1.5)


def test_each_repeat_predicts_itself() -> None:
    """A machine that is half as fast in the second repeat, and whose cores take half longer where
    two play.
    """
    found = of_hosts(
        {"1 exact collected": 10_000.0, "1 exact trained": 2_500.0, "2 exact collected": 13_333.0}
    )
    for figures in found["figures"].values():
        for figure in figures.values():
            figure["samples"] *= 2
    for name in ("1 exact collected", "2 exact collected"):
        found["figures"][name]["play_s"]["samples"] = [0.1, 0.2]
        rate = found["figures"][name]["agent_steps_per_s"]["median"]
        found["figures"][name]["agent_steps_per_s"]["samples"] = [rate, rate / 2]
    found["crowds"] = {"1": {"samples": [0.1, 0.2]}, "2": {"samples": [0.15, 0.3]}}
    errors = {(c["hosts"], c["what"]): c["error"] for c in check(found, cores=4)}
    assert errors[1, "collected"] == pytest.approx(0.0) and errors[2, "collected"] == pytest.approx(
        0.0, abs=1e-4
    )


def of_hosts(rates: dict[str, float]) -> dict[str, Any]:
    """Results as bench/hosts.py leaves them."""
    per = {
        "play_s": 0.1,
        "take_s": 0.001,
        "cpu_s": 0.101,
        "update_s": 0.4,
        "segment_bytes": 1e6,
        "segment_steps": 1000.0,
    }
    figures = {
        name: {
            key: {"median": value, "samples": [value]}
            for key, value in (per | {"agent_steps_per_s": rate}).items()
        }
        for name, rate in rates.items()
    }
    costs = {"put_s": 0.0, "get_s": 0.0, "order_s": 0.0, "weights_bytes": 1e4}
    return {"figures": figures, "costs": costs, "crowds": {"1": {"samples": [0.1]}}}


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "code"), [(9_000.0, 0), (12_000.0, 0), (13_000.0, 1)])
def test_the_check_compares_with_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rate: float, code: int
) -> None:
    found = of_hosts(
        {"1 exact collected": rate, "1 exact trained": 2_500.0, "1 uint8 collected": 1.0}
    )
    assert costs_of(found) == COSTS
    assert [round(c["error"], 2) for c in check(found, cores=2)] == [
        round(10_000 / rate - 1, 2),
        0.0,
    ]
    file, out = tmp_path / "2026-01-01-hosts.json", tmp_path / "out.json"
    file.write_text(json.dumps({"results": {"cores": 2, "cartpole": found}}))
    assert scale.main(["--measured", str(file), "--json", str(out), "--host-cores", "1"]) == code
    shown, kept = capsys.readouterr().out, json.loads(out.read_text())["results"]
    assert "ASSUMED: host_cores 1, gbit 25" in shown and ("NOT WITHIN 20 %" in shown) == code
    assert len(kept["cartpole"]["check"]) == 2 and kept["assumed"]["host_cores"] == 1
    assert {(row["hosts"], row["gpus"]) for row in kept["cartpole"]["rows"]} >= {
        (1, 1),
        (1000, 1),
        (1000, 64),
        (64, 64),
    }


def test_the_newest_results_are_taken(tmp_path: Path) -> None:
    for name in (
        "a/2026-01-02-hosts.json",
        "b/2026-01-01-hosts.json",
        "b/2026-01-03-hosts-learning.json",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert scale.newest(tmp_path) == tmp_path / "a/2026-01-02-hosts.json"
    with pytest.raises(SystemExit, match="no results of bench/hosts.py"):
        scale.newest(tmp_path / "a" / "none")
