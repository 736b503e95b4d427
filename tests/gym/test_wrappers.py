# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Gymnasium's vector wrappers over ours, in every mode that they support (puffervec/gym/base.py,
native.py), statistics of episodes among them (puffervec/gym/native.py).

A wrapper over ours is compared with the same wrapper over Gymnasium's own SyncVectorEnv, step by
step.
"""

from __future__ import annotations

import copy
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import gymnasium.wrappers.vector as wrappers
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import puffervec.gym
from tests.gym.envs import Count
from tests.gym.kinds import CLASSES, DISABLED, MODES, NEXT, OURS, SAME, Kind, by_turns, kind_fixture
from tests.helpers import thinned

ours = kind_fixture(OURS, "ours")
Wrap = Callable[[Any], Any]


class Varied(gymnasium.Env[Any, Any]):
    """An env with whatever spaces a wrapper wants; observations are drawn, rewards are 1, episodes
    have 3 steps.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}

    def __init__(
        self, observation: Any, action: Any, render_mode: str | None = None, text: bool = True
    ) -> None:
        self.text = text
        self.observation_space, self.action_space, self.render_mode = (
            observation,
            action,
            render_mode,
        )

    def draw(self) -> Any:
        """An observation from the env's own generator, so that it depends on the seed alone."""
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.draw(), {"why": "reset"} if self.text else {}

    def step(self, action: Any) -> Any:
        assert action in self.action_space
        self.steps += 1
        return self.draw(), float(np.sum(action)), self.steps == 3, False, {"n": self.steps}

    def render(self) -> Any:
        return np.full((8, 8, 3), 50, np.uint8)


VECTOR = spaces.Box(-2.0, 2.0, (4,), np.float32)
IMAGE = spaces.Box(0, 255, (8, 8, 3), np.uint8)
DICT = spaces.Dict(a=VECTOR, b=spaces.Discrete(3))
CHOICE = spaces.Discrete(3)
REAL = spaces.Box(-1.0, 1.0, (2,), np.float32)
TORQUE = spaces.Box(-2.0, 2.0, (2,), np.float32)

ANY, NOT_SAME = MODES, (NEXT, DISABLED)
# name -> (modes that Gymnasium supports, observation space, action space, how to wrap)
WRAPPERS: dict[str, tuple[tuple[AutoresetMode, ...], Any, Any, Wrap]] = {
    "RecordEpisodeStatistics": (ANY, VECTOR, CHOICE, wrappers.RecordEpisodeStatistics),
    "DictInfoToList": (ANY, VECTOR, CHOICE, wrappers.DictInfoToList),
    "NormalizeObservation": ((NEXT,), VECTOR, CHOICE, wrappers.NormalizeObservation),
    "TransformObservation": (NOT_SAME, VECTOR, CHOICE,
                             lambda e: wrappers.TransformObservation(e, lambda o: o * 2)),
    "VectorizeTransformObservation": (
        NOT_SAME, VECTOR, CHOICE,
        lambda e: wrappers.VectorizeTransformObservation(
            e, gymnasium.wrappers.TransformObservation, func=lambda o: o + 1,
            observation_space=VECTOR
        ),
    ),
    "FilterObservation": (NOT_SAME, DICT, CHOICE,
                          lambda e: wrappers.FilterObservation(e, filter_keys=["a"])),
    "FlattenObservation": (NOT_SAME, DICT, CHOICE, wrappers.FlattenObservation),
    "GrayscaleObservation": (NOT_SAME, IMAGE, CHOICE, wrappers.GrayscaleObservation),
    "ResizeObservation": (NOT_SAME, IMAGE, CHOICE, lambda e: wrappers.ResizeObservation(e, (4, 4))),
    "ReshapeObservation": (NOT_SAME, VECTOR, CHOICE,
                           lambda e: wrappers.ReshapeObservation(e, (2, 2))),
    "RescaleObservation": (NOT_SAME, VECTOR, CHOICE,
                           lambda e: wrappers.RescaleObservation(e, 0.0, 1.0)),
    "DtypeObservation": (NOT_SAME, VECTOR, CHOICE,
                         lambda e: wrappers.DtypeObservation(e, np.float64)),
    "TransformAction": (ANY, VECTOR, REAL,
                        lambda e: wrappers.TransformAction(e, lambda a: np.clip(a, -1, 1) * 0.5)),
    "VectorizeTransformAction": (
        ANY, VECTOR, REAL,
        lambda e: wrappers.VectorizeTransformAction(
            e, gymnasium.wrappers.TransformAction, func=lambda a: a * 0.5, action_space=REAL
        ),
    ),
    "ClipAction": (ANY, VECTOR, REAL, wrappers.ClipAction),
    "RescaleAction": (ANY, VECTOR, TORQUE, lambda e: wrappers.RescaleAction(e, -1.0, 1.0)),
    "TransformReward": (ANY, VECTOR, CHOICE,
                        lambda e: wrappers.TransformReward(e, lambda r: r * 3)),
    "VectorizeTransformReward": (
        ANY, VECTOR, CHOICE,
        lambda e: wrappers.VectorizeTransformReward(e, gymnasium.wrappers.TransformReward,
                                                    func=lambda r: r - 1),
    ),
    "ClipReward": (ANY, VECTOR, CHOICE, lambda e: wrappers.ClipReward(e, 0.0, 0.5)),
    "NormalizeReward": (ANY, VECTOR, CHOICE, wrappers.NormalizeReward),
    "ArrayConversion": (NOT_SAME, VECTOR, CHOICE, lambda e: wrappers.ArrayConversion(e, np, np)),
}  # fmt: skip
NEEDS = {"ResizeObservation": "cv2", "ArrayConversion": "array_api_compat"}
CASES = [(name, mode) for name, case in WRAPPERS.items() for mode in case[0]]


