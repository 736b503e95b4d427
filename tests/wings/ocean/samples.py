# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The envs of tests/ocean_envs, written as their generation's authors write them, and the harness
that steps them without puffervec.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ENVS = Path(__file__).resolve().parents[2] / "ocean_envs"
HARNESS = ENVS / "harness"


@dataclass(frozen=True)
class Sample:
    """An env of tests/ocean_envs.

    Attributes:
        name: its folder; the first word says its generation.
        agents: agents per env with its own settings.
        observation: dtype and count of an agent's observation; uint16 is bf16.
        actions: number of choices of each action, 1 for a continuous one.
        settings: its settings as its .ini file or class has them.
        shared: what an env shows depends on the others in its process.
        flags: what the harness cannot know otherwise.
    """

    name: str
    agents: int
    observation: tuple[str, int]
    actions: tuple[int, ...]
    settings: dict[str, str]
    shared: bool = False
    flags: tuple[str, ...] = ()

    @property
    def generation(self) -> int:
        return {"three": 3, "four": 4, "five": 5}[self.name.partition("_")[0]]


SAMPLES = [
    Sample(
        "three_catch", 1, ("f4", 4), (3,), {"width": "9", "height": "10", "catch_reward": "1.0"}
    ),
    Sample("three_flock", 5, ("u1", 6), (3, 3), {"num_birds": "5", "crowding": "0.25"}),
    Sample("three_levels", 1, ("f4", 5), (1, 1), {"num_levels": "7"}),
    Sample("four_maze", 1, ("f4", 8), (4,), {"max_steps": "40", "step_cost": "0.01"}),
    Sample("four_cards", 2, ("u1", 14), (7,), {"bonus": "3"}),
    Sample(
        "four_fleet",
        3,
        ("f4", 5),
        (2, 4, 3),
        {"ships": "3", "horizon": "25", "richness": "1.5"},
        shared=True,
    ),
    Sample("four_slider", 1, ("f4", 3), (1, 1), {"friction": "0.1"}, flags=("-DNO_RNG",)),
    Sample("five_pole", 1, ("f4", 3), (1,), {"gravity": "9.8", "max_steps": "100"}),
    Sample("five_duel", 2, ("u2", 4), (5, 2), {"max_steps": "30"}, flags=("-DMASK=7",)),
    Sample(
        "five_garden",
        3,
        ("u1", 35),
        (5, 3),
        {
            "gardeners": "3",
            "rain": "1",
            "worth": "0.5,1,0.25",
            "layout": "resources/five_garden/garden.txt",
        },
    ),
]


def lay_out(name: str, root: Path) -> Path:
    """Copy an env to where PufferLib's repository has it; return its folder.

    The sources go to ocean/NAME, its .ini file to config, its assets to resources/NAME.
    """
    folder = root / "ocean" / name
    folder.mkdir(parents=True)
    for path in (ENVS / name).iterdir():
        if path.is_dir():
            shutil.copytree(path, root / "resources" / name)
        elif path.suffix == ".ini":
            place = root / "config" / ("ocean" if name.startswith("three") else "")
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
        else:
            shutil.copy(path, folder)
    return folder


@dataclass(frozen=True)
class Trace:
    """What envs showed.

    Attributes:
        rows: (steps + 1, envs, agents) structured: observation, mask, reward, end. Row 0 is the
            reset.
        log: means of the log over all episodes that ended, with n.
    """

    rows: np.ndarray
    log: dict[str, float]


class Harness:
    """A plain C program that steps an env as its generation's vectorizer does."""

    def __init__(self, sample: Sample, root: Path) -> None:
        self.sample, self.root = sample, root
        self.program = root / f"{sample.name}_harness"
        folder = root / "ocean" / sample.name
        main = folder / ("binding.c" if sample.generation < 5 else f"{sample.name}.h")
        kind, count = sample.observation
        flags = [f"-DGENERATION={sample.generation}", f"-DAGENTS={sample.agents}", *sample.flags]
        if sample.generation == 3:
            flags += [
                f"-DOBS_BYTES={np.dtype(kind).itemsize}",
                f"-DOBS_SIZE={count}",
                f"-DNUM_ATNS={len(sample.actions)}",
            ]
        command = [
            os.environ.get("CC", "cc"),
            *("-std=gnu11", "-O2", "-ffp-contract=off", "-w"),
            *flags,
            f'-DSOURCE="{main}"',
            f"-I{HARNESS / 'stand_ins'}",
            str(HARNESS / "harness.c"),
            *("-o", str(self.program), "-lm"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    def run(self, first: int, actions: np.ndarray) -> Trace:
        """Step envs from index `first` on in one process.

        Args:
            actions: (steps, envs, agents, actions) float32.
        """
        steps, envs = actions.shape[:2]
        given, written = self.root / "actions.bin", self.root / "rows.bin"
        actions.astype(np.float32).tofile(given)
        settings = [f"{name}={value}" for name, value in self.sample.settings.items()]
        done = subprocess.run(
            [self.program, str(first), str(envs), str(steps), given, written, *settings],
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        facts, *lines = done.stdout.splitlines()
        element, dims, mask = map(int, facts.split())
        kind, count = self.sample.observation
        assert (element, dims) == (np.dtype(kind).itemsize, len(self.sample.actions))
        row = row_dtype(kind, count, mask)
        rows = np.fromfile(written, row).reshape(steps + 1, envs, self.sample.agents)
        log = {name: float(value) for name, value in (line.split() for line in lines)}
        return Trace(rows, log)

    def run_apart(self, actions: np.ndarray) -> Trace:
        """Step every env in a process of its own."""
        traces = [self.run(env, actions[:, env : env + 1]) for env in range(actions.shape[1])]
        return joined(traces)


def row_dtype(kind: str, count: int, mask: int) -> np.dtype:
    """Return the dtype of an agent's row in the harness's output."""
    return np.dtype(
        [("observation", kind, (count,)), ("mask", "u1", (mask,)), ("reward", "f4"), ("end", "u1")]
    )


def joined(traces: Sequence[Trace]) -> Trace:
    """Return the traces of several processes as one, with the means over all episodes."""
    logs = [trace.log for trace in traces if trace.log]
    total = sum(log["n"] for log in logs)
    log = {name: sum(log[name] * log["n"] for log in logs) / total for name in logs[0]}
    return Trace(np.concatenate([trace.rows for trace in traces], axis=1), {**log, "n": total})


def draw_actions(sample: Sample, steps: int, envs: int) -> np.ndarray:
    """Return (steps, envs, agents, actions) float32: random choices, or values in [-1, 1]."""
    random = np.random.default_rng(5)
    shape = (steps, envs, sample.agents)
    columns = [
        random.integers(0, size, shape) if size > 1 else random.uniform(-1, 1, shape)
        for size in sample.actions
    ]
    return np.stack(columns, axis=-1).astype(np.float32)


def allowed(actions: np.ndarray, masks: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return for each choice the next one that its mask allows, as the harness does.

    Args:
        actions: (rows, actions).
        masks: (rows, sum of sizes).
    """
    result = actions.copy()
    for row, mask in enumerate(masks):
        begin = 0
        for head, size in enumerate(sizes):
            free = mask[begin : begin + size]
            choice = int(result[row, head])
            for _ in range(size):
                if free[choice]:
                    break
                choice = (choice + 1) % size
            result[row, head] = choice
            begin += size
    return result


def as_sent(actions: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return actions (rows, actions) as `step` takes them."""
    if min(sizes) == 1:
        return actions
    whole = actions.astype(np.int64)
    return whole[:, 0] if len(sizes) == 1 else whole
