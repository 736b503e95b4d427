# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads pickles of plain data: dicts, lists, tuples, sets, text, numbers and NumPy arrays of them.

A pickle is a program. This reader runs the few instructions that plain data need, and calls
nothing that a file names: arrays are built here, from bytes whose number fits their shape. So a
hostile file can neither run code nor allocate more than a few times its size. Runs in the learner
and in helper processes.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import struct
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np

# Types of arrays: booleans, integers, floats of fixed size. No objects, no text.
_DTYPE = re.compile(r"[<>|=]?([biuf][1248]|f16)")
MOST_AXES = 4
_ALLOWED = (
    "PROTO FRAME STOP MARK MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET NONE NEWTRUE NEWFALSE "
    "BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE SHORT_BINBYTES BINBYTES "
    "BINBYTES8 EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT DICT "
    "LIST SETITEM SETITEMS EMPTY_SET ADDITEMS GLOBAL STACK_GLOBAL REDUCE BUILD"
).split()


class PickleError(ValueError):
    """A pickle that is damaged, or contains anything other than plain data."""


class _Dtype:
    """Placeholder for `numpy.dtype` while it is being built."""

    def __init__(self, code: Any, *flags: Any) -> None:
        if not isinstance(code, str) or not _DTYPE.fullmatch(code):
            raise PickleError(f"an array of type {code!r}: only numbers and booleans are read")
        self.value = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else "|"
        if order == ">":
            self.value = self.value.newbyteorder(">")


class _Array:
    """Placeholder for an array while it is built; `value` is set once its state has been read."""

    value: Any = None

    def __init__(self, *arguments: Any) -> None:
        """Ignore the class, shape and type that `numpy.core.multiarray._reconstruct` gets."""

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise PickleError("an array with a state of another kind")
        _, shape, dtype, by_columns, data = state
        self.fill(data, dtype, shape, "F" if by_columns else "C")

    def fill(self, data: Any, dtype: Any, shape: Any, order: Literal["C", "F"]) -> None:
        """Set `value`. Raises: PickleError: the parts do not fit each other."""
        if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
            raise PickleError("an array whose content is not bytes of numbers")
        axes = isinstance(shape, tuple) and len(shape) <= MOST_AXES
        if not axes or not all(type(size) is int and size >= 0 for size in shape):
            raise PickleError(f"an array of shape {shape!r}")
        if math.prod(shape) * dtype.value.itemsize != len(data):
            raise PickleError(f"an array of shape {shape} with {len(data)} bytes")
        self.value = np.frombuffer(data, dtype.value).reshape(shape, order=order)


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    """Return the placeholder of an array that was pickled with protocol 5."""
    if order not in ("C", "F"):
        raise PickleError(f"an array in the order {order!r}")
    array = _Array()
    array.fill(data, dtype, shape, order)
    return array


def _encode(text: Any, encoding: Any) -> bytes:
    """Return bytes that protocol 2 stores as text."""
    if not isinstance(text, str) or encoding != "latin1":
        raise PickleError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


def _scalar(dtype: Any, data: Any) -> Any:
    """Return a number that was a NumPy scalar."""
    if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
        raise PickleError("a number whose content is not bytes")
    if len(data) != dtype.value.itemsize:
        raise PickleError(f"a number of type {dtype.value} with {len(data)} bytes")
    return np.frombuffer(data, dtype.value)[0].item()


def _ndarray(*arguments: Any) -> Any:
    raise PickleError("an array that is built by its class")


def _dict(*factory: Any) -> dict[Any, Any]:
    return {}


def _int(*value: Any) -> int:
    return 0


# The names that a file may use, and their replacements here.
_NAMES: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _ndarray,
    **{
        (f"numpy.{core}.multiarray", name): stand_in
        for core in ("core", "_core")
        for name, stand_in in (("_reconstruct", _Array), ("scalar", _scalar))
    },
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _encode,
    ("collections", "defaultdict"): _dict,
    # Factories of defaultdicts, which are never called here.
    **{
        (module, name): _int
        for module in ("builtins", "__builtin__")
        for name in ("int", "long", "float", "list", "dict", "set", "str")
    },
}


def _load_bytes(reader: Any) -> None:
    """Run the instruction for bytes of any length, without room for more than the file has."""
    (length,) = struct.unpack("<Q", reader.read(8))
    reader.append(reader.read(min(length, sys.maxsize)))


class _Reader(pickle._Unpickler):
    """Python's unpickler that is written in Python, with the instructions of plain data alone."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **{
            getattr(pickle, name)[0]: pickle._Unpickler.dispatch[getattr(pickle, name)[0]]
            for name in _ALLOWED
        },
        pickle.BYTEARRAY8[0]: _load_bytes,
    }

    def find_class(self, module: str, name: str) -> Any:
        stand_in = _NAMES.get((module, name))
        if stand_in is None:
            raise PickleError(f"it names {module}.{name}, which is not plain data")
        return stand_in


def is_pickle(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a pickle of protocol 2 to 5."""
    return len(head) > 3 and head[0] == 0x80 and 2 <= head[1] <= 5 and head[2] in b"\x95}"


def load_plain(data: bytes) -> Any:
    """Return the data of a pickle; arrays are views on its bytes, and read-only.

    Raises:
        PickleError: the pickle is damaged or holds other data; the message is one line and names
            the byte.
    """
    file = io.BytesIO(data)
    reader = _Reader(file)
    try:
        return _finished(reader.load())
    except (LookupError, ValueError, TypeError, AttributeError, EOFError, struct.error) as error:
        reason = str(error) if isinstance(error, PickleError) else "the pickle is damaged"
    except (pickle.UnpicklingError, OverflowError, MemoryError, RecursionError):
        reason = "the pickle is damaged"
    raise PickleError(f"byte {_position(reader, file)}: {reason}")


def _position(reader: Any, file: io.BytesIO) -> int:
    """Return how many bytes were read."""
    unframer = getattr(reader, "_unframer", None)
    frame = unframer.current_frame if unframer is not None else None
    return file.tell() - (len(frame.getbuffer()) - frame.tell() if frame is not None else 0)


def _finished(value: Any) -> Any:
    """Return the data with each placeholder replaced by its array."""
    # No recursion, and each container is visited once: a pickle may nest deeply or contain itself.
    top = [value]
    queue: list[Any] = [top]
    seen: set[int] = set()
    while queue:
        container = queue.pop()
        if id(container) in seen:
            continue
        seen.add(id(container))
        items = list(container.items() if isinstance(container, dict) else enumerate(container))
        for key, item in items:
            if isinstance(item, (_Array, _Dtype)):
                container[key] = item.value
            elif isinstance(item, tuple):
                # No known file has arrays within tuples; such tuples keep their placeholders.
                continue
            elif isinstance(item, (dict, list)):
                queue.append(item)
    return top[0]
