# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean/mapping.py: each key of PufferLib's .ini files is mapped or explained."""

from __future__ import annotations

import pytest

from puffervec.train.config.sections import TrainConfig
from puffervec.wings.ocean.mapping import IGNORED, SETTINGS, mapped

# As default.ini and an env's file of 3.0 and of 4.0 have them.
THREE = {
    "base": {"package": "ocean", "env_name": "puffer_x", "rnn_name": "Recurrent"},
    "vec": {"backend": "Multiprocessing", "num_envs": "8", "seed": "42"},
    "env": {"num_envs": "4", "size": "11"},
    "train": {
        "optimizer": "muon", "learning_rate": "0.015", "anneal_lr": "True", "batch_size": "auto",
        "update_epochs": "1", "clip_coef": "0.2", "vf_clip_coef": "0.2", "adam_beta1": "0.95",
        "bptt_horizon": "64", "minibatch_size": "999", "vtrace_rho_clip": "1.0",
        "vtrace_c_clip": "0", "device": "cuda", "total_timesteps": "10_000_000", "mystery": "3",
    },
    "sweep": {"method": "Protein", "metric": "score"},
    "sweep.train.gamma": {"distribution": "logit_normal", "min": "0.8", "max": "0.9999"},
    "sweep.train.bptt_horizon": {"distribution": "uniform_pow2", "min": "16", "max": "64"},
    "sweep.train.prio_alpha": {"distribution": "uniform", "min": "0", "max": "1"},
    "sweep.policy.hidden_size": {"distribution": "uniform_pow2", "min": "32", "max": "256"},
    "sweep.selfplay.banks": {"distribution": "int_uniform", "min": "1", "max": "8"},
}  # fmt: skip
FOUR = {
    "vec": {"total_agents": "4096", "num_buffers": "2", "num_threads": "16"},
    "policy": {"hidden_size": "64", "num_layers": "2", "expansion_factor": "1"},
    "train": {"horizon": "64", "minibatch_size": "65_536", "replay_ratio": "1.4", "eps": "1e-12"},
    "selfplay": {"enabled": "0"},
}


@pytest.mark.parametrize(("sections", "agents"), [(THREE, 1), (THREE, 3), (FOUR, 1), (FOUR, 6)])
def test_the_preset_is_a_config_of_a_run(sections: dict[str, dict[str, str]], agents: int) -> None:
    """Also where numbers of envs and samples do not divide each other."""
    found = mapped(sections, agents, ("score",))
    config = TrainConfig.bare("cartpole").merged(found.preset)
    config.check()
    assert config.check_batch(config.vec.num_envs * agents) >= 1
    assert config.train.optimizer == "muon_sgd" and config.policy.normalize is False


def test_what_keys_of_3_become() -> None:
    found = mapped(THREE, 1, ("score",))
    train = found.preset["train"]
    assert (train["lr"], train["clip"], train["value_clip"], train["horizon"]) == (
        0.015, 0.2, 0.2, 64,
    )  # fmt: skip
    assert found.preset["vec"]["num_envs"] == 32 and train["vtrace"] is True
    assert found.preset["policy"] == {"memory": "lstm", "hidden": (128,), "normalize": False}
    assert found.metric == "env/score"
    assert found.search == {"train.gamma": "0.8:0.9999", "train.horizon": "16/32/64"}
    reasons = {key: reason for key, _, reason in found.ignored}
    assert set(reasons) == {
        "base.package", "base.env_name", "vec.backend", "vec.seed", "train.batch_size",
        "train.adam_beta1", "train.vtrace_c_clip", "train.device", "train.mystery", "sweep.method",
        "sweep.train.prio_alpha", "sweep.policy.hidden_size", "sweep.selfplay.banks",
    }  # fmt: skip
    unknown = "it is unknown here"
    assert [key for key, reason in reasons.items() if reason == unknown] == ["train.mystery"]
    assert reasons["sweep.train.prio_alpha"] == IGNORED["train.prio_alpha"]
    assert reasons["sweep.selfplay.banks"] == IGNORED["selfplay."]


def test_numbers_of_envs_and_samples_go_together() -> None:
    """With the largest minibatch of at most the given size that divides the batch."""
    assert mapped(THREE, 3, ()).preset["train"]["minibatch_size"] == 768  # of 32 x 3 x 64
    assert mapped(FOUR, 2, ()).preset["train"]["minibatch_size"] == 65_536
    bare = mapped({"train": {"gamma": "0.9"}, "env": {"num_envs": "6"}}, 1, ()).preset
    assert (bare["vec"]["num_envs"], bare["train"]["minibatch_size"]) == (6, 0)
    sections = {"train": {"minibatch_size": "512"}, "vec": {"num_envs": "8"}}
    found = mapped(sections | {"env": {"num_envs": "auto"}}, 1, ()).preset
    assert (found["vec"]["num_envs"], found["train"]["minibatch_size"]) == (8, 512)


