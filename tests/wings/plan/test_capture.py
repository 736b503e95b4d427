# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a CUDA graph cannot hold (puffervec/wings/plan/capture.py), on tensors that only claim to be
on a GPU; and real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from puffervec.train.device.graphs import WARM_UPS
from puffervec.wings import plan
from puffervec.wings.plan.capture import CapturedRunner, CaptureError, Watch
from puffervec.wings.plan.policy import ModuleRunner
from puffervec.wings.profile.fake import Graph, fake_cuda

aten = torch.ops.aten
HOST = torch.ones(3)
FAULTS: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "reads a number": (lambda x: aten.nonzero.default(x), "reads a number back"),
    "indexes with a mask": (lambda x: aten.index.Tensor(x, [x > 0]), "reads a number back"),
    "copies from pageable memory": (
        lambda x: aten._to_copy.default(HOST, device=x.device),
        "copies from pageable memory",
    ),
    "copies from pageable memory without waiting": (
        lambda x: aten._to_copy.default(HOST, device=x.device, non_blocking=True),
        "copies from pageable memory",
    ),
    "takes a tensor to the host": (
        lambda x: aten._to_copy.default(x, device=HOST.device),
        "crosses to or from the host",
    ),
    "allocates on the host": (
        lambda x: (torch.zeros(3, device="cpu"), x)[1],
        "allocates on the host",
    ),
    "computes on the host": (lambda x: (HOST + 1, x)[1], "allocates on the host"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_graph_cannot_hold_names_the_line(name: str) -> None:
    function, words = FAULTS[name]
    with fake_cuda():
        x = torch.ones(3)
        with (
            Watch(),
            pytest.raises(CaptureError, match=rf"{words}.*test_capture.py:\d+: ") as error,
        ):
            function(x)
    line = function.__code__.co_firstlineno  # type: ignore[attr-defined]
    assert f"test_capture.py:{line}: " in str(error.value) and "lambda x" in str(error.value)


def test_work_on_the_device_passes_and_is_recorded() -> None:
    before = Graph.replays
    with fake_cuda() as device:
        with Watch():
            torch.ones(3) * torch.tensor(2.0, device="cpu")
        net = nn.Linear(3, 2)
        captured = CapturedRunner(ModuleRunner(net, (torch.ones(4, 3),), None), device)
        captured.run()
    assert Graph.replays == before + 2 and captured.nbytes == 4 * 3 * 4 + 4 * 2 * 4


class Adds(nn.Module):
    def forward(self, x: Tensor, total: Tensor, extra: None) -> tuple[Tensor, Tensor]:
        return x, total + x


def test_the_inputs_have_their_values_after_the_recording() -> None:
    given = torch.ones(2), torch.full((2,), 5.0), None
    runner = ModuleRunner(Adds(), given, (1, 1))
    with mock.patch("puffervec.wings.plan.capture.Recorded") as recorded:
        recorded.return_value.play = runner.run
        captured = CapturedRunner(runner, torch.device("cpu"), watch=False)
    x, total, extra = captured.inputs
    assert x is not None and total is not None and extra is None
    assert torch.equal(x, given[0]) and torch.equal(total, given[1])
    captured.run()
    assert total.tolist() == [6.0] * 2


class Reads(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * len(aten.nonzero.default(x))


@pytest.mark.parametrize("watch", [False, True])
def test_the_first_run_is_watched_if_any(watch: bool) -> None:
    """torch.compile reads in its first run; what reads in later ones fails in the recording."""
    runs: list[bool] = []

    def play() -> None:
        runs.append(isinstance(_get_current_dispatch_mode(), Watch))

    runner = ModuleRunner(nn.Identity(), (torch.ones(2),), None)
    with mock.patch("puffervec.wings.plan.capture.Recorded") as recorded:
        recorded.return_value.play = play
        CapturedRunner(runner, torch.device("cpu"), watch)
    assert runs == [watch] + [False] * WARM_UPS


def test_a_module_that_reads_is_refused() -> None:
    with fake_cuda() as device:
        x = torch.ones(3)
        runner = ModuleRunner(nn.Identity(), (x,), None)
        runner._call = Reads()
        with pytest.raises(CaptureError, match=r"nonzero reads a number back.*: return x \* len"):
            CapturedRunner(runner, device)


@pytest.mark.gpu
@pytest.mark.parametrize("module", [Reads()])
def test_a_real_capture_names_the_line_too(module: nn.Module) -> None:
    with pytest.raises(CaptureError, match="reads a number back"):
        plan.compile_policy(module, torch.ones(3, device="cuda"), "cudagraph")
