# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The layout of an env's rows, read from the `pv_spec` that its C code fills.

It is not repeated in Python.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from puffervec._ffi import ffi, lib
from puffervec.errors import ConfigError

if TYPE_CHECKING:
    import gymnasium

    from puffervec.workers.python.emulation import ActionPlan, ObservationPlan

# The codes of csrc/contract/base.h.
DTYPE_CODE: dict[np.dtype[Any], int] = {
    np.dtype(f"{kind}{bits}"): getattr(lib, f"PV_{kind[0].upper()}{bits}")
    for kind, widths in {
        "float": (16, 32, 64),
        "uint": (8, 16, 32, 64),
        "int": (8, 16, 32, 64),
    }.items()
    for bits in widths
}
DTYPES = {code: dtype for dtype, code in DTYPE_CODE.items()}
ACTION_KINDS = {
    lib.PV_DISCRETE: "discrete",
    lib.PV_MULTI_DISCRETE: "multi_discrete",
    lib.PV_CONTINUOUS: "continuous",
}
AUTORESET_MODES = {
    "next_step": lib.PV_NEXT_STEP,
    "same_step": lib.PV_SAME_STEP,
    "disabled": lib.PV_DISABLED,
}
# On the shorter side of a picture; a smaller table of bytes does not count as a picture.
FEWEST_PIXELS = 8


@dataclass(frozen=True)
class Field:
    """One named part of an observation row or of the readable state.

    A stored value lies in [low, high]; stored value * scale is in `unit`. `offset` is in bytes from
    the start of the row.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    unit: str
    low: float
    high: float
    scale: float

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def keeps_shape(self) -> bool:
        """Whether the array keeps its own shape instead of becoming part of a flat vector.

        True for three or more axes, and for pictures.
        """
        bytes_only = self.dtype == np.uint8 and (self.low, self.high) == (0, 255)
        return len(self.shape) > 2 or (
            len(self.shape) == 2 and bytes_only and min(self.shape) >= FEWEST_PIXELS
        )

    @property
    def space(self) -> gymnasium.Space[Any]:
        """Box of the stored values."""
        from gymnasium import spaces

        low, high = _bound(self.low, self.dtype), _bound(self.high, self.dtype)
        return spaces.Box(low, high, self.shape, self.dtype.type)


@dataclass(frozen=True)
class GroupSpec:
    """A group of rows that share spaces: `agents` rows per env, `observation_bytes` each.

    Attributes:
        agent_names: name of the agent in each row of an env, by its type (C envs) or name (parallel
            envs); () if unknown, or if it may change from episode to episode.
        observation_plan: layout of a Python env's observations in the rows
            (puffervec.workers.python.emulation); None for C envs.
        action_plan: layout of a Python env's actions in the rows; None for C envs.
        action_axes: for each axis, the numbers that its choices stand for, if the mean of such
            numbers is a sensible action too, as for steering angles; () otherwise. A discrete
            action is the index of a combination, in which the last axis varies fastest; each dim
            of a multi-discrete action is an axis.
    """

    name: str
    agents: int
    fields: tuple[Field, ...]
    observation_bytes: int
    action_kind: str
    action_sizes: tuple[int, ...]
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    action_mask_size: int
    observation_plan: ObservationPlan | None = None
    action_plan: ActionPlan | None = None
    agent_names: tuple[str, ...] = ()
    action_axes: tuple[tuple[float, ...], ...] = ()

    @property
    def action_dims(self) -> int:
        """Number of values per action (D)."""
        return len(self.action_sizes)

    @property
    def action_dtype(self) -> np.dtype[Any]:
        """Data type of the actions that an env gets."""
        if self.action_plan is not None:
            return np.dtype(self.action_plan.row_dtype)
        return np.dtype(np.float32 if self.action_kind == "continuous" else np.int32)

    @property
    def action_row_dtype(self) -> np.dtype[Any]:
        """Data type of the action rows in the slab.

        It is uint8 for the indices of a C env if no index has more choices than a byte allows.
        """
        in_bytes = self.action_plan is None and self.action_kind != "continuous"
        in_bytes = in_bytes and max(self.action_sizes) <= lib.PV_MOST_BYTE_CHOICES
        return np.dtype(np.uint8) if in_bytes else self.action_dtype

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of one action row in the slab."""
        if self.action_plan is not None:
            return tuple(self.action_plan.row_shape)
        return () if self.action_kind == "discrete" else (self.action_dims,)

    @property
    def action_bytes(self) -> int:
        """Size in bytes of one action row in the slab."""
        return self.action_row_dtype.itemsize * int(np.prod(self.action_shape, dtype=np.int64))

    @property
    def flat_dtype(self) -> np.dtype[Any] | None:
        """The common dtype of all fields if a row is one array, else None.

        A row is one array if its fields have one dtype and fill the row without gaps, and if no
        field that keeps its shape stands next to others.
        """
        dtypes = {field.dtype for field in self.fields}
        if len(dtypes) != 1 or (
            len(self.fields) > 1 and any(field.keeps_shape for field in self.fields)
        ):
            return None
        dtype = next(iter(dtypes))
        filled = sum(field.size for field in self.fields) * dtype.itemsize
        return dtype if filled == self.observation_bytes else None

    @property
    def flat_shape(self) -> tuple[int, ...]:
        """Shape of a row that has a `flat_dtype`.

        It is (F,), or the shape of the row's only field if that keeps its shape.
        """
        if len(self.fields) == 1 and self.fields[0].keeps_shape:
            return self.fields[0].shape
        return (sum(field.size for field in self.fields),)

    @property
    def row_dtype(self) -> np.dtype[Any]:
        """Structured dtype of one row."""
        return row_dtype(self.fields, self.observation_bytes)

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Space of one row: a Box of `flat_shape`, else a Dict of Boxes by field.

        For a Python env it is the emulated space.
        """
        from gymnasium import spaces

        if self.observation_plan is not None:
            return self.observation_plan.emulated_space
        boxes: dict[str, Any] = {field.name: field.space for field in self.fields}
        if self.flat_dtype is None:
            return spaces.Dict(boxes)
        low = np.concatenate([box.low.reshape(-1) for box in boxes.values()])
        high = np.concatenate([box.high.reshape(-1) for box in boxes.values()])
        low, high = low.reshape(self.flat_shape), high.reshape(self.flat_shape)
        return spaces.Box(low, high, self.flat_shape, self.flat_dtype.type)

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Space of one row's action."""
        from gymnasium import spaces

        if self.action_plan is not None:
            return self.action_plan.emulated_space
        if self.action_kind == "discrete":
            return spaces.Discrete(self.action_sizes[0])
        if self.action_kind == "multi_discrete":
            return spaces.MultiDiscrete(np.array(self.action_sizes, np.int64))
        low, high = np.array(self.action_low, np.float32), np.array(self.action_high, np.float32)
        return spaces.Box(low, high, low.shape, np.float32)


