# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from puffervec.errors import CheckpointError, ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.config.target import env_spec
from puffervec.train.policies import run_spec
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run import state
from tests.train.fakes import Notes

Small = Callable[..., TrainConfig]


@pytest.mark.slow
def test_files_of_a_checkpoint(small: Small) -> None:
    with Trainer(small(env={"mode": 1, "num_agents": 2})) as trainer:
        assert set(trainer.saver.state()) == {
            "scouts",
            "towers",
            "optimizer",
            "random",
            "episodes",
            "returns",
        }
        trainer.collect()
        trainer.update()
        files = trainer.saver.state()
    assert set(files) == {"scouts", "towers", "optimizer", "random", "episodes", "returns", "envs"}
    assert {key.split("/")[0] for key in files["optimizer"]} == {"scouts", "towers"}
    assert {key for key in files["envs"] if key.startswith("env/")} == {
        f"env/{i}" for i in range(4)
    }


def test_missing_parts_are_named(small: Small) -> None:
    config = small()
    with Trainer(config) as trainer:
        trainer.collect()
        trainer.update()
        files = trainer.saver.state()
        for gone in ("default", "optimizer", "random"):
            left = {name: tensors for name, tensors in files.items() if name != gone}
            with pytest.raises(CheckpointError, match=gone):
                trainer.saver.load_state(left)
        for stem, part, named in (
            ("optimizer", "default/0/exp_avg", "exp_avg"),
            ("envs", "last/default/obs", "obs"),
        ):
            other = files | {
                stem: files[stem] | {part: torch.zeros(1)}
            }  # Shapes that would be spread, or trusted by a kernel.
            with pytest.raises(
                CheckpointError,
                match=rf"does not fit the run: .*{named} has the shape \(1,\): must be ",
            ):
                trainer.saver.load_state(other)
        odd = files | {"optimizer": {"default/99/exp_avg": torch.zeros(1)}}
        with pytest.raises(CheckpointError, match="does not fit"):
            trainer.saver.load_state(odd)
        wrong = files | {"default": {key: torch.zeros(1) for key in files["default"]}}
        with pytest.raises(CheckpointError, match="does not fit"):
            trainer.saver.load_state(wrong)


def test_env_states_of_another_size_are_left_alone(small: Small) -> None:
    """As those of an older version of the env: the run goes on with new episodes, and says so."""
    with Trainer(small()) as trainer:
        trainer.collect()
        trainer.update()
        files = trainer.saver.state()
    envs = {
        key: value[:-4] if key.startswith("env/") else value for key, value in files["envs"].items()
    }
    with Trainer(small()) as trainer:
        notes = trainer.saver.load_state(files | {"envs": envs})
        assert (
            len(notes) == 1
            and "resumes with new episodes: the env or its version has changed" in notes[0]
        )
        assert not trainer.collector.rollout.full
        trainer.begin(0)
        trainer.collect()


def test_unknown_policy() -> None:
    with pytest.raises(CheckpointError, match="no policy 'x': it has default"):
        state.actor_weights(ckpt.Checkpoint({"policies": {"default": {}}}, {"default": {}}), "x")


@pytest.mark.slow
def test_a_checkpoint_of_another_kind_of_device_goes_on(small: Small) -> None:
    """A CUDA generator has a state of 16 bytes, a CPU's of some thousand: neither takes the
    other's.
    """
    with Trainer(small(), dashboard=(notes := Notes())) as trainer:
        trainer.collect()
        trainer.update()
        path = trainer.save()
    found = ckpt.read(path)
    numerics = found.manifest["numerics"] | {"device": "cuda"}
    random = found.tensors["random"] | {
        "actions": torch.zeros(16, dtype=torch.uint8),
        "cuda": torch.zeros(16, dtype=torch.uint8),
    }
    tensors = found.tensors | {"random": random}
    other = ckpt.write(
        path.parent, ckpt.Checkpoint(found.manifest | {"numerics": numerics}, tensors), keep=9
    )
    with Trainer(small(), checkpoint=other, dashboard=notes) as trainer:
        assert torch.equal(trainer.saver.state()["random"]["shuffle"], random["shuffle"])
        assert trainer.train()["step"] >= 100
    assert any("device cuda -> cpu" in text for text in notes.notes)
    assert any(
        text.startswith("the generator of actions starts again from the seed")
        for text in notes.notes
    )


@pytest.mark.parametrize(
    "name",
    [
        "optimizer",
        "episodes",
        "returns",
        "random",
        "envs-rank3",
        "ahead",
        "a/b",
        "",
        ".x",
        "x" * 101,
    ],
)
def test_names_that_weights_cannot_be_saved_under_are_refused(
    name: str, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(env={"mode": 1, "num_agents": 2})
    spec = env_spec(config)
    groups = (dataclasses.replace(spec.groups[0], name=name), *spec.groups[1:])
    monkeypatch.setattr(run_spec, "env_spec", lambda _: dataclasses.replace(spec, groups=groups))
    with pytest.raises(ConfigError, match="row group .* cannot be a file name"):
        Trainer(config)
    state.check_names(["default", "randomly", "Fußgänger", "tower-2.b"])