@pytest.mark.parametrize(
    ("section", "key", "text", "here"),
    [
        ("train", "replay_ratio", "0.2", ("train", "update_epochs", 1)),
        ("train", "replay_ratio", "2.6", ("train", "update_epochs", 3)),
        ("vec", "num_buffers", "1", ("vec", "num_buffers", 1)),
        ("vec", "num_buffers", "2", ("vec", "num_buffers", 2)),
        ("vec", "num_buffers", "3", None),
        ("torch", "network", "MinGRU", ("policy", "memory", "mingru")),
        ("torch", "network", "GRU", None),
        ("train", "seed", "auto", None),
    ],
)
def test_what_single_keys_become(
    section: str, key: str, text: str, here: tuple[str, str, object] | None
) -> None:
    """A key that has no meaning here is listed with a reason."""
    found = mapped({"train": {}, section: {key: text}}, 1, ())
    if here is None:
        ((path, given, reason),) = found.ignored
        assert (path, given) == (f"{section}.{key}", text) and reason
    else:
        assert found.preset[here[0]][here[1]] == here[2] and found.ignored == ()


def test_a_key_that_is_none_is_left_out() -> None:
    found = mapped({"train": {"seed": "None"}}, 1, ())
    assert found.preset == {} and found.ignored == ()


def test_what_keys_of_4_become() -> None:
    found = mapped(FOUR, 2, ())
    assert found.preset["vec"] == {"num_envs": 2048, "num_buffers": 2}
    assert found.preset["policy"] == {
        "hidden": (64,), "memory": "mingru", "memory_layers": 2, "normalize": False,
        "bias": False,
    }  # fmt: skip
    assert found.preset["train"]["update_epochs"] == 1


@pytest.mark.parametrize(("text", "here"), [("adam", "adam"), ("muon", "muon_sgd"), ("lion", "")])
def test_what_an_optimizer_becomes(text: str, here: str) -> None:
    found = mapped(FOUR | {"train": {"horizon": "64", "optimizer": text}}, 1, ())
    assert found.preset["train"]["optimizer"] == (here or "muon_sgd")
    assert ("train.optimizer" in {key for key, _, _ in found.ignored}) is (not here)


def test_fractions_that_a_sweep_has_left_are_cut_off() -> None:
    """As PufferLib reads them."""
    sections = FOUR | {
        "policy": {"hidden_size": "64", "num_layers": "2.11327"},
        "train": {"horizon": "32.9", "minibatch_size": "512.5", "momentum": "0.94"},
        "sweep.policy.num_layers": {"distribution": "uniform", "min": "1.25", "max": "8.5"},
        "sweep.vec.num_buffers": {"distribution": "uniform", "min": "1", "max": "8"},
    }
    found = mapped(sections, 1, ())
    TrainConfig.bare("cartpole").merged(found.preset).check()
    assert found.preset["policy"]["memory_layers"] == 2
    assert (found.preset["train"]["horizon"], found.preset["train"]["minibatch_size"]) == (32, 512)
    assert found.search == {"policy.memory_layers": "1:8"}
    reasons = {key: reason for key, _, reason in found.ignored}
    assert reasons["train.momentum"] != "it is unknown here"


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        ("uniform", "1.5", "4", "1.5:4"),
        ("uniform", "2", "2.75", "2:2.75"),
        ("int_uniform", "1", "9", "1:9"),
        ("uniform_pow2", "1", "4", "1/2/4"),
        ("uniform_pow2", "8", "40", "8/16/32"),
        ("uniform_pow2", "0.25", "4", "0.25:4:log"),
        ("log_normal", "1", "2.5", "1:2.5:log"),
        ("log_normal", "0", "2.5", "0:2.5"),
    ],
)
def test_ranges_of_an_envs_own_settings(kind: str, low: str, high: str, expected: str) -> None:
    sections = FOUR | {"sweep.env.speed": {"distribution": kind, "min": low, "max": high}}
    assert mapped(sections, 1, ()).search == {"env.speed": expected}


@pytest.mark.parametrize(
    ("low", "high", "expected"), [("0.25", "1.2", "1:2"), ("2.6", "3.7", "3:4")]
)
def test_ranges_of_epochs_are_whole(low: str, high: str, expected: str) -> None:
    keys = {"distribution": "uniform", "min": low, "max": high}
    found = mapped({"sweep.train.replay_ratio": keys}, 1, ())
    assert found.search == {"train.update_epochs": expected}


@pytest.mark.parametrize("keys", [{"min": "2", "max": "2"}, {"max": "2"}, {"min": "a", "max": "b"}])
def test_what_is_no_range_is_not_searched(keys: dict[str, str]) -> None:
    found = mapped({"sweep.env.speed": keys}, 1, ())
    assert found.search == {} and [key for key, _, _ in found.ignored] == ["sweep.env.speed"]


def test_a_file_without_training_leaves_the_usual_preset() -> None:
    assert mapped({"env": {"size": "3"}, "vec": {"num_envs": "4"}}, 1, ()).preset == {}


def test_no_key_is_both_mapped_and_ignored() -> None:
    assert not SETTINGS.keys() & IGNORED.keys()
