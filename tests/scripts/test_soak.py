# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The soak (scripts/soak.py): its plan of faults, what it reads of a run, its verdicts; and,
slowly, a short one.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
from pathlib import Path

import psutil
import pytest

from scripts import soak
from scripts.soak import FATAL, HARMLESS, Life, last_step

MIB = float(1 << 20)


def test_a_round_has_every_fault_once_and_fatal_ones_for_the_first_run_only() -> None:
    size = len(FATAL) + 2 * len(HARMLESS)
    faults = list(itertools.islice(soak.plan(2, seed=5), 2 * size))
    expected = {(0, kind) for kind in FATAL} | {
        (run, kind) for run in range(2) for kind in HARMLESS
    }
    assert set(faults[:size]) == set(faults[size:]) == expected
    assert faults == list(itertools.islice(soak.plan(2, seed=5), 2 * size))
    assert faults != list(itertools.islice(soak.plan(2, seed=6), 2 * size))


@pytest.mark.parametrize(
    ("tail", "step"),
    [
        (b"", 0),
        (b'{"schema_version": 1}\n', 0),
        (b'{"step": 12}\n', 12),
        (b'{"step": 12}\n{"step": 30', 12),
        (b'ep": 3}\nnull\n{"step": 40}\n', 40),
        (b'{"step": 40}\n{"event": "resumed", "step": 30}\n', 40),
    ],
)
def test_the_last_whole_line_counts(tail: bytes, step: int) -> None:
    assert last_step(tail) == step


@pytest.mark.normal_build("AddressSanitizer gives memory back when it likes")
def test_a_process_is_looked_at() -> None:
    found = soak.look(psutil.Process())
    assert set(found) == {"memory", "rss", "pss", "fds", "threads", "children"}
    assert 0 < found["memory"] <= found["rss"] and 0 < found["pss"] <= found["rss"]
    with Path(__file__).open(encoding="utf-8"):
        assert soak.look(psutil.Process())["fds"] == found["fds"] + 1
    with mmap.mmap(
        -1, 8 << 20, flags=mmap.MAP_PRIVATE
    ) as held:  # malloc may give out memory that the process has already
        held.write(os.urandom(len(held)))
        assert soak.look(psutil.Process())["memory"] >= found["memory"] + 0.9 * len(held)


def life(
    role: str, pid: int, begin: float, slope: float, fds: int = 30, hours: float = 1.0
) -> Life:
    made = Life(role, pid, begin)
    for i in range(200):
        t = begin + i / 200 * hours * 3600
        growth = 500 * MIB if t - begin < 60 else 0.0  # of the warm-up
        values = {
            "memory": 300 * MIB - growth + slope * MIB * (t - begin) / 3600,
            "rss": 1.0,
            "pss": 1.0,
            "threads": 3.0,
        }
        for name, value in {
            **values,
            "fds": float(fds + (i > 150 and slope > 0)),
            "children": 2.0,
        }.items():
            made.seen.setdefault(name, []).append((t, value))
    return made


def test_verdicts_per_role() -> None:
    lives = [
        life("a learner", 1, 0, 0.0),
        life("a learner", 2, 4000, 0.0),
        life("b learner", 3, 0, 5.0),
    ]
    lives += [life("b worker", 4, 0, 0.0, hours=0.01)]
    entries = soak.judge(lives, warm_up_s=60)
    assert [
        (entry["role"], entry["lives"], entry["verdict"], entry["steady"]) for entry in entries
    ] == [
        ("a learner", 2, "flat", True),
        ("b learner", 1, "grows", False),
        ("b worker", 1, "too short to fit", True),
    ]


@pytest.mark.slow
def test_a_short_soak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every kind of fault, over small envs; slopes of so short a run decide nothing."""
    monkeypatch.setenv("PV_SEED", "1")
    kinds = len(FATAL) + 2 * len(HARMLESS)
    monkeypatch.setattr(soak, "STOPPED_S", 0.2)
    path = tmp_path / "soak.json"
    flags = [
        "--minutes",
        "5",
        "--fault-every",
        "0.1",
        "--checkpoint-s",
        "0.5",
        "--warm-up-s",
        "1000",
        "--sample-s",
        "0.2",
    ]
    monkeypatch.setattr(
        soak, "plan", lambda runs, seed, real=soak.plan: itertools.islice(real(runs, seed), kinds)
    )
    code = soak.main([*flags, "--envs", "probe", "tag_grid", "--json", str(path)])
    out = capsys.readouterr().out
    assert code == 0, out
    results = json.loads(path.read_text())["results"]
    assert sorted(fault["kind"] for fault in results["faults"]) == sorted(
        [*FATAL, *HARMLESS, *HARMLESS]
    )
    assert {entry["role"] for entry in results["processes"]} == {
        f"{e} {r}" for e in ("probe", "tag_grid") for r in ("learner", "worker")
    }
