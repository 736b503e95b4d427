# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/pufferdrive: a file of PufferDrive's weights becomes a run whose policy computes
what PufferDrive's does. That network is written here again, in NumPy, and reads the same file.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from drive_env.config import DriveConfig
from drive_env.evaluate.evaluate import evaluate
from puffervec.commands import cli
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train.act.evaluate import RandomActor
from puffervec.train.act.loaded import LoadedPolicy, load_policy
from puffervec.wings.pufferdrive.weights import BYTES, import_weights
from tests.needs import PUFFERDRIVE_WEIGHTS

ONE_SCENE = {"scenes": "generated:1"}
# Dynamics, actions, numbers of the car itself, choices per head, floats of the file.
FORMS = [
    ("classic_pufferdrive", "discrete", 7, [91], 614_172),
    ("classic_pufferdrive", "multi_discrete", 7, [7, 13], 595_925),
    ("jerk", "discrete", 10, [12], 594_061),
    ("jerk", "multi_discrete", 10, [4, 3], 592_776),
]
PARTNERS, ROADS = 63, 200
erf = np.vectorize(math.erf)


class Network:
    """PufferDrive's network for one row, in float64.

    The layers take their numbers in the order of drivenet.h: encoders of the car, the road and the
    partners, shared embedding, actor, value, LSTM.
    """

    def __init__(self, numbers: np.ndarray, ego: int, outputs: int) -> None:
        self.ego, self.numbers, self.at = ego, numbers.astype(np.float64), 0
        self.encoders = [self.encoder(inputs) for inputs in (ego, 13, 7)]
        self.embedding = self.linear(192, 256)
        self.actor, self.value = self.linear(256, outputs), self.linear(256, 1)
        self.of_input, self.of_state = self.take(1024, 256), self.take(1024, 256)
        self.biases = self.take(1024) + self.take(1024)
        assert self.at == len(numbers), "the file holds nothing else"

    def take(self, *shape: int) -> np.ndarray:
        begin, self.at = self.at, self.at + math.prod(shape)
        return self.numbers[begin : self.at].reshape(shape)

    def linear(self, inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
        return self.take(outputs, inputs), self.take(outputs)

    def encoder(self, inputs: int) -> list[tuple[np.ndarray, np.ndarray]]:
        return [self.linear(inputs, 64), (self.take(64), self.take(64)), self.linear(64, 64)]

    def step(
        self, row: np.ndarray, hidden: np.ndarray, cell: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
        """Return logits, value, and the state after a row; the state before is (256,) twice."""
        row = row.astype(np.float64)
        road = row[self.ego + 7 * PARTNERS :].reshape(ROADS, 7)
        typed = np.zeros((ROADS, 13))
        typed[:, :6] = road[:, :6]
        typed[np.arange(ROADS), 6 + road[:, 6].astype(int)] = 1.0
        partners = row[self.ego : self.ego + 7 * PARTNERS].reshape(PARTNERS, 7)
        parts = [row[None, : self.ego], typed, partners]
        x = np.concatenate(
            [
                encode(part, layers).max(axis=0)
                for part, layers in zip(parts, self.encoders, strict=True)
            ]
        )
        x = x * (1 + erf(x / math.sqrt(2))) / 2
        x = np.maximum(apply(x, self.embedding), 0)
        gates = self.of_input @ x + self.of_state @ hidden + self.biases
        enter, forget, new, leave = np.split(gates, 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(new)
        hidden = sigmoid(leave) * np.tanh(cell)
        return apply(hidden, self.actor), float(apply(hidden, self.value)[0]), hidden, cell


def apply(x: np.ndarray, layer: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return np.asarray(x @ layer[0].T + layer[1])


def encode(x: np.ndarray, layers: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Linear, LayerNorm, Linear, of each object: (n, k) -> (n, 64)."""
    first, (scale, shift), second = layers
    x = apply(x, first)
    centred = x - x.mean(axis=1, keepdims=True)
    return apply(
        centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * scale + shift, second
    )


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def random_rows(rng: np.random.Generator, ego: int, rows: int) -> np.ndarray:
    """Rows in which some slots are empty: (rows, ego + 63 x 7 + 200 x 7) float32."""
    car = rng.normal(size=(rows, ego))
    partners, road = rng.normal(size=(rows, PARTNERS, 7)), rng.normal(size=(rows, ROADS, 7))
    road[..., 6] = rng.integers(0, 3, (rows, ROADS))
    partners[:, 40:], road[:, 150:] = 0.0, 0.0
    parts = (car, partners.reshape(rows, -1), road.reshape(rows, -1))
    return np.concatenate(parts, axis=1).astype(np.float32)


def write_random(path: Path, count: int) -> np.ndarray:
    numbers = np.random.default_rng(count).normal(scale=0.1, size=count).astype("<f4")
    numbers.tofile(path)
    return numbers


def imported(path: Path, folder: Path) -> LoadedPolicy:
    import_weights(path, folder)
    return load_policy(folder, settings=ONE_SCENE)


@pytest.mark.parametrize(
    ("dynamics", "actions", "ego", "choices", "count"), FORMS, ids=[str(form[4]) for form in FORMS]
)
def test_the_policy_computes_what_pufferdrives_network_does(
    dynamics: str, actions: str, ego: int, choices: list[int], count: int, tmp_path: Path
) -> None:
    numbers = write_random(tmp_path / "w.bin", count)
    loaded = imported(tmp_path / "w.bin", tmp_path / "run")
    env = loaded.config.env
    assert (env.observation, env.dynamics, env.actions) == ("pufferdrive", dynamics, actions)
    policy, network = loaded.policies["default"], Network(numbers, ego, sum(choices))
    rng, state = np.random.default_rng(0), policy.initial_state(3)  # type: ignore[operator]
    before = [(np.zeros(256), np.zeros(256)) for _ in range(3)]
    for step in range(5):
        rows, reset = random_rows(rng, ego, 3), np.array([step == 0, step == 3, step == 0])
        with torch.no_grad():
            heads, value, state = policy(
                torch.from_numpy(rows), state, torch.from_numpy(reset), None
            )
        assert [head.shape[-1] for head in heads] == choices
        for i, row in enumerate(rows):
            if reset[i]:
                before[i] = (np.zeros(256), np.zeros(256))
            logits, wanted, *after = network.step(row, *before[i])
            before[i] = (after[0], after[1])
            np.testing.assert_allclose(torch.cat(heads, -1)[i], logits, rtol=1e-4, atol=1e-4)
            assert float(value[i]) == pytest.approx(wanted, rel=1e-4, abs=1e-4)
            np.testing.assert_allclose(state[0][i], after[0], rtol=1e-4, atol=1e-4)


def test_sizes_of_files() -> None:
    assert {4 * count: (dynamics, actions) for dynamics, actions, _, _, count in FORMS} == BYTES


@pytest.mark.slow
def test_the_run_is_taken_by_eval_and_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_random(tmp_path / "w.bin", 595_925)
    assert cli.main(["import", "w.bin"]) == 0
    assert "runs/w: 595,925 weights, dynamics=classic_pufferdrive" in capsys.readouterr().out
    few = ["--scenes", "generated:1", "--env.max-steps", "5"]
    assert cli.main(["eval", "runs/w", *few, "--json", "r.json"]) == 0
    assert cli.main(["export", "runs/w", "--format", "pt2"]) == 0
    assert (tmp_path / "runs" / "w" / "policy.pt2").stat().st_size > 4 * 595_925


@pytest.mark.parametrize(
    ("count", "bad", "words"),
    [
        (0, {}, "has 0 bytes: weights of PufferDrive of November 2025 have 2,456,688"),
        (595_924, {}, r"has 2,383,696 bytes.* 2,383,700 \(dynamics=classic_pufferdrive, actions=m"),
        (614_172, {7: math.nan}, "number 7 is nan: weights must be finite"),
        (614_172, {614_171: -math.inf}, "number 614,171 is -inf: weights must be finite"),
    ],
)
def test_a_file_of_something_else_is_refused(
    count: int, bad: dict[int, float], words: str, tmp_path: Path
) -> None:
    numbers = np.zeros(count, "<f4")
    for at, value in bad.items():
        numbers[at] = value
    numbers.tofile(tmp_path / "w.bin")
    with pytest.raises(CheckpointError, match=words):
        import_weights(tmp_path / "w.bin", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_missing_file_and_a_folder_that_exists(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot read .*: No such file"):
        import_weights(tmp_path / "none.bin", tmp_path / "run")
    with pytest.raises(ConfigError, match="exists already: name a new folder"):
        import_weights(tmp_path / "none.bin", tmp_path)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"observation": "compact"}, "a row consists of ego, .*--env.observation pufferdrive"),
        ({"lidar_rays": 4}, "a row consists of pufferdrive_ego, .*without further blocks"),
        ({"row_dtype": "uint8"}, "rows hold uint8: use --env.row-dtype float32"),
        ({"actions": "continuous"}, "actions are continuous: use --env.actions discrete"),
        ({"actions": "multi_discrete"}, "the weights do not fit"),
        ({"dynamics": "jerk"}, "the weights do not fit"),
    ],
)
def test_other_rows_and_actions_are_refused(
    settings: dict[str, str | int], words: str, tmp_path: Path
) -> None:
    write_random(tmp_path / "w.bin", 614_172)
    import_weights(tmp_path / "w.bin", tmp_path / "run")
    with pytest.raises((CheckpointError, ConfigError), match=words):
        load_policy(tmp_path / "run", settings=ONE_SCENE | settings)


@pytest.mark.slow
@pytest.mark.needs("PufferDriveWeights")
def test_real_weights_reach_goals(tmp_path: Path) -> None:
    driver = imported(Path(os.environ[PUFFERDRIVE_WEIGHTS]), tmp_path / "run")
    env: DriveConfig = driver.config.merged({"env": {"scenes": "streets:20"}}).env
    goals = [evaluate(actor, env).total.rate("goal") for actor in (driver, RandomActor(0))]
    assert goals[0] > goals[1] + 0.1, goals
