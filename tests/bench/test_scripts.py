# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Every benchmark in short: it runs, writes its results, and refuses bad input in one line. No
figure is judged.

What they reckon from their samples is in test_reckoning.py.
"""

from __future__ import annotations

import doctest
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import common, compare, figures, foreign_process, limits, realism, runs, scene_compare
from bench import compile as compiling
from bench.limits import Crowd
from drive_env.generate import generate
from tests.fixtures.training import torch_state  # noqa: F401 (autouse)
from tests.helpers import slow_but

SMALL = {
    "vec": {"num_envs": 8, "backend": "serial"},
    "train": {"horizon": 8, "minibatch_size": 0},
    "policy": {"hidden": (8,)},
}
SHORT = ("--seconds", "0.001", "--repeats", "1")
PAUSES = ("--pause-s", "0.01", "--pauses", "1", "--idle-s", "0.05")

COMMANDS = {
    "drive": ["--presets", "pufferdrive", "--dtypes", "uint8"],
    "env_step": ["--num-envs", "2", "--envs", "probe,tag_grid"],
    "host": [],
    "latency": PAUSES,
    "limits": ["--envs", "tag_grid"],
    "ocean": ["--num-envs", "64", "--steps-ns", "20"],
    "sps": [
        "--num-envs",
        "8",
        "--warmup",
        "0.001",
        "--envs",
        "probe",
        "--workers",
        "1",
        "--modes",
        "serial,envs",
    ],
}
SLOW_COMMANDS = {
    "budget": ["--cases", "CartPole-v1", "--iterations", "1"],
    "plan": ["--policies", "mlp", "--modes", "arena", "--rows", "2"],
    "plan_turns": ["--cases", "cartpole"],
    "train": ["--parts", "speed,ladder", "--runs", "probe", "--envs", "probe"],
}
BAD = [
    ("budget", "--cases chess", "--cases has 'chess': use some of CartPole-v1"),
    ("compare", "", "give two commands"),
    ("compare", "--a false --b true", "status 1"),
    ("compare", "--revisions no-such-revision WORK -- true", "no-such-revision"),
    ("drive", "--presets chess", "--presets has 'chess': use some of compact"),
    ("drive", "--peer /does/not/exist", "gpudrive.h does not exist: name the folder"),
    ("defaults", "--tasks chess", "'chess' is unknown: use CartPole-v1"),
    ("peers", "--workloads chess", "no workload is called 'chess'"),
    ("peers", "--pufferlib-python /does/not/exist", "'/does/not/exist': no such program"),
    ("peers_train", "--tasks Pong", "--tasks has 'Pong': use some of CartPole-v1"),
    ("plan", "--modes fast", "--modes has 'fast': use some of eager, arena"),
    ("realism", "--real /does/not/exist", "no scene of WOMD there"),
    ("sps", "--seconds 0.001 --repeats 1 --envs probe --modes serial --policy-ms -1", "policy"),
    ("train", "--parts sped", "--parts has 'sped': use some of speed"),
]


def benchmark(name: str) -> Callable[[list[str]], int]:
    main: Callable[[list[str]], int] = importlib.import_module(f"bench.{name}").main
    return main


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a benchmark with small runs; return its results."""
    monkeypatch.setattr(
        runs,
        "RUNS",
        {"probe": runs.Run("probe", SMALL), "drive": runs.Run("drive", SMALL)},
    )
    monkeypatch.setattr(runs, "simulation_half_s", lambda config: 1e-3)
    monkeypatch.setattr(limits, "ENVS", {"tag_grid": 8})
    monkeypatch.setattr(
        limits,
        "crowds",
        lambda envs: [Crowd(env, 1, workers) for env in envs for workers in (2, 4)],
    )

    def run(name: str, *flags: str, seconds: tuple[str, ...] = SHORT) -> Any:
        path = tmp_path / "r.json"
        assert benchmark(name)([*seconds, *flags, "--json", str(path)]) == 0
        text = path.read_text()
        assert str(tmp_path) not in text, "results name no folder of the machine"
        document = json.loads(text)
        assert (
            document["benchmark"].startswith(name.replace("_", "-"))
            and document["machine"]["foreign_load"] >= 0
        )
        return document["results"]

    return run


@pytest.mark.parametrize("module", [common, compare, figures])
def test_doctests_hold(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", slow_but(COMMANDS.keys() - {"drive", "latency", "limits"}, COMMANDS)
)
def test_it_measures_and_writes(name: str, short: Callable[..., Any], no_leaks: None) -> None:
    assert short(name, *COMMANDS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_COMMANDS)
def test_it_trains_and_writes(name: str, short: Callable[..., Any]) -> None:
    assert short(name, *SLOW_COMMANDS[name])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "flags", "words"), BAD)
