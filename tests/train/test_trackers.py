# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from puffervec.commands.cli import main
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.metrics import trackers

Small = Callable[..., TrainConfig]

# What of wandb's interface is used, written from its reference; it leaves what it is given in a
# file.
WANDB = """
import json, pathlib

class Settings:
    def __init__(self, **values):
        self.values = values

class Run:
    def __init__(self, folder):
        self.file = pathlib.Path(folder) / "said.jsonl"

    def say(self, what, value=None):
        with self.file.open("a") as file:
            file.write(json.dumps([what, value]) + "\\n")

    def define_metric(self, name, step_metric):
        self.say("axis", [name, step_metric])

    def log(self, row):
        if FAILS:
            raise OSError("no space left")
        self.say("row", row)

    def finish(self):
        self.say("finish")

FAILS = False

def init(*, project, name, id, resume, dir, mode, config, settings):
    if mode == "online":
        raise RuntimeError("api_key not configured")
    run = Run(dir)
    run.say("init", [project, name, id, resume, mode, config, settings.values])
    return run
"""


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of that name, as if it were installed."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "wandb.py").write_text(WANDB)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.syspath_prepend(site)
    yield
    sys.modules.pop("wandb", None)


class Fake:
    """A tracker that keeps lines and fails at will."""

    def __init__(self, name: str, fails: str = "", every_line: bool = False) -> None:
        self.name, self.fails, self.steps, self.closed, self.every_line = (
            name,
            fails,
            [],
            0,
            every_line,
        )

    def write(self, metrics: Mapping[str, float]) -> None:
        if self.fails == "write":
            raise OSError(28, "No space left on device")
        self.steps.append(metrics["step"])

    def close(self) -> None:
        self.closed += 1
        if self.fails == "close":
            raise TimeoutError("no\nnetwork")


def test_lines_come_rarely_but_the_last_one_comes() -> None:
    fake, eager, now = Fake("a"), Fake("b", every_line=True), [0.0]
    group = trackers.Trackers([fake, eager], 5.0, lambda text: None, lambda: now[0])
    for step in range(12):
        now[0] = float(step)
        group.write({"step": step})
    assert fake.steps == [0, 5, 10]
    group.flush()
    group.flush()
    assert fake.steps == [0, 5, 10, 11] and not fake.closed
    group.close()
    group.close()
    assert fake.steps == [0, 5, 10, 11] and fake.closed == 1
    assert eager.steps == list(range(12)) and eager.closed == 1


def test_one_that_fails_is_dropped_with_a_note() -> None:
    notes: list[str] = []
    good, full, gone = Fake("good"), Fake("full", "write"), Fake("gone", "close")
    group = trackers.Trackers([full, good, gone], 0.0, notes.append)
    for step in range(3):
        group.write({"step": step})
    assert good.steps == gone.steps == [0, 1, 2] and full.steps == []
    assert notes == [
        "full failed and receives nothing more (OSError: [Errno 28] No space left on device); "
        "the run and metrics.jsonl continue"
    ]
    group.close()
    assert (good.closed, full.closed, gone.closed) == (1, 0, 1)
    assert len(notes) == 2 and "gone failed" in notes[1] and "no network" in notes[1]


@pytest.mark.parametrize(
    ("flags", "module"),
    [(["--log.tensorboard"], "tensorboard"), (["--log.wandb", "offline"], "wandb")],
)
def test_a_missing_extra_is_said_before_anything_starts(
    flags: list[str],
    module: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["probe", "--log.folder", str(tmp_path / "runs"), *flags]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        f"puffer-train: {' '.join(flags)} needs {module}: pip install 'puffervec[{module}]'\n",
    )
    assert not (tmp_path / "runs").exists()