def trace(envs: Any, mode: AutoresetMode, steps: int = 7) -> list[Any]:
    """Reset and step; return all that was returned, without times."""
    observations, infos = envs.reset(seed=3)
    found = [copy.deepcopy((observations, infos))]
    envs.action_space.seed(5)
    for _ in range(steps):
        result = envs.step(envs.action_space.sample())
        found.append(copy.deepcopy(result))
        done = np.asarray(result[2]) | np.asarray(result[3])
        if mode is DISABLED and done.any():
            found.append(copy.deepcopy(envs.reset(options={"reset_mask": done})))
    return without_times(found)  # type: ignore[no-any-return]


def without_times(found: Any) -> Any:
    """Drop what a clock says, which differs from run to run."""
    if isinstance(found, dict):
        return {key: without_times(value) for key, value in found.items() if key not in ("t", "_t")}
    if isinstance(found, (list, tuple)):
        return [without_times(entry) for entry in found]
    return np.array(found) if isinstance(found, np.ndarray) and found.dtype != object else found


@pytest.mark.filterwarnings(
    "ignore:.*precision lowered by casting", "ignore:overflow encountered in cast"
)
@pytest.mark.parametrize(("name", "mode", "ours"), by_turns(CASES), indirect=["ours"])
def test_a_wrapper_over_ours_is_as_over_gymnasiums(
    ours: Kind, name: str, mode: AutoresetMode
) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    _, observation, action, wrap = WRAPPERS[name]
    fns = [lambda: Varied(observation, action, text=name != "ArrayConversion")] * 2
    theirs = wrap(CLASSES["gymnasium-sync"](fns, autoreset_mode=mode))
    wrapped = wrap(ours(fns, autoreset_mode=mode))
    assert wrapped.observation_space == theirs.observation_space
    assert wrapped.action_space == theirs.action_space
    expected, found = trace(theirs, mode), trace(wrapped, mode)
    assert len(expected) == len(found)
    for theirs_entry, our_entry in zip(expected, found, strict=True):
        assert alike(theirs_entry, our_entry), (theirs_entry, our_entry)


def alike(a: Any, b: Any) -> bool:
    """Equality of nested results, floats to a millionth: our rewards come as 32-bit numbers."""
    if isinstance(a, dict):
        return (
            isinstance(b, dict) and a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, np.ndarray) and a.dtype == object:
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, (np.ndarray, float)):
        return bool(np.allclose(a, b, rtol=1e-6, atol=1e-6))
    return bool(a == b)


@pytest.mark.parametrize("mode", NOT_SAME)
def test_observation_wrappers_refuse_same_step_as_upstream(ours: Kind, mode: AutoresetMode) -> None:
    with pytest.raises(ValueError, match="NEXT_STEP or DISABLED"):
        wrappers.FlattenObservation(ours([Count] * 2, autoreset_mode=SAME))
    assert wrappers.FlattenObservation(ours([Count] * 2, autoreset_mode=mode)).reset()[0].shape == (
        2,
        2,
    )