@dataclass(frozen=True)
class EnvSpec:
    """The description that a C env gives of itself for one config.

    Attributes:
        tasks: number of tasks (`set_tasks`); 0 for Python envs.
    """

    groups: tuple[GroupSpec, ...]
    record_names: tuple[str, ...]
    counter_names: tuple[str, ...]
    state_fields: tuple[Field, ...]
    state_bytes: int
    save_bytes: int
    records_per_turn: int
    tasks: int = 0

    @property
    def agents(self) -> int:
        """Number of rows per env over all groups."""
        return sum(group.agents for group in self.groups)

    def policy_hash(self) -> str:
        """Return a hash of all that policies depend on: fields and actions of every group."""
        parts = [
            [
                group.name,
                [[field.name, str(field.dtype), list(field.shape)] for field in group.fields],
                group.action_kind,
                list(group.action_sizes),
                group.action_mask_size,
            ]
            for group in self.groups
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def leaf_fields(plan: ObservationPlan) -> tuple[Field, ...]:
    """Return the leaves of a Python env's observation space as fields of a row."""
    return tuple(
        Field(
            name=".".join(map(str, leaf.path)) or "observation",
            dtype=leaf.dtype,
            shape=leaf.shape,
            offset=leaf.offset,
            unit="",
            low=float(np.min(getattr(leaf.space, "low", 0), initial=0)),
            high=float(np.max(getattr(leaf.space, "high", 1), initial=1)),
            scale=1.0,
        )
        for leaf in plan.leaves
    )


def row_dtype(fields: tuple[Field, ...], itemsize: int) -> np.dtype[Any]:
    """Return the structured dtype of a row of `itemsize` bytes with these fields."""
    return np.dtype(
        {
            "names": [field.name for field in fields],
            "formats": [(field.dtype, field.shape) for field in fields],
            "offsets": [field.offset for field in fields],
            "itemsize": itemsize,
        }
    )


def check_state(name: str, fields: Sequence[Field], state: Any) -> list[tuple[str, np.ndarray]]:
    """Check a state that an env is to be put into, and return (field name, array) of each entry.

    Args:
        name: name of the env, for messages.
        fields: the env's state fields.
        state: values by field name.

    Raises:
        ConfigError: the state is not a mapping, a name is unknown, or a value has another shape, or
            a dtype that its field cannot hold.
    """
    allowed = ", ".join(f"{field.name} {field.dtype}{list(field.shape) or ''}" for field in fields)
    if not isinstance(state, Mapping):
        raise ConfigError(
            f"poke: the state is {state!r}: give a mapping with values for some fields of {name}: "
            f"{allowed}"
        )
    known = {field.name: field for field in fields}
    for key in state:
        if key not in known:
            raise ConfigError(f"poke: {name} has no state named {key!r}: it has {allowed}")
    return [(key, _fitting(name, known[key], value)) for key, value in state.items()]


def _fitting(name: str, field: Field, value: Any) -> np.ndarray:
    """Return a value as an array of a field's dtype and shape, or raise ConfigError."""
    wanted = f"give {field.dtype} of shape {field.shape}"
    try:
        given = np.asarray(value)
    except ValueError:
        raise ConfigError(
            f"poke: {name}'s {field.name} is {value!r}, which is not an array: {wanted}"
        ) from None
    if given.dtype.kind not in ("biuf" if field.dtype.kind == "f" else "biu"):
        raise ConfigError(f"poke: {name}'s {field.name} has dtype {given.dtype}: {wanted}")
    if given.size == field.size == 1:
        given = given.reshape(field.shape)
    if given.shape != field.shape:
        raise ConfigError(f"poke: {name}'s {field.name} has shape {given.shape}: {wanted}")
    with np.errstate(over="ignore"):
        fitting = given.astype(field.dtype)
    if field.dtype.kind != "f" and (fitting != given).any():
        raise ConfigError(
            f"poke: {name}'s {field.name} is {value!r}, which {field.dtype} cannot hold: {wanted}"
        )
    return fitting


def _bound(value: float, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return dtype.type(value)
    limits = np.iinfo(dtype)
    return dtype.type(min(max(int(value), limits.min), limits.max))


def _text(chars: Any) -> str:
    return bytes(ffi.string(chars)).decode()


def _read_field(field: Any) -> Field:
    return Field(
        name=_text(field.name),
        dtype=DTYPES[field.dtype],
        shape=tuple(field.shape[i] for i in range(field.ndim)),
        offset=field.offset,
        unit=_text(field.unit),
        low=field.low,
        high=field.high,
        scale=field.scale,
    )


def _read_group(group: Any) -> GroupSpec:
    dims = range(group.action_dims)
    return GroupSpec(
        name=_text(group.name),
        agents=group.agents,
        fields=tuple(_read_field(group.fields[i]) for i in range(group.field_count)),
        observation_bytes=group.observation_bytes,
        action_kind=ACTION_KINDS[group.action_kind],
        action_sizes=tuple(group.action_sizes[i] for i in dims),
        action_low=tuple(group.action_low[i] for i in dims),
        action_high=tuple(group.action_high[i] for i in dims),
        action_mask_size=group.action_mask_size,
        action_axes=_read_axes(group),
    )


def _read_axes(group: Any) -> tuple[tuple[float, ...], ...]:
    sizes = group.axis_sizes[0 : group.axis_count]
    values = iter(group.axis_values[0 : sum(sizes)])
    return tuple(tuple(itertools.islice(values, size)) for size in sizes)


def read_spec(spec: Any, name: str) -> EnvSpec:
    """Return the Python form of the `pv_spec` that the env `name` has filled.

    Raises:
        ConfigError: the spec has more fields than PV_MAX_FIELDS, or axes of choices that do not fit
            its actions.
    """
    counts = {"the state": spec.state_count} | {
        f"a row of {_text(spec.groups[i].name)!r}": spec.groups[i].field_count
        for i in range(spec.group_count)
    }
    for whose, count in counts.items():
        if count > lib.PV_MAX_FIELDS:
            raise ConfigError(
                f"{name}: {whose} has {count} fields: at most {lib.PV_MAX_FIELDS} "
                "(PV_MAX_FIELDS) are allowed, so join some into an array"
            )
    groups = tuple(_read_group(spec.groups[i]) for i in range(spec.group_count))
    for group in groups:
        sizes = tuple(map(len, group.action_axes))
        if sizes and sizes != group.action_sizes and (math.prod(sizes),) != group.action_sizes:
            raise ConfigError(
                f"{name}: axis_sizes of {group.name!r} are {list(sizes)} for action_sizes "
                f"{list(group.action_sizes)}: give one axis per dim, or axes whose product is the "
                "number of choices"
            )
    return EnvSpec(
        groups=groups,
        record_names=tuple(_text(spec.record_names[i]) for i in range(spec.record_count)),
        counter_names=tuple(_text(spec.counter_names[i]) for i in range(spec.counter_count)),
        state_fields=tuple(_read_field(spec.state_fields[i]) for i in range(spec.state_count)),
        state_bytes=spec.state_bytes,
        save_bytes=spec.save_bytes,
        records_per_turn=spec.records_per_turn,
        tasks=max(1, spec.task_count),
    )
