# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""C envs seen from Python: a name in the C table, a config dataclass, and the data the env needs.

The dataclass mirrors the C config struct.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from puffervec._ffi import ffi, lib
from puffervec.contract import env_types
from puffervec.contract.drawing import Drawing, State
from puffervec.contract.evaluation import Evaluation, Recorder
from puffervec.contract.experts import Experts
from puffervec.contract.keyboard import Keys
from puffervec.contract.training import Training
from puffervec.core.spec import AUTORESET_MODES, DTYPE_CODE, DTYPES, EnvSpec, read_spec
from puffervec.errors import ConfigError, PuffervecError

# C type of each dataclass field type; a Literal of names is an int32 too.
_KIND = {"int": np.dtype(np.int32), "bool": np.dtype(np.int32), "float": np.dtype(np.float32)}


@dataclass(frozen=True)
class EnvData:
    """The inputs of an env type besides its config.

    Attributes:
        params: named arrays, copied once into the slab.
        data: a read-only file that every worker maps (compiled scenes), or None.
    """

    params: Mapping[str, np.ndarray] = field(default_factory=dict)
    data: Path | None = None


@dataclass(frozen=True)
class NativeEnv:
    """A C env type.

    Attributes:
        name: as in the C table (`pv_env_type.name`).
        config: a frozen dataclass. Its fields mirror the C config struct in name, order and kind
            (int and bool are int32, float is float32). A field that takes names, such as
            `Literal["near", "far"]`, is an int32 in C: the name's position in the list; numbers in
            the Literal are passed unchanged. Fields with `metadata={"python": True}` exist in
            Python only; `metadata={"was": NAME}` is the field's former name, which settings may
            still use. `metadata={"implies": {VALUE: SETTINGS}}`: a user who sets the field to VALUE
            also sets these other fields, except for those that are set in the same place.
        build: makes params and data from a config; may raise ConfigError or SceneError.
        evaluation: returns the env's own Evaluation (puffervec/contract/evaluation.py); called when
            one is requested. None: the env gets the evaluation that works for all envs.
        drawing: drawing(config, state) returns the drawing of an episode that began with `state`
            (puffervec/contract/drawing.py). None: no films and no pictures.
        keys: keys(config) returns the keys with which a person plays one agent
            (puffervec/contract/keyboard.py); may raise ConfigError. None: the env cannot be played.
        recorder: makes a Recorder for a vector env of one env in this process, if its pictures for
            `render_mode="rgb_array"` are not those of `drawing`.
        shared_library: location of the C table, for a type that is not in the core: the dotted name
            of an extension module ("my_package._core") or the path of a shared library
            (puffervec/contract/env_types.py). None: in the core.
        training: settings, metrics and search ranges that suit the env
            (puffervec/contract/training.py).
        agent_types: names of the agent types, by the number in the rows' `agent_types`; () if the
            types have no names.
        row_types: returns the agent type of each row of an env, of all its groups in order, for a
            config; None if that may change from episode to episode.
        experts: experts(config) returns how the env plays an expert whose actions are cloned
            (puffervec/contract/experts.py); may raise ConfigError. None: it has none.
        trained_policies: folders of checkpoints that come with the env, by the name that stands for
            them wherever a run is accepted.
    """

    name: str
    config: type[Any]
    build: Callable[[Any], EnvData]
    evaluation: Callable[[], Evaluation] | None = None
    drawing: Callable[[Any, State], Drawing] | None = None
    keys: Callable[[Any], Keys] | None = None
    recorder: Callable[[Any], Recorder] | None = None
    shared_library: str | None = None
    agent_types: tuple[str, ...] = ()
    row_types: Callable[[Any], Sequence[int]] | None = None
    experts: Callable[[Any], Experts] | None = None
    trained_policies: Mapping[str, Path] = field(default_factory=dict)
    training: Training = Training()

    def __post_init__(self) -> None:
        if self.evaluation is not None and not callable(self.evaluation):
            raise ConfigError(
                f"{self.name}: evaluation is {self.evaluation!r}: give a function without "
                "arguments that returns a puffervec.Evaluation"
            )
        _compare_config(self.name, self.config, self.shared_library)

    @property
    def shared_library_path(self) -> str | None:
        """Path of the shared library, or None for a type of the core.

        It is for processes that should not import the library's package.
        """
        return None if self.shared_library is None else env_types.locate(self.shared_library)

    def own_evaluation(self) -> Evaluation | None:
        """Return the env's own evaluation, or None.

        Raises:
            ConfigError: `evaluation` failed, or returned something else.
        """
        if self.evaluation is None:
            return None
        try:
            evaluation = self.evaluation()
        except PuffervecError:
            raise
        except Exception as error:
            raise ConfigError(
                f"{self.name}: its evaluation cannot be loaded: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(evaluation, Evaluation):
            raise ConfigError(
                f"{self.name}: its evaluation is {evaluation!r}: `evaluation` must return a "
                "puffervec.Evaluation"
            )
        return evaluation

    @property
    def has_pictures(self) -> bool:
        """Whether an env of this type can be drawn (puffervec/viewing/render/frames.py)."""
        return self.drawing is not None or self.recorder is not None

    def configure(self, settings: Mapping[str, Any] | Any | None) -> Any:
        """Return a config from a mapping of settings, a config, or None for the defaults.

        Raises:
            ConfigError: an unknown setting, or a value of another type.
        """
        if isinstance(settings, self.config):
            return settings
        if settings is not None and not isinstance(settings, Mapping):
            text = f"{settings!r} ({type(settings).__name__})"
            raise ConfigError(
                f"settings of {self.name} are {text}: give a mapping or a {self.config.__name__}"
            )
        known = {f.name: f for f in dataclasses.fields(self.config)}
        values = renamed(self.config, settings or {})
        for name, value in values.items():
            if name not in known:
                raise ConfigError(
                    f"{self.name} has no setting {name!r}: the settings are {', '.join(known)}"
                )
            if not known[name].metadata.get("python"):
                values[name] = _check_value(
                    self.name, known[name], _choices(self.config, known[name]), value
                )
        return self.config(**implied(self.config, values), **values)

    def pack(self, config: Any) -> bytes:
        return pack_config(config)

    def env_type(self) -> Any:
        """Return the C table, `const pv_env_type*`.

        Raises:
            ConfigError: as in `env_types.find`.
        """
        return env_types.find(self.name, self.shared_library)

    def describe(
        self, config: bytes, params: bytes, data: Any, autoreset: str
    ) -> tuple[Any, EnvSpec]:
        """Ask the env type for its spec.

        Args:
            config: the blob from pack_config.
            params: the blob from pack_params.
            data: a buffer with the shared data, or None.
            autoreset: the mode, which the type may refuse.

        Returns:
            the C `pv_spec` and its Python form.

        Raises:
            ConfigError: the env refused; the message is the env's own.
        """
        # Copies, because C needs an alignment that bytes objects do not guarantee.
        config_copy, params_copy = (
            ffi.new("uint64_t[]", len(config) // 8 + 1),
            ffi.new("uint64_t[]", len(params) // 8 + 1),
        )
        ffi.memmove(config_copy, config, len(config))
        ffi.memmove(params_copy, params, len(params))
        context = ffi.new("pv_context*")
        context.config, context.params = config_copy, ffi.cast("const pv_params*", params_copy)
        mapped = ffi.from_buffer("uint8_t[]", data) if data is not None else ffi.NULL
        context.data, context.data_bytes = mapped, len(data) if data is not None else 0
        context.autoreset = AUTORESET_MODES[autoreset]
        spec, text = ffi.new("pv_spec*"), ffi.new("char[]", lib.PV_ERROR_TEXT)
        if self.env_type().describe(context, spec, text):
            raise ConfigError(f"{self.name}: {ffi.string(text).decode(errors='replace')}")
        return spec, read_spec(spec, self.name)

    def close(self) -> None:
        """Do nothing: there is nothing to free."""


def renamed(config: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a dataclass with former field names replaced by the current ones.

    A field's former name is in its `metadata={"was": NAME}`.
    """
    today = {f.metadata["was"]: f.name for f in dataclasses.fields(config) if "was" in f.metadata}
    return {today.get(name, name): value for name, value in settings.items()}


def implied(config: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that settings of a dataclass imply for fields that they do not set.

    A field's implications are in its `metadata={"implies": {VALUE: SETTINGS}}`.
    """
    values: dict[str, Any] = {}
    for f in dataclasses.fields(config):
        if isinstance(value := settings.get(f.name), str):
            values |= f.metadata.get("implies", {}).get(value, {})
    return {name: value for name, value in values.items() if name not in settings}


def c_fields(config: type[Any]) -> list[dataclasses.Field[Any]]:
    """Return the dataclass fields that are also in the C struct, in order."""
    return [f for f in dataclasses.fields(config) if not f.metadata.get("python")]


def _type_name(f: dataclasses.Field[Any]) -> str:
    return f.type if isinstance(f.type, str) else getattr(f.type, "__name__", str(f.type))


_hints: Any = functools.cache(typing.get_type_hints)


def _choices(config: type[Any], f: dataclasses.Field[Any]) -> tuple[Any, ...]:
    """Return the names that a Literal field allows, in C's numbering, then the numbers it allows.

    The result is () for fields of other types.
    """
    if _type_name(f) in _KIND:
        return ()
    hint = _hints(config)[f.name]
    return typing.get_args(hint) if typing.get_origin(hint) is Literal else ()


def _kind(config: type[Any], f: dataclasses.Field[Any]) -> np.dtype[Any]:
    return _KIND["int" if _choices(config, f) else _type_name(f)]


def _check_value(env: str, f: dataclasses.Field[Any], choices: tuple[Any, ...], value: Any) -> Any:
    """Return `value` as the field's type, or raise ConfigError."""
    if choices:
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, (str, int)) and not isinstance(plain, bool) and plain in choices:
            return plain
        names = ", ".join(choice for choice in choices if isinstance(choice, str))
        raise ConfigError(f"{env}: {f.name} is {value!r}; it must be one of {names}")
    wanted = _type_name(f)
    accepted: dict[str, tuple[type, ...]] = {
        "int": (int, np.integer),
        "bool": (bool, np.bool_),
        "float": (int, float, np.integer, np.floating),
    }
    is_bool = isinstance(value, (bool, np.bool_))
    if not isinstance(value, accepted[wanted]) or (is_bool and wanted != "bool"):
        raise ConfigError(
            f"{env}: {f.name} is {value!r}, which is {type(value).__name__}: give {wanted}"
        )
    try:
        number: Any = {"int": int, "bool": bool, "float": float}[wanted](value)
    except OverflowError as error:  # A whole number of more than 308 digits.
        raise ConfigError(
            f"{env}: {f.name} is a number that does not fit a double: give {wanted}"
        ) from error
    if wanted == "int" and not -(2**31) <= number < 2**31:
        raise ConfigError(f"{env}: {f.name} is {number}: use a whole number of 32 bits")
    return number


def _compare_config(name: str, config: type[Any], library: str | None) -> None:
    """Raise ImportError if the dataclass and the C struct differ in name, order, kind or size."""
    native = env_types.find(name, library)
    in_c = []
    for i in range(native.config_count):
        entry = native.config_fields[i]
        in_c.append((ffi.string(entry.name).decode(), DTYPES[entry.kind], entry.offset))
    in_python = [(f.name, _kind(config, f), 4 * i) for i, f in enumerate(c_fields(config))]
    if in_c != in_python or native.config_bytes != 4 * len(in_python):
        differing = [pair for pair in zip(in_c, in_python, strict=False) if pair[0] != pair[1]]
        raise ImportError(
            f"{config.__name__} and the C config of {name!r} differ (C, Python): "
            f"{differing or (len(in_c), len(in_python))}; rebuild the C core, or change the "
            "dataclass"
        )


def pack_config(config: Any) -> bytes:
    """Return the bytes of the C config struct."""
    return b"".join(
        _pack_field(type(config), f, getattr(config, f.name)) for f in c_fields(type(config))
    )


def _pack_field(config: type[Any], f: dataclasses.Field[Any], value: Any) -> bytes:
    if isinstance(value, str) and value in (names := _choices(config, f)):
        value = names.index(value)
    try:
        return struct.pack("<" + _kind(config, f).char, value)
    except (struct.error, OverflowError) as error:
        raise ConfigError(
            f"{f.name} of {config.__name__} is {value!r:.40}, which does not fit its C type: "
            f"{error}"
        ) from None


def pack_params(params: Mapping[str, np.ndarray]) -> bytes:
    """Return the params blob: header, one entry per array, then the arrays.

    Each array is aligned to 64 bytes.
    """
    head, entry = ffi.sizeof("pv_params"), ffi.sizeof("pv_param")
    at = head + entry * len(params)
    entries, chunks = [], []
    for name, values in params.items():
        array = np.ascontiguousarray(values)
        if (
            array.dtype not in DTYPE_CODE
            or array.ndim > lib.PV_MAX_NDIM
            or len(name.encode()) >= lib.PV_NAME_BYTES
        ):
            raise ConfigError(
                f"params {name!r} has type {array.dtype} and {array.ndim} axes: use one of "
                f"{', '.join(map(str, DTYPE_CODE))}, at most {lib.PV_MAX_NDIM} axes, and a name "
                f"under {lib.PV_NAME_BYTES} bytes"
            )
        at = -(-at // 64) * 64
        item = ffi.new("pv_param*")
        item.name = name.encode()
        item.dtype, item.ndim = DTYPE_CODE[array.dtype], array.ndim
        for axis, length in enumerate(array.shape):
            item.shape[axis] = length
        item.offset, item.bytes = at, array.nbytes
        entries.append(bytes(ffi.buffer(item)))
        chunks.append((at, array.tobytes()))
        at += array.nbytes
    blob = bytearray(at)
    start = ffi.new("pv_params*", {"bytes": at, "count": len(params)})
    blob[: head + entry * len(params)] = bytes(ffi.buffer(start)) + b"".join(entries)
    for offset, chunk in chunks:
        blob[offset : offset + len(chunk)] = chunk
    return bytes(blob)
