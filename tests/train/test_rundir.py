# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from puffervec.commands import cli
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.config.sections import LogSection
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run import find, rundir
from tests.train.saved import some, value_of

Small = Callable[..., TrainConfig]


def test_names(tmp_path: Path) -> None:
    log = LogSection(folder=tmp_path / "deep" / "runs")
    first, second = (rundir.new_run_folder(log, "probe", 7) for _ in range(2))
    assert first != second and first.is_dir() and second.is_dir()
    assert first.name.startswith("probe-") and "s7" in first.name


def test_a_name_is_not_used_twice(tmp_path: Path) -> None:
    log = LogSection(folder=tmp_path, name="mine")
    assert rundir.new_run_folder(log, "probe", 1) == tmp_path / "mine"
    with pytest.raises(ConfigError, match="mine exists already.*--resume"):
        rundir.new_run_folder(log, "probe", 1)


@pytest.mark.parametrize("name", ["../x", "a/b", "/x", ".", ".."])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(ConfigError, match="log.name is .*: give a name without '/'"):
        rundir.new_run_folder(LogSection(folder=runs, name=name), "probe", 1)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="log.folder"):
        rundir.new_run_folder(LogSection(folder=tmp_path / "file"), "probe", 1)


def test_one_trainer_per_folder(tmp_path: Path) -> None:
    """A second process is refused with the first one's pid; when the first is killed, the folder is
    free again.
    """
    code = (
        "import sys, time; from pathlib import Path; from puffervec.train.run.rundir import "
        "RunLock;lock = RunLock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=f"another trainer.*pid {holder.pid}"):
            rundir.RunLock(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    lock = rundir.RunLock(tmp_path)
    lock.close()
    lock.close()


def test_config_file_gives_the_config_back(small: Small, tmp_path: Path) -> None:
    import json

    config = small(env={"num_agents": 3}, train={"seed": 4})
    rundir.write_config(tmp_path, config)
    assert (
        rundir.config_from_tables(json.loads((tmp_path / rundir.CONFIG_FILE).read_text())) == config
    )


def test_finding_checkpoints(small: Small, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(CheckpointError, match="runs does not exist: name a run folder"):
        find.find_checkpoint("latest", runs)
    runs.mkdir()
    with pytest.raises(CheckpointError, match="no run in .*runs has a complete checkpoint"):
        find.find_checkpoint("latest", runs)
    saved = []
    for name in ("one", "two"):
        with Trainer(small(log={"name": name})) as trainer:
            trainer.collect()
            saved.append(trainer.save())
    assert find.find_checkpoint("latest", runs) == saved[1]
    assert find.find_checkpoint(runs / "one", runs) == saved[0]
    assert find.find_checkpoint(saved[0], runs) == saved[0]
    assert find.run_folder_of(saved[0]) == runs / "one"
    with pytest.raises(CheckpointError, match="three does not exist"):
        find.find_checkpoint(runs / "three", runs)
    (runs / "three").touch()
    with pytest.raises(CheckpointError, match="three is not a folder"):
        find.find_checkpoint(runs / "three", runs)
    (runs / "three").unlink()
    (saved[1] / "manifest.json").write_text("{}")
    assert find.find_checkpoint("latest", runs) == saved[0]  # the newest one that is whole
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        find.find_checkpoint(runs / "two", runs)


def test_latest_is_the_run_that_was_started_last_whatever_is_written_into_others(
    small: Small, tmp_path: Path
) -> None:
    saved = []
    for name in ("one", "two"):
        with Trainer(small(log={"name": name})) as trainer:
            trainer.collect()
            saved.append(trainer.save())
    (saved[0].parent.parent / "curves.png").touch()  # As `puffer-train plot` leaves it.
    (saved[0].parent / "copy").mkdir()
    assert find.find_checkpoint("latest", tmp_path / "runs") == saved[1]
    with Trainer(small(), checkpoint=saved[0]) as trainer:
        resumed = trainer.folder
    assert (
        find.find_checkpoint("latest", tmp_path / "runs").parent.parent
        == resumed
        == tmp_path / "runs" / "one"
    )


def test_a_checkpoint_in_its_run_goes_on_there_however_it_is_named(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Trainer(small()) as trainer:
        saved, run = trainer.save(), trainer.folder
    names = (
        (saved.parent, saved.name),
        (saved, "."),
        (saved.parent, f"../checkpoints/{saved.name}"),
        (run, saved.relative_to(run)),
    )
    for inside, name in names:
        monkeypatch.chdir(inside)
        found = find.find_checkpoint(name, tmp_path)
        folder = find.run_folder_of(found)
        assert folder is not None and folder.samefile(run), name
        with Trainer(small(), checkpoint=found) as trainer:
            assert trainer.folder.samefile(run)
    assert [path.name for path in run.parent.iterdir()] == [run.name]


@pytest.mark.slow
def test_a_checkpoint_that_was_put_aside_begins_a_run_folder(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written beside it: `--resume best` would make the folder it is called from a run,
    `/models/best` the root.
    """
    with Trainer(small(log={"name": "first"})) as trainer:
        shutil.copytree(trainer.save(), tmp_path / "models" / "best")
    monkeypatch.chdir(tmp_path / "models")
    for where in (Path("best"), tmp_path / "models" / "best"):
        assert find.run_folder_of(where) is None
        with Trainer(small(), checkpoint=where) as trainer:
            assert trainer.folder.parent == tmp_path / "runs" and trainer.folder.name != "first"
            assert trainer.train()["step"] >= 100
            assert trainer.save().parent == trainer.folder / "checkpoints"
    with Trainer(small(), checkpoint=Path("best"), folder=tmp_path / "mine") as trainer:
        assert trainer.folder == tmp_path / "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "models", "runs"]
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["best"]


def test_names_of_envs_that_are_no_file_names(tmp_path: Path) -> None:
    for target, name in (("ALE/Pong-v5", "ALE-Pong-v5-"), ("my_envs:make", "my_envs-make-")):
        folder = rundir.new_run_folder(LogSection(folder=tmp_path), target, 1)
        assert folder.parent == tmp_path and folder.name.startswith(name)


def test_runs_of_functions_without_a_name_go_on_in_python() -> None:
    with pytest.raises(ConfigError, match=r"TrainConfig\.of"):
        rundir.config_from_tables({"target": "__main__:make", "env": {}}, ["__main__:make"])


def test_a_config_cannot_make_python_run_things(tmp_path: Path) -> None:
    """The env of a run is called with its settings: a run folder from elsewhere must not name what
    is no env.
    """
    canary = tmp_path / "canary"
    for target, env in (
        ("os:system", {"command": f"touch {canary}"}),
        ("pathlib:Path.touch", {}),
        ("torch:load", {"f": "x", "weights_only": False}),
        (7, {}),
    ):
        with pytest.raises(ConfigError, match="env"):
            rundir.config_from_tables({"target": target, "env": env})
    assert not canary.exists()


CODE = """
from pathlib import Path
Path({canary!r}).touch()
from tests.train.envs import Guess as make
from puffervec.train.learn.ppo import PPO as MINE
from puffervec.train.policies.mlp import MLPPolicy as Net
"""


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module `foreign_code` with an env and a policy that work; yields the file that importing it
    leaves.
    """
    canary = tmp_path / "canary"
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "foreign_code.py").write_text(CODE.format(canary=str(canary)))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    yield canary
    sys.modules.pop("foreign_code", None)


@pytest.mark.parametrize(
    ("tables", "name"),
    [
        ({"target": "foreign_code:make"}, "foreign_code:make"),
        ({"target": "probe", "policy": {"kind": "foreign_code:Net"}}, "foreign_code:Net"),
        ({"target": "probe", "train": {"algorithm": "foreign_code:MINE"}}, "foreign_code:MINE"),
    ],
)
def test_code_is_imported_only_where_the_user_names_it(
    foreign: Path, tables: dict[str, Any], name: str
) -> None:
    for trusted in ([], [None], ["foreign_code"], ["foreign_code:other", "probe"], [name + " "]):
        with pytest.raises(ConfigError, match=f"{name}.*code that would be imported"):
            rundir.config_from_tables(tables, trusted)
    assert not foreign.exists()
    config = rundir.config_from_tables(tables, [None, name])
    assert name in (config.target, config.policy.kind, config.train.algorithm)


@pytest.mark.parametrize("kind", ["env", "policy"])
def test_no_command_imports_what_a_run_folder_names(
    foreign: Path, small: Small, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind == "env":
        config, name = small("foreign_code:make"), "foreign_code:make"
    else:
        config, name = small(policy={"kind": "foreign_code:Net"}), "foreign_code:Net"
    with Trainer(config) as trainer:
        trainer.train()
        run = str(trainer.folder)
    sys.modules.pop("foreign_code")
    foreign.unlink()
    for args in (["eval", run], ["export", run, "--format", "pt2"], ["--resume", run]):
        assert cli.main(args) == 2
        assert f"{name!r}, code that would be imported" in capsys.readouterr().err
    assert not foreign.exists() and "foreign_code" not in sys.modules
    assert cli.main(["eval", run, f"--{kind}", name, "--episodes", "1"]) == 0
    assert foreign.exists()
    capsys.readouterr()


def test_a_checkpoint_that_is_replaced_while_it_is_read(tmp_path: Path) -> None:
    """An evaluation beside the run: what it wanted to read is gone, so it looks again."""
    folder = tmp_path / "run" / "checkpoints"
    ckpt.write(folder, some(1, 1.0), keep=1)
    looked: list[Path] = []

    def read(path: Path) -> float:
        if not looked:
            ckpt.write(folder, some(2, 2.0), keep=1)
        looked.append(path)
        return value_of(path)

    path, value = find.read_newest(tmp_path / "run", tmp_path, read)
    assert value == 2.0 and len(looked) == 2 and path.name == "000000000002"
    (path / "default.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        find.read_newest(tmp_path / "run", tmp_path, read)


def test_readers_beside_a_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that saves all the time and keeps one: each look of a reader finds one that loads,
    and never an older one.
    """
    monkeypatch.setattr(
        os, "fsync", lambda fd: None
    )  # Faster than any disk, so that they meet more often.
    folder = tmp_path / "run" / "checkpoints"
    ckpt.write(folder, some(1, 1.0), keep=1)
    done = threading.Event()

    def save() -> None:
        for step in range(2, 60):
            ckpt.write(folder, some(step, float(step)), keep=1)
        done.set()

    writer = threading.Thread(target=save)
    writer.start()
    last = 0.0
    while not done.is_set():
        _, value = find.read_newest(tmp_path / "run", tmp_path, value_of)
        assert value >= last
        last = value
    writer.join()
    assert find.read_newest(tmp_path / "run", tmp_path, value_of)[1] == 59.0
