# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What the benchmarks make of their samples: rates, ratios, verdicts; and that what they compare is
really switched on.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from bench import (
    budget,
    ceiling,
    checks,
    defaults,
    limits,
    runs,
    saves,
    train,
)
from bench.limits import Crowd, Sample
from bench.workloads import preset
from puffervec.errors import ConfigError, PuffervecError
from puffervec.system.cores import affinity
from puffervec.train import TrainConfig
from puffervec.train.run import checkpoint as ckpt
from tests.builds import source_folder
from tests.fixtures.training import torch_state  # noqa: F401 (autouse)
from tests.train.saved import some

FACTS = {
    "horizon": 10,
    "num_envs": 2,
    "buffers": 2,
    "observation_floats": 8,
    "parameters": 100,
    "replay_ratio": 2,
}


def line(seconds: float, step: int, env: float) -> dict[str, float]:
    rest = {"copy": 0.1, "forward": 0.2, "update": 0.5 - env, "log": 0.1, "other": 0.1}
    return {
        "elapsed_s": seconds,
        "step": step,
        **{f"time/{part}": share for part, share in {"env": env, **rest}.items()},
    }


# ---- training (bench/runs.py, train.py, defaults.py) ---------------------------------


def test_rates_leave_the_first_lines_out_and_weigh_by_time() -> None:
    lines = [line(9.0, 1, 0.0), line(10.0, 100, 0.0), line(11.0, 200, 0.2), line(14.0, 700, 0.4)]
    lines = [lines[0], *lines]  # a fifth of five lines is warm-up
    found = runs.rates(lines, FACTS)
    assert found["agent_steps_per_s"] == pytest.approx(699 / 5)
    assert found["env_steps_per_s"] == pytest.approx(3 * 10 * 2 / 5)
    assert found["shares"]["env"] == pytest.approx((0 * 1 + 0.2 * 1 + 0.4 * 3) / 5)
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert found["iteration_s"] == pytest.approx((0.28 + 0.3) * 5 / 30)
    assert found["policy_half_s"] == pytest.approx(0.3 * 5 / 60)


def test_overlap_is_one_where_an_iteration_takes_twice_the_longer_of_both() -> None:
    sample = {"facts": FACTS, "iteration_s": 0.4, "policy_half_s": 0.1}
    assert train.overlap(sample, 0.2) == pytest.approx(1.0)
    assert train.overlap(sample, 0.05) == pytest.approx(2.0)
    assert train.overlap({**sample, "facts": FACTS | {"buffers": 1}}, 0.2) is None


def test_the_trainer_is_compared_with_the_naive_loop() -> None:
    rows = train.ladder_rows({
        label: [{"agent_steps_per_s": rate, "facts": FACTS} for rate in rates]
        for label, rates in (("naive", [1.0, 2.0]), ("the trainer", [8.0, 16.0]))
    })  # fmt: skip
    assert [row["over_naive"].median for row in rows] == [1, 8]


def test_candidates_are_scored_by_means_over_tasks_of_means_over_seeds() -> None:
    for tables in defaults.CANDIDATES.values():
        TrainConfig.of("cartpole").merged(tables).check()
    shares = (
        ("a", "x", 1, 0.0),
        ("a", "x", 2, 1.0),
        ("b", "x", 1, 1.0),
        ("a", "y", 1, 1.0),
        ("b", "y", 1, 0.9),
    )
    rows = defaults.table([
        {"task": task, "candidate": candidate, "seed": seed, "score": 10 * share, "share": share,
         "seconds": 1.0}
        for task, candidate, seed, share in shares
    ])  # fmt: skip
    assert [(row["candidate"], row["share"], row["worst_share"]) for row in rows] == [
        ("y", 0.95, 0.9),
        ("x", 0.75, 0.5),
    ]
    assert rows[1]["scores"] == {"a": [0.0, 10.0], "b": [10.0]}


# ---- machines (bench/limits.py, ceiling.py, checks.py) ------------------------------


