# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A socket for multiprocessing's fork server that leaves no file behind.

multiprocessing's own socket has a name in the file system, which remains if the learner is killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator
from multiprocessing import forkserver
from typing import Any

HELD = "/proc/self/fd/"


@contextlib.contextmanager
def unnamed_socket() -> Iterator[None]:
    """Remove the socket file of a fork server that starts in the block when the block ends.

    multiprocessing puts the file into a folder that it removes at exit, so a process that is killed
    together with its children leaves it. A socket stays reachable through a descriptor of its
    removed file. On systems other than Linux nothing is changed.
    """
    if not os.path.isdir(HELD):
        yield
        return
    server: Any = forkserver._forkserver
    config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    usual, before = config.get("tempdir"), server._forkserver_address
    with contextlib.ExitStack() as undo:
        folder = tempfile.mkdtemp(prefix="pv-")
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        config["tempdir"] = folder
        undo.callback(lambda: config.__setitem__("tempdir", usual))
        try:
            yield
        finally:
            address = server._forkserver_address
            if address != before and isinstance(address, str) and address.startswith(folder):
                held = os.open(address, os.O_PATH | os.O_CLOEXEC)
                server._forkserver_address = f"{HELD}{held}"
                if isinstance(before, str) and before.startswith(HELD):
                    os.close(int(before.removeprefix(HELD)))