@pytest.mark.parametrize("mode", NOT_SAME)
def test_numpy_to_torch(ours: Kind, mode: AutoresetMode) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    envs = wrappers.NumpyToTorch(ours([Count] * 2, autoreset_mode=mode))
    observations, _ = envs.reset(seed=0)
    assert torch.is_tensor(observations) and observations.shape == (2, 2)
    observations, rewards, terminations, _, _ = envs.step(torch.tensor([1, 2]))
    assert (rewards.tolist(), terminations.dtype) == ([1.0, 2.0], torch.bool)
    kept = observations.clone()
    envs.step(torch.tensor([1, 2]))
    assert torch.equal(observations, kept)


@pytest.mark.parametrize("mode", MODES)
def test_human_rendering(ours: Kind, mode: AutoresetMode, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    pytest.importorskip("cv2")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    fns = [lambda: Varied(VECTOR, CHOICE, render_mode="rgb_array")] * 3
    envs = wrappers.HumanRendering(ours(fns, autoreset_mode=mode))
    envs.reset()
    envs.step([0, 0, 0])
    assert envs.render_mode == "human"
    envs.close()


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Replace moviepy; return the frames of each clip that Gymnasium's recorder gives to it."""
    clips: list[list[Any]] = []

    class ImageSequenceClip:
        def __init__(self, frames: list[Any], fps: float) -> None:
            assert fps == 7
            clips.append(list(frames))

        def write_videofile(self, path: str, logger: Any) -> None:
            Path(path).write_bytes(b"frames")

    for name in (
        "moviepy",
        "moviepy.video",
        "moviepy.video.io",
        "moviepy.video.io.ImageSequenceClip",
    ):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["moviepy.video.io.ImageSequenceClip"].ImageSequenceClip = ImageSequenceClip  # type: ignore[attr-defined]
    return clips


@pytest.mark.parametrize("mode", thinned(2, NOT_SAME))
def test_record_video(
    ours: Kind, mode: AutoresetMode, tmp_path: Path, recorded: list[list[Any]]
) -> None:
    fns = [lambda: Varied(VECTOR, CHOICE, render_mode="rgb_array")] * 2
    envs = wrappers.RecordVideo(
        ours(fns, autoreset_mode=mode),
        str(tmp_path / "clips"),
        episode_trigger=lambda episode: True,
    )
    trace(envs, mode)
    envs.close()
    assert [len(clip) for clip in recorded] == (
        [4, 4, 2] if mode is DISABLED else [4, 4]
    )  # a reset and three steps each
    assert recorded[0][0].shape == (8, 16, 3)
    assert len(list((tmp_path / "clips").iterdir())) == len(recorded)


# ---- over the C envs -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_statistics_over_a_c_env_with_many_agents(mode: AutoresetMode) -> None:
    settings = {"num_taggers": 2, "episode_length": 5, "random_starts": True}
    envs = puffervec.gym.NativeVectorEnv(
        "tag_grid", 3, backend="serial", flatten_agents=True, autoreset_mode=mode, **settings
    )  # fmt: skip
    wrapped = wrappers.RecordEpisodeStatistics(envs)
    wrapped.reset(seed=0)
    wrapped.action_space.seed(1)
    seen = 0
    for _ in range(40):
        _, _, terminations, truncations, infos = wrapped.step(wrapped.action_space.sample())
        done = terminations | truncations
        assert ("record" in infos) == bool(done.any())
        if done.any():
            seen += 1
            assert infos["_record"].tolist() == infos["_episode"].tolist() == done.tolist()
            assert infos["record"]["l"].tolist() == infos["episode"]["l"].tolist()
            assert np.allclose(infos["record"]["r"], infos["episode"]["r"], atol=1e-5)
            if mode is DISABLED:
                wrapped.reset(options={"reset_mask": done})
    assert seen >= 6
    wrapped.close()


def test_other_wrappers_over_a_c_env() -> None:
    envs: Any = puffervec.gym.NativeVectorEnv("cartpole", 4, backend="serial")
    for wrap in (
        wrappers.ClipReward,
        wrappers.NormalizeObservation,
        wrappers.NormalizeReward,
        wrappers.DictInfoToList,
    ):
        envs = wrap(envs, 0.0, 0.5) if wrap is wrappers.ClipReward else wrap(envs)
    observations, infos = envs.reset(seed=0)
    assert (observations.shape, infos) == ((4, 4), [{}] * 4)
    records = 0
    for _ in range(60):
        *_, infos = envs.step(envs.action_space.sample())
        records += sum("record" in info for info in infos)
    assert records > 4
    envs.close()
