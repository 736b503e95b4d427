# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Python objects pickled by the learner for its workers, which never import the user's main module.

Functions and classes of the main module travel by value (cloudpickle), and the worker's own
`__main__` gets them under the names that they have in the script. So an env can pickle objects of
the script's classes, and an entry point "__main__:MyEnv" leads to the class. In a process that
multiprocessing has spawned, the main module is called `__mp_main__`; it is treated alike.

    data: pickles, one after another:
    the message | names {name: object} | further names that these objects use | ...
"""

from __future__ import annotations

import contextlib
import io
import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

import cloudpickle

MAIN_MODULES = ("__main__", "__mp_main__")
_ENTRY_POINTS = ("entry_point", "vector_entry_point")


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """A pickler that records the names of the main module and the envs that it has packed."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self.names: dict[str, Any] = {}
        self.envs: list[Any] = []
        self._main = vars(sys.modules["__main__"])

    def reducer_override(self, obj: Any) -> Any:
        """Inspect each object before pickling; pickle calls it for all but plain data."""
        if isinstance(obj, (type, types.FunctionType)):
            if obj.__module__ in MAIN_MODULES and "<locals>" not in obj.__qualname__:
                self._note(obj.__qualname__)
        elif isinstance(obj, _spec_types()):
            for name in _ENTRY_POINTS:
                module, _, attribute = str(getattr(obj, name, None)).partition(":")
                if module in MAIN_MODULES:
                    self._note(attribute)
        elif is_env(obj):
            self.envs.append(obj)
        return super().reducer_override(obj)

    def _note(self, qualified: str) -> None:
        name = qualified.partition(".")[0]
        if name in self._main:
            self.names[name] = self._main[name]


def _spec_types() -> tuple[type, ...]:
    registration = sys.modules.get("gymnasium.envs.registration")
    return (registration.EnvSpec, registration.WrapperSpec) if registration is not None else ()


def is_env(obj: Any) -> bool:
    """Return whether an object has the methods of an env."""
    return callable(getattr(type(obj), "step", None)) and callable(
        getattr(type(obj), "reset", None)
    )


@contextlib.contextmanager
def _main_by_value() -> Iterator[None]:
    """Let cloudpickle treat the main module of a spawned process as it treats `__main__`."""
    spawned = sys.modules.get("__mp_main__")
    if spawned is None or spawned.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(spawned)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(spawned)


def pack(message: Any) -> tuple[bytes, list[Any]]:
    """Pickle a message for a worker; pickling errors are passed on.

    Returns:
        the bytes, and the envs (anything with `reset` and `step`) in the message.
    """
    stream = io.BytesIO()
    with _main_by_value():
        packer = _Packer(stream)
        packer.dump(message)
        sent: set[str] = set()
        while new := {name: found for name, found in packer.names.items() if name not in sent}:
            sent.update(new)
            packer.dump(new)  # the packer's memo skips objects that the message contains already
    return stream.getvalue(), packer.envs


def dumps(message: Any) -> bytes:
    """Pickle a message for a worker; pickling errors are passed on."""
    return pack(message)[0]


def dumps_for_learner(message: Any) -> bytes:
    """Pickle a worker's message that plain pickle cannot handle.

    Names of the main module are left out, since the learner has the originals.
    """
    with _main_by_value():
        return cloudpickle.dumps(message)  # type: ignore[no-any-return]


def loads(data: bytes) -> Any:
    """Unpickle a message that `dumps` or plain pickle has made.

    The names that came with it are put into this process's `__main__`.
    """
    stream = io.BytesIO(data)
    unpickler = pickle.Unpickler(stream)
    message = unpickler.load()
    while stream.tell() < len(data):
        main = sys.modules["__main__"]
        vars(main).update(unpickler.load())
        sys.modules.setdefault("__mp_main__", main)
    return message
