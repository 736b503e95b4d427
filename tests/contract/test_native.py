# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""C envs from Python (puffervec/contract/native.py, puffervec/envs, csrc/envs/env_list.c): configs,
params, specs.
"""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

import puffervec
from puffervec._ffi import ffi
from puffervec.contract import native
from puffervec.core.spec import DTYPE_CODE
from puffervec.envs.probe import ENV as PROBE
from puffervec.envs.probe import ProbeConfig
from puffervec.envs.tag_grid import ENV as TAG
from puffervec.envs.tag_grid import TagGridConfig
from puffervec.errors import ConfigError


@pytest.mark.parametrize(
    ("env", "given", "words"),
    [
        (PROBE, {"agents": 2}, ["probe", "'agents'", "num_agents", "episode_length"]),
        (PROBE, {"num_agents": 2.0}, ["num_agents", "2.0", "float", "int"]),
        (PROBE, {"num_agents": True}, ["num_agents", "True", "bool", "int"]),
        (PROBE, {"num_agents": "2"}, ["num_agents", "'2'", "str", "int"]),
        (PROBE, {"num_agents": None}, ["num_agents", "None", "int"]),
        (PROBE, {"num_agents": 2**31}, ["num_agents", "2147483648", "32 bits"]),
        (PROBE, {"fault_step": -(2**31) - 1}, ["fault_step", "32 bits"]),
        (TAG, {"wall_hit_penalty": "0.1"}, ["wall_hit_penalty", "'0.1'", "float"]),
        (TAG, {"wall_hit_penalty": True}, ["wall_hit_penalty", "True", "float"]),
        (TAG, {"use_full_observation": 1}, ["use_full_observation", "1", "bool"]),
        (TAG, ProbeConfig(), ["tag_grid", "ProbeConfig", "TagGridConfig"]),
        (PROBE, 3, ["probe", "3", "ProbeConfig"]),
        (PROBE, {1: 2}, ["1", "num_agents"]),
    ],
)
def test_unusable_settings_are_refused(env: native.NativeEnv, given: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        env.configure(given)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        TagGridConfig(wall_hit_penalty=1e300),
        TagGridConfig(wall_hit_penalty="x"),  # type: ignore[arg-type]
        ProbeConfig(num_agents=2.5),  # type: ignore[arg-type]
        ProbeConfig(num_agents=2**31),
        ProbeConfig(num_agents=None),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_config_that_does_not_fit_its_struct_is_refused(config: Any) -> None:
    """A dataclass may be made with anything in it; the border is where it is packed."""
    with pytest.raises(ConfigError, match=type(config).__name__):
        native.pack_config(config)


def test_a_mapping_a_config_and_nothing_give_a_config() -> None:
    assert PROBE.configure(None) == ProbeConfig()
    assert PROBE.configure({"num_agents": np.int64(3)}) == ProbeConfig(num_agents=3)
    assert type(PROBE.configure({"num_agents": np.int64(3)}).num_agents) is int
    assert TAG.configure({"wall_hit_penalty": 1}).wall_hit_penalty == 1.0
    config = ProbeConfig(num_agents=2)
    assert PROBE.configure(config) is config


@dataclass(frozen=True)
class Named:
    kind: Literal["near", "far", 0, 1] = "near"


@pytest.mark.parametrize(("given", "number"), [("near", 0), ("far", 1), (0, 0), (1, 1)])
def test_a_name_is_packed_as_its_place(given: Any, number: int) -> None:
    assert native.pack_config(Named(given)) == struct.pack("<i", number)


@pytest.mark.parametrize("bad", ["x", "", None, [1]])
def test_a_config_with_an_unknown_name_is_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match="kind of Named"):
        native.pack_config(Named(bad))


def test_packed_bytes_are_the_c_struct() -> None:
    config = TagGridConfig(
        num_taggers=3, wall_hit_penalty=0.25, use_full_observation=False, random_starts=True
    )
    assert native.pack_config(config) == struct.pack(
        "<iiiffffii", 3, 10, 100, 0.25, 10.0, 2.0, np.float32(0.01), 0, 1
    )
    for env in (PROBE, TAG):
        entry = env.env_type()
        assert entry.config_bytes == len(native.pack_config(env.config()))
        names = [
            ffi.string(entry.config_fields[i].name).decode() for i in range(entry.config_count)
        ]
        assert names == [
            f.name for f in dataclasses.fields(env.config) if not f.metadata.get("python")
        ]


@dataclass(frozen=True)
class Renamed:
    num_agent: int = 1


@dataclass(frozen=True)
class OtherKind:
    num_taggers: float = 1.0


def test_a_dataclass_that_differs_from_the_struct_is_an_import_error() -> None:
    fields = [(f.name, f.type, field(default=f.default)) for f in dataclasses.fields(ProbeConfig)]
    swapped = dataclasses.make_dataclass(
        "Swapped", [fields[1], fields[0], *fields[2:]], frozen=True
    )
    longer = dataclasses.make_dataclass(
        "Longer", [*fields, ("more", "int", field(default=0))], frozen=True
    )
    shorter = dataclasses.make_dataclass("Shorter", fields[:-1], frozen=True)
    for config in (swapped, longer, shorter, Renamed, OtherKind):
        with pytest.raises(ImportError, match=config.__name__):
            native.NativeEnv("probe", config, lambda _: native.EnvData())
    python_only = dataclasses.make_dataclass(
        "PythonOnly",
        [*fields, ("folder", "str", field(default="", metadata={"python": True}))],
        frozen=True,
    )
    native.NativeEnv(
        "probe", python_only, lambda _: native.EnvData()
    )  # a field of Python's own is no difference


def test_an_unknown_c_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="'chess'"):
        native.NativeEnv("chess", ProbeConfig, lambda _: native.EnvData())


# ---- the registry --------------------------------------------------------------------------------


def test_an_env_type_may_be_given_instead_of_a_name() -> None:
    with puffervec.make(PROBE, env_kwargs=ProbeConfig(num_agents=2), backend="serial") as vec:
        assert (vec.env, vec.config, vec.num_agents) == (PROBE, ProbeConfig(num_agents=2), 2)


# ---- params --------------------------------------------------------------------------------------


def test_params_are_laid_out_as_the_header_says() -> None:
    arrays: dict[str, np.ndarray] = {
        "floats": np.arange(6, dtype=np.float32).reshape(2, 3),
        "one": np.array([7], np.int64),
        "bytes": np.array([1, 2, 3], np.uint8),
        "strided": np.arange(10, dtype=np.int32)[::2],
        "cube": np.arange(8, dtype=np.int16).reshape(2, 2, 2),
        "none": np.zeros((0, 4), np.int16),
    }
    blob = native.pack_params(arrays)
    held = ffi.new("uint64_t[]", len(blob) // 8 + 1)
    ffi.memmove(held, blob, len(blob))
    head = ffi.cast("pv_params*", held)
    entries = ffi.cast("pv_param*", head + 1)
    assert (head.bytes, head.count) == (len(blob), 6)
    end = ffi.sizeof("pv_params") + 6 * ffi.sizeof("pv_param")
    for i, (name, array) in enumerate(arrays.items()):
        entry = entries[i]
        assert ffi.string(entry.name).decode() == name
        assert (entry.dtype, entry.bytes, list(entry.shape)[: entry.ndim]) == (
            DTYPE_CODE[array.dtype],
            array.nbytes,
            list(array.shape),
        )
        assert entry.offset % 64 == 0 and entry.offset >= end
        assert blob[entry.offset : entry.offset + entry.bytes] == array.tobytes()
        end = entry.offset + entry.bytes
    assert end <= len(blob)
    empty = native.pack_params({})
    assert len(empty) == ffi.sizeof("pv_params")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"x" * 32: np.zeros(1, np.int32)}, ["x" * 32]),
        ({"flags": np.zeros(1, bool)}, ["flags", "bool"]),
        ({"words": np.array(["a"])}, ["words"]),
        ({"deep": np.zeros((1, 1, 1, 1), np.int32)}, ["deep", "4"]),
    ],
)
def test_arrays_that_c_could_not_read_are_refused(
    params: dict[str, np.ndarray], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        native.pack_params(params)
    for word in words:
        assert word in str(caught.value)


def test_missing_params_are_the_envs_own_error() -> None:
    with pytest.raises(ConfigError, match="starting_location_x has 0"):
        TAG.describe(native.pack_config(TagGridConfig()), native.pack_params({}), None, "next_step")
    wrong_kind = {"start_x": np.zeros(11, np.float32), "start_y": np.zeros(11, np.float32)}
    with pytest.raises(ConfigError, match="starting_location_x has 0"):
        TAG.describe(
            native.pack_config(TagGridConfig()), native.pack_params(wrong_kind), None, "next_step"
        )


@pytest.mark.parametrize("given", [(11, None), (None, 11), (11, 22), (0, 0), (12, 12)])
def test_start_locations_of_impossible_numbers_are_refused(
    given: tuple[int | None, int | None],
) -> None:
    """Eleven agents; a saved run or another program may hand over anything."""
    params = {
        name: np.zeros(count, np.int32)
        for name, count in zip(("start_x", "start_y"), given, strict=True)
        if count is not None
    }
    with pytest.raises(ConfigError, match="give both one per agent"):
        TAG.describe(
            native.pack_config(TagGridConfig()), native.pack_params(params), None, "next_step"
        )
