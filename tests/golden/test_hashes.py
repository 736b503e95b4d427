# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The golden hashes (hashes.json): every C env shows the committed bytes, however it is run and
whatever the learner has set.

Other builds are checked by tests/test_builds.py (two of them) and `make golden-check` (all). That
all ways of running show one and the same is tests/test_byte_equality.py's; here some of them meet
an env that would notice (drift.c).
"""

from __future__ import annotations

import ctypes
import locale
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env.config import CHOICES, DriveConfig
from drive_env.kinds import kinds
from puffervec.contract.native import EnvData, NativeEnv
from tests.builds import ROOT
from tests.golden import check, record
from tests.golden.cases import BY_NAME, CASES, FIRST, HERE, SCENES, DriftConfig
from tests.helpers import actions_of
from tests.libraries import compile_library

STEPS = 400
DRIFT = BY_NAME["drift"]
BACKENDS: list[dict[str, Any]] = [
    {"backend": "serial"},
    {"backend": "threading", "num_workers": 2, "num_buffers": 2, "split": "envs"},
    {"backend": "multiprocessing", "num_workers": 2, "start_method": "fork"},
]


def no_difference(ways: list[dict[str, Any]], steps: int, names: list[str]) -> None:
    found = list(check.differences(ways, steps, "the installed build", names))
    assert len(found) == len(ways) * len(names)
    assert [text for text in found if text is not None] == [], (
        "rebuild the C core if it is older than its sources"
    )


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_each_env_shows_the_committed_bytes(name: str) -> None:
    no_difference([check.SERIAL], STEPS, [name])


def test_however_it_is_run(no_leaks: None) -> None:
    no_difference(
        [*BACKENDS, {"backend": "multiprocessing", "num_workers": 3, "num_buffers": 1}],
        100,
        ["drift"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_in_all_ways(name: str) -> None:
    no_difference(
        check.PLANS["all"][: 5 if BY_NAME[name].autoreset == "disabled" else None], 1000, [name]
    )


# ---- what a learner may have set -----------------------------------------------------------------


@pytest.fixture
def flush_denormals() -> Iterator[None]:
    """What torch.set_flush_denormal(True) sets: results that are denormal become 0, and so do such
    operands (FTZ, DAZ).
    """
    import torch

    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU does not flush denormals")
    try:
        assert np.float32(1e-30) * np.float32(1e-10) == 0.0
        yield
    finally:
        torch.set_flush_denormal(False)


@pytest.fixture(params=[0x400, 0x800, 0xC00], ids=["down", "up", "to zero"])
def rounding(request: pytest.FixtureRequest) -> Iterator[None]:
    """Another rounding mode, as some libraries leave behind (x86's numbers of fenv.h)."""
    library = ctypes.CDLL("libm.so.6")
    before = library.fegetround()
    if library.fesetround(request.param):
        pytest.skip("fesetround knows no such mode on this CPU")
    try:
        yield
    finally:
        library.fesetround(before)


def test_denormals_that_the_learner_flushes(flush_denormals: None) -> None:
    no_difference(BACKENDS, 50, ["drift"])


def test_the_learners_rounding_mode(rounding: None) -> None:
    no_difference(BACKENDS[:2], 50, ["drift"])


def test_the_learners_locale() -> None:
    before = locale.setlocale(locale.LC_ALL)
    for name in ("de_DE.UTF-8", "tr_TR.UTF-8", "C.UTF-8"):
        try:
            locale.setlocale(locale.LC_ALL, name)
        except locale.Error:
            continue
        try:
            no_difference([check.SERIAL], 50, ["probe", "cartpole", "drive", "drift"])
        finally:
            locale.setlocale(locale.LC_ALL, before)


# ---- the hashes would show it --------------------------------------------------------------------


def test_drift_is_denormal_most_of_the_time() -> None:
    with DRIFT.make() as vec:
        observations, _ = vec.reset(seed=1)
        for _ in range(20):
            observations = vec.step(np.zeros((vec.num_envs, 2), np.float32))[0]
        tiny = observations[:, 0].astype(np.float64)
        assert ((tiny > 0) & (tiny < np.finfo(np.float32).tiny)).all()


@pytest.mark.parametrize(
    ("flags", "array"),
    [
        ("-mfma -ffp-contract=fast", "agents.observations"),
        ("-fassociative-math -fno-signed-zeros", "agents.observations"),
    ],
)
def test_drift_shows_other_arithmetic(flags: str, array: str, tmp_path: Path) -> None:
    """A compiler that fuses or reorders is named at the first step."""
    if "-mfma" in flags and "fma" not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip("this CPU has no fused multiply-add")
    library = compile_library(
        HERE / "drift.c", tmp_path / "drift.so", "-fno-trapping-math", *flags.split()
    )
    env = NativeEnv("drift", DriftConfig, lambda config: EnvData(), shared_library=str(library))
    with puffervec.make(env, env_kwargs=DRIFT.kwargs, backend="serial", num_envs=8) as vec:
        found = record.run(vec, DRIFT, 1, 100)
    expected = record.load()["runs"]["drift, seed 1"]
    said = record.difference("drift, seed 1", expected, found, "another build", "serial")
    assert said is not None
    assert (
        array in said
        and "between step 0 and" in said
        and "(another build; serial)" in said
        and "make golden" in said
    )


def test_a_difference_is_named_with_its_steps() -> None:
    expected = {
        "a.rewards": ["0", "1", "2", "3"],
        "a.masks": ["0", "1", "2", "3"],
        "records": ["0", "0", "0", "0"],
    }
    assert (
        record.difference(
            "x", expected, {name: values[:3] for name, values in expected.items()}, "b", "w"
        )
        is None
    )
    found = {**expected, "a.masks": ["0", "1", "x", "x"]}
    said = record.difference("x", expected, found, "gcc", "serial")
    assert said is not None and said.startswith(
        "x: a.masks differ(s) from the golden hashes between step 11 and 50 (gcc; serial)"
    )
    said = record.difference(
        "x", expected, {**found, "a.rewards": ["9", "9", "9", "9"]}, "gcc", "serial"
    )
    assert said is not None and "a.rewards differ(s)" in said and "between step 0 and 1 " in said
    said = record.difference("x", expected, {"a.rewards": ["0"]}, "gcc", "serial")
    assert said is not None and "['a.masks', 'a.rewards', 'records'] are on record" in said


def test_another_action_or_seed_shows() -> None:
    """Of drive, at one step."""
    case = BY_NAME["drive"]
    expected = record.load()["runs"]["drive, seed 1"]
    with case.make() as vec:
        assert (
            record.difference("drive", expected, record.run(vec, case, 2, 10), "b", "w") is not None
        )
    with case.make() as vec:
        table = record.actions(vec, 200, 1)
        table["agents"][30] = (table["agents"][30] + 1) % 91
        found = record.run(vec, case, 1, 200, table)
    said = record.difference("drive", expected, found, "b", "w")
    assert said is not None and "agents.observations" in said and "between step 11 and 50" in said


def test_the_file_is_whole() -> None:
    """Each case with each seed, nothing else; each checkpoint; each change with its reason."""
    found = record.load()
    assert set(found["runs"]) == {
        record.run_name(case, seed) for case in CASES for seed in case.seeds
    }
    for arrays in found["runs"].values():
        assert {len(values) for values in arrays.values()} == {len(record.CHECKPOINTS)}
    assert all(
        len(entry["reason"]) >= 10 and entry["date"] and entry["changed"] for entry in found["log"]
    )
    assert all(path.stat().st_size < 200_000 for path in SCENES.values())


def test_each_choice_of_drive_has_a_case() -> None:
    """Presets, models, types of rows and actions, behaviours and the rest: no name is without its
    bytes.
    """
    configs = [DriveConfig(**case.kwargs) for case in CASES if case.env in SCENES]
    for setting, names in CHOICES.items():
        shown = {getattr(config, setting) for config in configs}
        assert shown == set(names), setting


def test_each_kind_of_driver_has_bytes_of_its_own() -> None:
    runs, names = record.load()["runs"], list(kinds())
    cases = [runs[f"drive, lit, {name} drivers, seed 1"]["agents.observations"] for name in names]
    assert len(names) > 5 and len({hashes[-1] for hashes in cases}) == len(names)


def test_envs_meet_what_they_are_for() -> None:
    """In the hashed steps episodes end and begin again, rows are empty, and actions are refused."""
    for name in (FIRST | {"covid": "covid, short cycles"}).values():
        with BY_NAME[name].make() as vec:
            table, rewarded, episodes = record.actions(vec, 400, 1), 0, 0
            vec.reset(seed=1)
            for step in range(400):
                _, rewards, _, _, infos = vec.step(actions_of(vec, table, step, 0))
                rewarded += int(np.count_nonzero(rewards))
                episodes += len(infos.episodes) if infos else 0
            assert rewarded and episodes, name
            assert vec.counters()["invalid_actions"] > 0, name


# ---- what the bytes depend on --------------------------------------------------------------------

LIBM = (
    r"\b(a?(?:sin|cos|tan)h?|atan2|sincos|exp[2m]?1?|log(?:2|10|1p)?|pow|hypot|cbrt|erfc?"
    r"|[lt]gamma|fma)f?\("
)


def test_envs_call_no_function_whose_result_depends_on_the_c_library() -> None:
    """Square roots, floor and the like are exact by IEEE 754; sine, exponential and power differ
    between versions of libm. raymath.h is for envs of others, which may.
    """
    files = [
        *(
            p
            for p in (ROOT / "csrc").rglob("*.[ch]")
            if p.parent.name != "learner" and p.name != "raymath.h"
        ),
        *(ROOT / "examples").rglob("*.[ch]"),
        *HERE.glob("*.c"),
    ]
    found: dict[str, set[str]] = {}
    for path in files:
        code = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        calls = {match.group(0) for match in re.finditer(LIBM, code)}
        if calls:
            found[str(path.relative_to(ROOT))] = calls
    assert not found
