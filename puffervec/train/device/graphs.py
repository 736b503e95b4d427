# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""CUDA graphs: work that always happens in the same buffers is recorded once and replayed, which
costs one launch.

    eager, WARM_UPS times  |  record (runs nothing), replay  |  replay  |  ...

One recording at a time in the whole process: to begin one synchronises the device and empties
torch's caches, both of which are errors while another stream records. The warm-ups keep out of each
other's way too, since compilers and libraries synchronise the device when they choose kernels. Runs
in the learner and in the thread of ahead.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import cached_property

import torch

from puffervec.train.device.streams import CudaStream

WARM_UPS = 3  # runs before the recording: libraries make their workspaces, kernels are chosen
alone = threading.RLock()  # held by the thread that warms up or records


@contextlib.contextmanager
def recording(
    stream: CudaStream, generator: torch.Generator | None = None
) -> Iterator[torch.cuda.CUDAGraph]:
    """Record what the block launches, on `stream`, as the graph that is given; waits for all other
    recordings.

    Args: generator: of the draws in the block, on the device; None: there are none, or they are the
        device's own.
    """
    graph = torch.cuda.CUDAGraph()
    if generator is not None:
        graph.register_generator_state(generator)
    # thread_local: other threads may use CUDA meanwhile, for what is no synchronisation of the
    # device.
    with alone, torch.cuda.graph(graph, stream=stream.own, capture_error_mode="thread_local"):
        yield graph


class Recorded:
    """Work in fixed buffers, in the order of the default stream. Attributes: graph: None until it
    is recorded.
    """

    def __init__(self, compute: Callable[[], None], device: torch.device, capture: bool) -> None:
        """Args: compute: the work; reads no number back and leaves its results where it left them
        before; capture: make a graph of it (CUDA), else it runs as it stands.
        """
        self.compute, self.device = compute, device
        self.graph: torch.cuda.CUDAGraph | None = None
        self._left = WARM_UPS if capture else -1  # eager runs before the recording

    @cached_property
    def stream(self) -> CudaStream:
        """Where the warm-ups and the recording happen."""
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
        """Run on the stream of the recording, or record: that runs nothing, so a replay follows."""
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
