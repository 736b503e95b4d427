# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Settings, env configs and flags of the command line from Hypothesis: taken, or refused with the
one error meant for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from puffervec import envs
from puffervec.commands.train import parse_train
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train.config.flags import ALIASES, known_flags
from puffervec.train.config.sections import TrainConfig
from puffervec.vec.settings import VectorSettings, check_settings

ODD = st.sampled_from(
    [0, 1, -1, 2, 3, 1.5, -0.0, 2**31, 2**63, 2**64, 10**400, math.nan, math.inf, -math.inf, 1e-320,
     1e300, None, True, False, "", "auto", "x", "\x00", "\ud800", "workers", "ready", [], [1], {},
     (), b"x", object()]
)  # fmt: skip
VALUES = ODD | st.integers() | st.floats() | st.text(max_size=5)
NAMES = [
    name
    for name, p in inspect.signature(check_settings).parameters.items()
    if p.kind is p.KEYWORD_ONLY
]


def few(examples: int, fixed: bool = True) -> settings:
    """Settings of a test with so many examples, the same ones at each run if `fixed`."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=fixed,
        suppress_health_check=list(HealthCheck),
    )


FLAGS = [
    *known_flags(TrainConfig.bare("probe")),
    *ALIASES,
    "--env.x",
    "--resume",
    "--config",
    "--",
    "-",
    "--train",
    "-x",
    "",
]
WORDS = [
    "nan",
    "1e999",
    "-1",
    "0",
    "true",
    "auto",
    "",
    "[]",
    "1 2",
    "probe",
    "9" * 5000,
    "../x",
    "\x00",
    "1e3",
    "2.5",
    "--",
    "x=y",
]


@few(60)
@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_settings_are_checked_or_refused(given_values: dict[str, Any]) -> None:
    try:
        found = check_settings(**{"num_envs": 4, **given_values})
    except ConfigError as error:
        assert str(error)
        return
    assert (
        isinstance(found, VectorSettings)
        and found.num_envs % found.num_buffers == 0
        and found.timeout_s > 0
    )


@few(60)
@given(st.sampled_from([*envs.BUILT_IN]), st.data())
def test_configs_of_envs_are_made_or_refused(name: str, data: st.DataObject) -> None:
    env = envs.get(name)
    fields = [field.name for field in dataclasses.fields(env.config)] + ["unknown"]
    kwargs = data.draw(st.dictionaries(st.sampled_from(fields), VALUES, max_size=3))
    try:
        config = env.configure(kwargs)
        env.pack(config)
    except ConfigError as error:
        assert str(error).startswith(name) or any(key in str(error) for key in kwargs)


COMMAND_LINES = st.lists(
    st.sampled_from(FLAGS) | st.sampled_from(WORDS) | st.text(max_size=4), max_size=5
)


def parse(words: list[str]) -> None:
    """Parse a command line and check what comes out."""
    try:
        config, *_ = parse_train(["probe", *words])
    except (ConfigError, CheckpointError) as error:
        assert str(error).strip()
    else:
        assert config.target == "probe"
        with contextlib.suppress(ConfigError):
            config.check_batch(16)


@few(6)
@given(COMMAND_LINES)
def test_flags_are_taken_or_refused_in_one_line(words: list[str]) -> None:
    parse(words)


@pytest.mark.slow
@few(400, fixed=False)
@given(COMMAND_LINES)
def test_many_flags(words: list[str]) -> None:
    parse(words)
