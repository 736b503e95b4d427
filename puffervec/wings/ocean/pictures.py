# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The pictures of an env of PufferLib that is compiled with the user's raylib.

The env draws itself in a hidden window (pv_ocean_picture in csrc/contract/pv_ocean_generated.h), in
the process that steps it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np

from puffervec.errors import CallOrderError, ConfigError
from puffervec.wings.ocean.source import LEVELS

_ASSETS = "resources"


class Pictures:
    """A recorder of one env (puffervec.contract.evaluation.Recorder)."""

    def __init__(self, name: str, library: Path, folder: Path, vec: Any) -> None:
        """Create a recorder; its first episode begins with `begin`.

        Args:
            name: name of the env, for messages.
            library: the env's compiled library.
            folder: the folder of the env's sources.
            vec: the vector env, which must have one env in this process.
        """
        self._name, self._vec = name, vec
        self._root = next(
            (path for path in (folder, *folder.parents[:LEVELS]) if (path / _ASSETS).is_dir()),
            folder,
        )
        self._library = ctypes.CDLL(str(library))  # Returns the library that is open already.
        self._library.pv_ocean_env.restype = ctypes.c_void_p
        self._library.pv_ocean_picture.restype = ctypes.POINTER(ctypes.c_uint8)
        self._free = ctypes.CDLL(None).free
        self._env: ctypes.c_void_p | None = None

    def begin(self) -> None:
        """Remember which env to draw: the one that was reset last."""
        self._env = ctypes.c_void_p(self._library.pv_ocean_env())

    def add(self) -> None:
        """Do nothing: a picture shows the env's current state."""

    def picture(self) -> np.ndarray:
        """Return the pixels of the env's window, (H, W, 3) uint8.

        Raises:
            CallOrderError: before the first reset.
            ConfigError: there is no display, or the env's drawing function failed.
        """
        if self._env is None:
            raise CallOrderError("render: call reset first")
        self._vec.peek(0)  # Raises if the vector env is closed, and so its env freed.
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise ConfigError(
                f"{self._name} draws in a window, and there is no display: set DISPLAY, or start "
                "the program with xvfb-run"
            )
        size, text = (ctypes.c_int32 * 2)(), ctypes.create_string_buffer(1024)
        with contextlib.chdir(self._root):  # Raylib opens the env's assets from the working folder.
            pixels = self._library.pv_ocean_picture(self._env, size, text)
        if not pixels:
            raise ConfigError(f"{self._name}: {text.value.decode(errors='replace')}")
        try:
            return np.ctypeslib.as_array(pixels, (size[0], size[1], 3)).copy()
        finally:
            self._free(pixels)
