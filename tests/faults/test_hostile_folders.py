# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A run folder that somebody else made: each name that a command reads or writes there is a link
out of it, a pipe, a socket or a folder. The command ends in one line and nothing outside is opened,
changed, made or removed (puffervec/system/folder.py).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from puffervec.commands import cli
from puffervec.train import TrainConfig, Trainer
from tests.fixtures.training import SMALL as TABLES
from tests.fixtures.training import torch_state

__all__ = ["torch_state"]  # A fixture.
STEP = "000000000128"
SMALL = "--device cpu --log.dashboard off --train.final-eval false".split()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("made")
    log = {**TABLES["log"], "folder": str(folder), "name": "run"}
    with Trainer(TrainConfig.of("probe", **{**TABLES, "log": log})) as trainer:
        trainer.train()
    (saved,) = (folder / "run" / "checkpoints").iterdir()
    saved.rename(saved.with_name(STEP))
    return folder / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it, beside a folder `outside` that nothing may happen to."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, tmp_path / "run")
    (tmp_path / "outside").mkdir()
    yield tmp_path / "run"


def dangling(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "missing")


def linked(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "copy")


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def bound(path: Path, outside: Path) -> None:
    end = socket.socket(socket.AF_UNIX)
    os.chdir(path.parent)
    end.bind(path.name)
    end.close()
    os.chdir(outside.parent)


def empty(path: Path, outside: Path) -> None:
    path.mkdir()


KINDS: tuple[Callable[[Path, Path], None], ...] = (dangling, linked, pipe, bound, empty)


def state_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything in a folder: mode, time of the last change, content."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (about.st_mode, about.st_mtime_ns, content)
    return found


def replaced(run: Path, name: str, kind: Callable[[Path, Path], None]) -> Path:
    """Put something else in a name's place; links lead to a copy of what was there. Returns the
    folder outside.
    """
    path, outside = run / name, run.parent / "outside"
    shutil.rmtree(outside)
    outside.mkdir()
    if path.exists():
        shutil.copytree(path, outside / "copy") if path.is_dir() else shutil.copy(
            path, outside / "copy"
        )
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    else:
        (outside / "copy").write_bytes(b"canary")
    kind(path, outside)
    return outside


def refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must end in one line; return it."""
    capsys.readouterr()
    code = cli.main(args)
    err = capsys.readouterr().err.splitlines()
    assert code in (1, 2), (code, err)
    assert (
        err
        and err[-1].startswith("puffer-train: ")
        and not any(line.startswith("Traceback") for line in err)
    ), err
    return err[-1]


WHERE_RESUME = ("run.lock", "run.json", "config.json", "metrics.jsonl", "checkpoints")
IN_CHECKPOINT = (
    "",
    "/manifest.json",
    "/default.safetensors",
    "/optimizer.safetensors",
    "/envs.safetensors",
)
COMMANDS = {
    "resume": ["--resume", "run", *SMALL, "--total-timesteps", "200"],
    "eval": ["eval", "run", "--episodes", "1"],
    "plot": ["plot", "run"],
    "export": ["export", "run", "--format", "pt2"],
}
CASES = [("resume", name) for name in WHERE_RESUME]
CASES += [("resume", f"checkpoints/{STEP}{name}") for name in IN_CHECKPOINT]
CASES += [
    ("eval", name)
    for name in ("checkpoints", *(f"checkpoints/{STEP}{name}" for name in IN_CHECKPOINT[:3]))
]
CASES += [
    ("plot", "metrics.jsonl"),
    ("plot", "plot.png"),
    ("export", f"checkpoints/{STEP}/default.safetensors"),
]


def some_kinds() -> list[Any]:
    """Two kinds for each name in turn; all of them are slow."""
    always = [
        pytest.param(*case, (KINDS[i % 5], KINDS[(i + 2) % 5])) for i, case in enumerate(CASES)
    ]
    return [*always, *(pytest.param(*case, KINDS, marks=pytest.mark.slow) for case in CASES)]


@pytest.mark.parametrize(("command", "name", "kinds"), some_kinds())
def test_nothing_is_followed_out_of_a_run_folder(
    command: str,
    name: str,
    kinds: tuple[Any, ...],
    run: Path,
    made: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for kind in kinds:
        if kind is empty and name == "checkpoints":
            continue  # That is what it should be, with nothing in it.
        shutil.rmtree(run)
        shutil.copytree(made, run)
        outside = replaced(run, name, kind)
        before, inside = state_of(outside), (run / name).lstat()
        line = refused(COMMANDS[command], capsys)
        assert state_of(outside) == before, (kind.__name__, line)
        left = (run / name).lstat()
        assert (left.st_ino, left.st_mode) == (inside.st_ino, inside.st_mode), (kind.__name__, line)


@pytest.mark.parametrize("name", ["policy.pt2", "plot.png"])
def test_links_in_the_place_of_results(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the user names the file: a link there is refused."""
    outside = replaced(run, name, linked)
    (run.parent / name).symlink_to(outside / "missing")
    before, names = state_of(outside), set(os.listdir(run))
    args = COMMANDS["export" if name == "policy.pt2" else "plot"]
    for out in ([], ["--out", str(run / name)], ["--out", name]):
        assert f"cannot write {out[-1] if out else f'run/{name}'}: it is a link" in refused(
            [*args, *out], capsys
        )
    assert state_of(outside) == before and set(os.listdir(run)) == names


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [f".partial-{os.getpid()}", f".removed-{STEP}", ".partial-1"],
    ids=["own", "removed", "other"],
)
def test_leftovers_that_lead_elsewhere(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a killed run left is swept away by the next save: the link itself, and never what it
    leads to.
    """
    outside = run.parent / "outside"
    (outside / "kept").mkdir()
    (outside / "kept" / "file").write_bytes(b"canary")
    (run / "checkpoints" / name).symlink_to(outside / "kept")
    (run / "checkpoints" / ".partial-full").mkdir()
    (run / "checkpoints" / ".partial-full" / "link").symlink_to(outside / "kept")
    before = state_of(outside)
    assert cli.main([*COMMANDS["resume"], "--log.keep-checkpoints", "1"]) == 0
    capsys.readouterr()
    assert state_of(outside) == before
    assert all(path.name[0] != "." for path in (run / "checkpoints").iterdir())


@pytest.mark.slow
def test_hidden_names_of_files_under_way(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = run.parent / "outside"
    (outside / "file").write_bytes(b"canary")
    for name in ("config.json", "run.json"):
        (run / f".{name}").symlink_to(outside / "file")
        (run / f".{name}.{os.getpid()}").symlink_to(outside / "file")
    before = state_of(outside)
    assert cli.main(COMMANDS["resume"]) == 0
    capsys.readouterr()
    assert state_of(outside) == before


@pytest.mark.slow
def test_hard_links_are_not_written_through(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = run.parent / "outside"
    for name in ("run.lock", "metrics.jsonl"):
        (run / name).unlink()
        (outside / name).write_bytes(b"canary")
        os.link(outside / name, run / name)
        before = state_of(outside)
        assert f"{name}: it has other names (hard links)" in refused(COMMANDS["resume"], capsys)
        assert state_of(outside) == before
        (run / name).unlink()
    for name in ("config.json", "run.json"):
        (outside / name).write_bytes(b"{}")
        (run / name).unlink()
        os.link(outside / name, run / name)
    before = state_of(outside)
    assert cli.main(COMMANDS["resume"]) == 0
    capsys.readouterr()
    assert state_of(outside) == before


@pytest.mark.slow
def test_a_run_that_the_user_names_by_a_link_is_the_users_choice(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.parent / "best").symlink_to(run)
    (run.parent / "point").symlink_to(run / "checkpoints" / STEP)
    assert cli.main(["eval", "best", "--episodes", "1"]) == 0
    assert cli.main(["eval", "point", "--episodes", "1"]) == 0
    assert cli.main(["--resume", "best", *SMALL, "--total-timesteps", "200"]) == 0
    capsys.readouterr()


def test_latest_does_not_follow_links(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody has named them."""
    runs = run.parent / "runs"
    runs.mkdir()
    (runs / "evil").symlink_to(run)
    assert "no run in runs has a complete checkpoint" in refused(["eval", "latest"], capsys)
    run.rename(runs / "mine")
    assert cli.main(["eval", "latest", "--episodes", "1"]) == 0
    assert "runs/mine" in capsys.readouterr().out


def test_trackers_begin_only_where_nothing_leads_out(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard")
    outside = run.parent / "outside"
    for name in ("tensorboard", "tensorboard/events.out.tfevents.1"):
        (run / name).symlink_to(outside)
        before = state_of(outside)
        assert str(Path("run") / name) in refused(
            [*COMMANDS["resume"], "--log.tensorboard", "true"], capsys
        )
        assert state_of(outside) == before
        (run / name).unlink()
        (run / "tensorboard").mkdir(exist_ok=True)


MANY = 100_000
CRAFTED = {
    "target": ["", 7, "x" * MANY, "os:system", "../x", "probe\x1b[31m"],
    "policy.hidden": [
        [],
        [-1],
        [0],
        [10**9],
        [2**20] * 8,
        [8] * MANY,
        [10**400],
        [0.5],
        "x" * MANY,
        [[8]],
    ],
    "policy.channels": [[], [10**9] * 3, [-1]],
    "policy.memory_layers": [-1, 10**9],
    "policy.object_width": [0, 10**18],
    "policy.kind": ["x" * MANY, "os:system", ["x"] * MANY],
    "train.horizon": [0, 10**9, 10**30, 10**400, 1e308],
    "train.total_timesteps": [10**400, -1, None],
    "train.threads": [-1, [8] * MANY],
    "train.seed": [2**63, 1e300],
    "vec.num_envs": [0, 10**9, 10**400],
    "env.num_agents": [-1, 10**9, 10**400, "x"],
    "log.keep_checkpoints": [0, "x" * MANY],
    "nothing": [1],
}


@pytest.mark.parametrize("key", CRAFTED)
def test_configs_made_to_do_harm(key: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each ends in one line, before memory is taken for what it describes."""
    manifest = run / "checkpoints" / STEP / "manifest.json"
    whole = json.loads(manifest.read_text())
    for value in CRAFTED[key]:
        config = json.loads(json.dumps(whole["config"]))
        section, _, name = key.rpartition(".")
        (config[section] if section else config)[name] = value
        manifest.write_text(json.dumps({**whole, "config": config}))
        for command in ("eval", "resume"):
            if (
                command == "eval"
                and value not in (0, 10**400)
                and key in ("train.horizon", "vec.num_envs")
            ):
                continue  # Which is no matter for what only acts.
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            assert len(refused(COMMANDS[command], capsys)) < 5000, value
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB


@pytest.mark.slow
def test_a_checkpoint_alone_does_not_say_where_a_run_is_written(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor what its trackers are: log settings of its maker end with the run folder that it was
    taken from.
    """
    alone, outside = run.parent / "alone", run.parent / "outside"
    (run / "checkpoints" / STEP).rename(alone)
    whole = json.loads((alone / "manifest.json").read_text())
    whole["config"]["log"] |= {
        "folder": str(outside),
        "name": "../outside/x",
        "wandb": "online",
        "wandb_project": "x\ny",
    }
    (alone / "manifest.json").write_text(json.dumps(whole))
    before = state_of(outside)
    assert cli.main(["--resume", "alone", *SMALL, "--total-timesteps", "200"]) == 0
    capsys.readouterr()
    assert state_of(outside) == before
    assert len(list((run.parent / "runs").iterdir())) == 1


SWEEP = [
    "sweep",
    "probe",
    "--name",
    "sweep",
    "--log.folder",
    ".",
    "--trials",
    "1",
    "--sweep.train.lr",
    "1e-4:1e-2",
]


SWEEP_FILES = (
    "study.db",
    "summary.json",
    "pareto.png",
    "trials",
    "trials/0000",
    "study.db.running",
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), list(zip(SWEEP_FILES, 2 * KINDS[:3], strict=True)))
def test_sweeps(
    name: str,
    kind: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "sweep" / name).parent.mkdir(parents=True)
    outside = replaced(tmp_path / "sweep", name, kind)
    before = state_of(outside)
    assert "it is " in refused([*SWEEP, *SMALL, "--total-timesteps", "100"], capsys)
    assert state_of(outside) == before
