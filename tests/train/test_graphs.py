# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""When CUDA graphs are recorded (puffervec/train/device/graphs.py), with a fake torch.cuda."""

from __future__ import annotations

import threading

import torch

from puffervec.train.device import graphs
from puffervec.train.device.graphs import WARM_UPS, Recorded, recording
from puffervec.train.device.streams import CudaStream
from tests.train.streams import Cuda, cuda

__all__ = ["cuda"]
DEVICE = torch.device("cuda")


def test_work_is_recorded_once_and_then_replayed(cuda: Cuda) -> None:
    ran: list[str] = []
    work = Recorded(lambda: ran.append(cuda.current_stream().name), DEVICE, capture=True)
    for _ in range(WARM_UPS):
        work.play()
    assert ran == ["stream 1"] * WARM_UPS and work.graph is None
    assert (
        cuda.notes
        == [("stream 1", "waits", "default"), ("default", "waits", "stream 1")] * WARM_UPS
    )
    cuda.notes.clear()
    work.play()
    work.play()
    assert ran == ["stream 1"] * (WARM_UPS + 1)
    replay = ("default", "replays", work.graph)
    assert cuda.notes == [
        ("stream 1", "waits", "default"),
        ("default", "waits", "stream 1"),
        replay,
        replay,
    ]


def test_without_a_capture_it_just_runs(cuda: Cuda) -> None:
    ran: list[int] = []
    work = Recorded(lambda: ran.append(1), torch.device("cpu"), capture=False)
    for _ in range(WARM_UPS + 2):
        work.play()
    assert len(ran) == WARM_UPS + 2 and cuda.notes == [] and work.graph is None


def test_threads_record_and_warm_up_one_at_a_time(cuda: Cuda) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def first() -> None:
        with recording(CudaStream(DEVICE)):
            entered.set()
            assert go_on.wait(10)

    order: list[str] = []
    work = Recorded(lambda: order.append("ran"), DEVICE, capture=True)
    threads = [threading.Thread(target=first), threading.Thread(target=work.play)]
    threads[0].start()
    assert entered.wait(10)
    assert not graphs.alone.acquire(blocking=False)
    threads[1].start()
    order.append("released")
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert order == ["released", "ran"] and cuda.most_at_once == 1


def test_draws_in_a_graph_go_on_from_the_generator(cuda: Cuda) -> None:
    generator = torch.Generator()
    with recording(CudaStream(DEVICE), generator) as graph:
        pass
    assert graph.generators == [generator]  # type: ignore[attr-defined]