def test_bad_input_is_one_line(
    name: str, flags: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark(name)(flags.split()) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and words in error


@pytest.mark.slow
def test_compiling_is_compared_with_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, path = compiling.Case("small", "probe", 32, hidden=(8,)), tmp_path / "r.json"
    assert compiling.main([*SHORT, "--json", str(path)], [case], "eager") == 0
    (found,) = json.loads(path.read_text())["results"]
    ratio, pays = found["ratio"]["median"], found["pays_after_s"]
    assert pays is None if ratio >= 1 else pays == pytest.approx(found["compiling_s"] / (1 - ratio))
    monkeypatch.setattr(compiling, "missing_compiler", lambda device: "there is no C++ compiler")
    assert compiling.main(SHORT) == 1


def two_scenes_of_womd(tmp_path: Path) -> Path:
    """Return a folder with two generated scenes that are named as those of WOMD."""
    folder = tmp_path / "scenes"
    assert generate.main(["--count", "2", "--out", str(folder)]) == 0
    for number, path in enumerate(sorted(folder.iterdir())):
        path.rename(folder / f"tfrecord-{number:05}-of-00002_7.json")
    return folder


@pytest.mark.slow
def test_generated_scenes_beside_those_of_womd(
    tmp_path: Path, short: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(two_scenes_of_womd(tmp_path))
    monkeypatch.setattr(scene_compare, "GENERATED", {"streets": folder, "generated": "generated:3"})
    found = short("scene_compare", "--real", folder, seconds=())
    same, other = found["generated"].values()
    assert (found["real"], same["scenes"], other["scenes"]) == (2, 2, 3)
    assert all(row["distance"] == 0 and row["near"] for row in same["rows"] if row["a"]["scenes"])
    header, _, first, *_ = scene_compare.markdown(found).splitlines()
    assert header.count("|") == first.count("|") == 13 and first.startswith("| objects |")


@pytest.mark.slow
def test_realism_of_drivers(tmp_path: Path, short: Callable[..., Any]) -> None:
    folder = str(two_scenes_of_womd(tmp_path))
    flags = ["--real", folder, "--drivers", "driver,log,constant-velocity", "--episodes", "2"]
    found = short("realism", *flags, seconds=())
    assert found["scenes"] == 2
    assert [*found["drivers"]] == ["log", "constant-velocity", "driver"]
    log, constant, driver = (each["total"]["realism"] for each in found["drivers"].values())
    assert 0 < constant < log <= 1 and 0 < driver < log
    for each in found["drivers"].values():
        assert [row["scene"] for row in each["rows"]] == [1, 2]
    header, _, first, *_ = realism.markdown(found).splitlines()
    assert header.count("|") == first.count("|") == 8 and first.startswith("| `log` |")


@pytest.mark.slow
def test_scores_against_minutes(tmp_path: Path, short: Callable[..., Any]) -> None:
    folder = two_scenes_of_womd(tmp_path)
    flags = [
        "--minutes",
        "0.05",
        "--at",
        "0.02",
        "--scenes",
        "generated:3",
        "--real",
        str(folder),
        "--cores",
        "64",
    ]
    (sample,) = short("score", *flags, "--baselines", "log", seconds=())["score"]["drive"]
    assert [moment["minutes"] for moment in sample["moments"]] == [0.02, 0.05]
    assert sample["trained_on"] == "generated:3"
    scenes = {"training scenes": 3, "held-out": 100, "real": 2}
    for found in (moment["evaluations"] for moment in sample["moments"]):
        assert {name: one["scenes"] for name, one in found.items()} == scenes
        for one in found.values():
            assert one["score_95"][0] <= one["score"] <= one["score_95"][1]
    assert {where: one["score"] for where, one in sample["baselines"]["log"].items()} == {
        "held-out": 1.0,
        "real": 1.0,
    }


@pytest.mark.slow
def test_candidates_for_defaults_are_scored(short: Callable[..., Any]) -> None:
    flags = ["--tasks", "parts", "--candidates", "generic", "--seeds", "1"]
    (row,) = short("defaults", *flags, seconds=())["rows"]
    assert row["candidate"] == "generic" and row["share"] > 0.8


@pytest.mark.slow
def test_killed_trainers_leave_what_loads(short: Callable[..., Any]) -> None:
    found = short("saves", "--kills", "20", "--commands", "1", seconds=())
    assert found["forked trainers"]["kills"] == 20 and found["forked trainers"]["saves"] >= 20
    assert found["whole commands"]["kills"] == 1 and not any(
        part["failures"] for part in found.values()
    )


@pytest.mark.slow
def test_a_training_beside_another_program(short: Callable[..., Any]) -> None:
    found = short("foreign_process", "--envs", "training cartpole", "--neighbours", "1")
    quiet, beside = found
    assert (quiet["way"], quiet["kept"]) == ("the trainer", None)
    assert (beside["neighbours"], beside["of_serial"]) == ("1", None)
    assert beside["kept"]["median"] > 0
    assert "| training cartpole | 1 |" in foreign_process.markdown(found)
