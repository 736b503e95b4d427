# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Record work that always uses the same buffers as a CUDA graph, and replay it with one launch.

    eager, WARM_UPS times  |  record (runs nothing), replay  |  replay  |  ...

Only one graph is recorded at a time in the whole process: beginning a recording synchronises the
device and empties torch's caches, and both are errors while another stream records. Warm-ups
exclude each other too, since compilers and libraries synchronise the device when they choose
kernels. Runs in the learner and in the thread of ahead.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import cached_property

import torch

from puffervec.train.device.streams import CudaStream

# Runs before the recording, in which libraries allocate their workspaces and choose kernels.
WARM_UPS = 3
alone = threading.RLock()  # Held by the thread that warms up or records.


@contextlib.contextmanager
def recording(
    stream: CudaStream, generator: torch.Generator | None = None
) -> Iterator[torch.cuda.CUDAGraph]:
    """Yield a graph that records what the body launches on `stream`; wait for all other recordings.

    Args:
        generator: The device generator that the body draws from; None if it draws nothing or uses
            the device's default generator.
    """
    graph = torch.cuda.CUDAGraph()
    if generator is not None:
        graph.register_generator_state(generator)
    # thread_local: other threads may use CUDA meanwhile, as long as they do not synchronise the
    # device.
    with alone, torch.cuda.graph(graph, stream=stream.own, capture_error_mode="thread_local"):
        yield graph


class Recorded:
    """Work in fixed buffers, in the order of the default stream.

    Attributes:
        graph: The recorded graph, or None before the recording.
    """

    def __init__(self, compute: Callable[[], None], device: torch.device, capture: bool) -> None:
        """Prepare the work; nothing runs yet.

        Args:
            compute: The work. It reads no number back and always writes its results to the same
                buffers.
            capture: Record it as a CUDA graph; otherwise every `play` calls `compute`.
        """
        self.compute, self.device = compute, device
        self.graph: torch.cuda.CUDAGraph | None = None
        self._left = WARM_UPS if capture else -1  # eager runs before the recording

    @cached_property
    def stream(self) -> CudaStream:
        """Return the stream of the warm-ups and of the recording."""
        return CudaStream(self.device)

    def play(self) -> None:
        """Do the work."""
        if self.graph is not None:
            self.graph.replay()
        elif self._left < 0:
            self.compute()
        else:
            self._warm_up()

    def _warm_up(self) -> None:
        """Run on the recording's stream, or record and replay: recording itself runs nothing."""
        self.stream.follow()
        if self._left:
            with alone, self.stream.active():
                self.compute()
        else:
            with recording(self.stream) as graph:
                self.compute()
            self.graph = graph
        self.stream.precede()
        if self.graph is not None:
            self.graph.replay()
        self._left -= 1