def said(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "said.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_weights_and_biases_goes_on_in_the_same_run(small: Small, wandb: None) -> None:
    config = small(log={"wandb": "offline", "wandb_project": "mine", "print_interval_s": 0.0})
    with Trainer(config) as trainer:
        last = trainer.train()
        folder, run_id, whole = trainer.folder, trainer.files.run_id, trainer.config
    (begin, axis, *rows, end) = said(folder)
    project, name, given_id, resume, mode, tables, settings = begin[1]
    assert (project, name, given_id, resume, mode) == (
        "mine",
        folder.name,
        run_id,
        "allow",
        "offline",
    )
    assert tables == json.loads(json.dumps(whole.tables())) and settings == {
        "silent": True,
        "console": "off",
    }
    assert axis == ["axis", ["*", "step"]] and end == ["finish", None]
    assert len(rows) == last["update"] and rows[-1] == ["row", last]
    longer = config.merged({"train": {"total_timesteps": 200}})
    with Trainer(longer, checkpoint=next((folder / "checkpoints").iterdir())) as trainer:
        trainer.train()
    resumed = said(folder)[len(rows) + 3 :]
    assert resumed[0][1][2] == run_id and resumed[2][1]["step"] > last["step"]


def test_weights_and_biases_that_cannot_begin(small: Small, wandb: None, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match="log.wandb is 'online'.*RuntimeError: api_key not configured.*wandb login",
    ):
        Trainer(small(log={"wandb": "online"}))
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.slow
def test_weights_and_biases_that_fails_later(
    small: Small, wandb: None, capsys: pytest.CaptureFixture[str]
) -> None:
    import wandb as module  # type: ignore[import-not-found, unused-ignore]

    module.FAILS = True
    with Trainer(small(log={"wandb": "offline", "dashboard": "plain"})) as trainer:
        assert trainer.train()["step"] >= 100
    assert (
        capsys.readouterr().out.count(
            "Weights & Biases failed and receives nothing more (OSError: no space left)"
        )
        == 1
    )


@pytest.fixture
def accumulator() -> Callable[[Path], Any]:
    """Reads event files."""
    module = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard"
    )

    def read(folder: Path) -> Any:
        found = module.EventAccumulator(str(folder / trackers.TENSORBOARD_FOLDER))
        found.Reload()
        return found

    return read


@pytest.mark.slow
def test_tensorboard_has_a_point_per_update_and_the_settings(
    small: Small, accumulator: Callable[[Path], Any]
) -> None:
    from puffervec.train.metrics.log import METRICS_FILE, read_metrics

    config = small(
        log={"tensorboard": True, "print_interval_s": 1000.0},
        train={"total_timesteps": 200, "lr": 0.125},
    )
    with Trainer(config) as trainer:
        trainer.train()
        folder = trainer.folder
    lines = list(read_metrics(folder / METRICS_FILE))
    found = accumulator(folder)
    assert set(found.Tags()["scalars"]) == {key for line in lines for key in line} - {"step"}
    data = importlib.import_module("tensorboard.plugins.hparams.plugin_data_pb2").HParamsPluginData
    told = data.FromString(
        found.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    ).session_start_info.hparams
    assert told["train.lr"].number_value == 0.125 and told["policy.hidden"].string_value == "[8]"
    assert (
        told["env.num_agents"].number_value == 1
        and told["policy.normalize"].number_value == 1
        and "log.name" not in told
    )
    for key in ("losses/value", "charts/agent_steps_per_s", "episode/return"):
        wanted = [(line["step"], line[key]) for line in lines if key in line]
        got = [(event.step, event.value) for event in found.Scalars(key)]
        assert [step for step, _ in got] == [step for step, _ in wanted]
        assert [value for _, value in got] == pytest.approx(
            [value for _, value in wanted], rel=1e-5
        )


def test_tensorboard_hides_what_a_resumed_run_does_again(
    tmp_path: Path, accumulator: Callable[[Path], Any]
) -> None:
    for begin, steps in ((0, (10, 20, 30)), (20, (25, 35))):
        writer = trackers.TensorBoard(tmp_path, begin, {})
        for step in steps:
            writer.write({"step": step, "a": float(step)})
        writer.close()
    assert [event.step for event in accumulator(tmp_path).Scalars("a")] == [10, 20, 25, 35]


def test_tensorboard_where_nothing_can_be_written(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(trackers, "TensorBoard", refuse)
    with pytest.raises(
        ConfigError, match="log.tensorboard: cannot write to .*tensorboard: Permission denied"
    ):
        Trainer(small(log={"tensorboard": True}))