def test_shares_are_of_two_workers_on_the_same_cores() -> None:
    samples = {
        Crowd("drive", 1, 2): [Sample(100.0, 0.1), Sample(200.0, 0.1)],
        Crowd("drive", 1, 4): [Sample(90.0, 0.1), Sample(180.0, 0.1)],
        Crowd("drive", 1, 8): [Sample(80.0, 0.1), Sample(160.0, 0.1)],
        Crowd("drive", 2, 2): [Sample(1000.0, 0.1)] * 2,
        Crowd("drive", 2, 8): [Sample(900.0, 3.0)] * 2,
    }
    found = {
        (row.cores, row.workers): row for row in (limits.row(crowd, samples) for crowd in samples)
    }
    wanted = {(1, 2): None, (1, 4): True, (1, 8): False, (2, 2): None, (2, 8): False}
    assert {key: row.met for key, row in found.items()} == wanted
    assert found[1, 4].share.median == pytest.approx(0.9) and found[
        2, 8
    ].share.median == pytest.approx(0.9)


def test_only_some_cores_are_used_meanwhile() -> None:
    before = affinity()
    with limits.on_cores(1):
        assert affinity() == before[:1]
    assert affinity() == before


TIMED = """
import json, time
from bench.ceiling import wait_for_others
time.sleep({seconds})
wait_for_others()
print(json.dumps({{"at": time.monotonic()}}))
"""


@pytest.mark.slow
def test_loops_at_once_are_timed_from_the_same_moment_however_long_each_took_to_start() -> None:
    found = ceiling.run_simultaneously(
        [[sys.executable, "-c", TIMED.format(seconds=seconds)] for seconds in (0.0, 0.4)]
    )
    assert abs(found[0]["at"] - found[1]["at"]) < 0.3
    with pytest.raises(PuffervecError, match="ended before it was timed"):
        ceiling.run_simultaneously(
            [
                [sys.executable, "-c", TIMED.format(seconds=0)],
                [sys.executable, "-c", "raise SystemExit(3)"],
            ]
        )


@pytest.mark.slow
def test_every_check_is_found_once_in_the_sources(tmp_path: Path) -> None:
    source_folder()
    checks.copy_sources(tmp_path)
    before = {name: (tmp_path / name).read_text() for name, _, _ in checks.CUTS}
    checks.cut(tmp_path)
    for name, text in before.items():
        assert (tmp_path / name).read_text() != text
    with pytest.raises(ConfigError, match="0 times, not once"):
        checks.cut(tmp_path)
    assert checks.measure("probe", 4, 0.02) > 0 and ceiling.c_loops(preset("probe", 8), 2, 10) > 0


# ---- where training spends its time (bench/budget.py) --------------------------------------------


def test_the_products_of_a_gradient_are_recorded() -> None:
    layer, rows = torch.nn.Linear(5, 3), torch.ones(6, 5)
    with budget.Products() as products:
        torch.autograd.grad(layer(rows).sum(), list(layer.parameters()))
    forward = weights = 2 * 6 * 5 * 3
    assert products.flops == forward + weights and products.operations > len(products._calls) == 2
    products.run()
    assert torch.equal(products._calls[1].keywords["out"].T.sum(), torch.tensor(6.0 * 5 * 3))


# ---- checkpoints (bench/saves.py), pictures ------------------------------------------------------


def test_what_counts_as_a_failed_save(tmp_path: Path) -> None:
    def looked(updates: int | None) -> saves.Count:
        count = saves.Count()
        saves.look(tmp_path, updates, count, "now")
        return count

    assert looked(None).failures == 0  # Killed before its first save.
    assert looked(1).unloadable == ["now: no checkpoint verifies"]
    for updates in (1, 2):
        made = some(updates)
        made.manifest["counters"]["updates"] = updates
        last = ckpt.write(tmp_path / "checkpoints", made, keep=2)
    assert [looked(updates).failures for updates in (0, 1, 2, 3, None)] == [1, 0, 0, 1, 0]
    (last / "default.safetensors").write_bytes(b"")
    assert looked(2).lost == ["now: the newest checkpoint is of update 1"]
    (tmp_path / "checkpoints" / ".partial-1").mkdir()
    assert looked(1).inside_a_save == 1
