# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Times and lines (puffervec/wings/profile/timing.py, sweep.py), on a clock that only work moves,
and counts (puffervec/wings/profile/counts.py).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from puffervec.errors import ConfigError
from puffervec.wings.profile import counts
from puffervec.wings.profile.sweep import fit_line, sweep
from puffervec.wings.profile.timing import Meter, Timing, latencies, latency, numbers, stats


class FakeClock:
    """Seconds that pass only where somebody works."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def work(self, ms: float) -> None:
        self.now += ms / 1000


class Parts:
    """An object with methods that take a while, one within the other."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def outer(self) -> int:
        self.clock.work(3)
        return self.inner()

    def inner(self) -> int:
        self.clock.work(5)
        return 7


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_statistics_are_those_of_numpy() -> None:
    samples = [5.0, 1.0, 4.0, 2.0, 3.0]
    found = stats(samples)
    assert (found["mean"], found["p50"], found["min"], found["max"]) == (3.0, 3.0, 1.0, 5.0)
    assert [found[f"p{q}"] for q in (90, 95, 99)] == [
        pytest.approx(float(np.percentile(samples, q))) for q in (90, 95, 99)
    ]


def test_only_the_calls_after_the_warm_up_count(clock: FakeClock) -> None:
    times = iter([50.0, 50.0, 1.0, 2.0, 3.0])
    found = latency(
        lambda: clock.work(next(times)), iterations=3, warmup=2, counts=False, now=clock
    )
    assert found.wall == pytest.approx((1.0, 2.0, 3.0)) and found.median == pytest.approx(2.0)
    assert found.device is None and list(found.stats()) == ["wall"], "a CPU has no clock of its own"
    header, row = str(found).splitlines()
    assert header.split() == ["ms", "clock", "mean", "p50", "p90", "p95", "p99", "min", "max"]
    assert row.split()[:4] == ["call", "wall", "2.000", "2.000"]


def test_works_are_timed_in_turn_from_the_same_noise() -> None:
    state, order, drawn = torch.get_rng_state(), [], []

    def work(name: str) -> Tensor:
        order.append(name)
        drawn.append(torch.rand(3))
        return drawn[-1]

    found = latencies(
        {"a": lambda: work("a"), "b": lambda: work("b")},
        iterations=2,
        warmup=1,
        seed=5,
        counts=False,
    )
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert all(torch.equal(noise, drawn[0]) for noise in drawn)
    assert found[0].actions == found[1].actions == pytest.approx(drawn[0].tolist())
    assert torch.equal(torch.get_rng_state(), state), (
        "the caller's noise goes on as if nothing had been"
    )


def test_marks_and_the_window_are_round_calls_that_nobody_times() -> None:
    """A clock would wait for the device, and its waits would be counted as the work's."""
    seen: list[str] = []

    @contextmanager
    def around(name: str = "window") -> Iterator[None]:
        seen.append(f"{name} begins")
        yield
        seen.append(f"{name} ends")

    latency(
        lambda: seen.append("work"),
        iterations=1,
        warmup=1,
        counts=False,
        marks=around,
        window=around,
    )
    assert seen == [
        "work",
        "work",
        "window begins",
        "inference begins",
        "work",
        "inference ends",
        "window ends",
    ]


@pytest.mark.parametrize(("iterations", "warmup"), [(0, 1), (1, -1)])
def test_no_iterations_are_refused(iterations: int, warmup: int) -> None:
    with pytest.raises(ConfigError, match="at least 1 and 0"):
        latency(lambda: None, Timing(iterations, warmup))


def test_numbers_of_what_is_returned() -> None:
    nested = {
        "a": torch.tensor([1, 2], dtype=torch.int32),
        "b": (np.array([[0.5]]), 3.0),
        "c": "text",
        "d": torch.tensor(True),
    }
    assert numbers(nested) == (1.0, 2.0, 0.5, 3.0, 1.0)
    assert numbers(torch.ones(2, dtype=torch.bfloat16)) == (1.0, 1.0)
    assert numbers(None) is None and numbers(torch.zeros(100_001)) is None


def test_operations_copies_and_waits_are_counted() -> None:
    def work() -> None:
        x = torch.ones(4)
        float((x * 2).sum())
        x.tolist()

    found = counts.count(work, torch.device("cpu"))
    assert found == counts.Counts(3, 2, 2, "operations")
    assert "3 operations, 2 copies to the host, 2 synchronisations" in str(found)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernel", "launches"), ("cuLaunchKernelEx", "launches"),
        ("cudaGraphLaunch_v10000", "launches"), ("cudaLaunchKernelExC_v11060", "launches"),
        ("cudaStreamSynchronize", "synchronisations"),
        ("cudaDeviceSynchronize", "synchronisations"),
        ("Memcpy DtoH (Device -> Pageable)", "copies"), ("[CUDA memcpy DtoH]", "copies"),
        ("[CUDA memcpy Device-to-Host]", "copies"), ("[CUDA memcpy HtoD]", None),
        ("Memcpy DtoD (Device -> Device)", None), ("cudaMemcpyAsync", None), ("cudaMalloc", None),
        ("aten::mm", None),
    ],
)  # fmt: skip
def test_names_of_cuda_are_told_apart(name: str, kind: str | None) -> None:
    assert counts.kind_of(name) == kind
    assert counts.total([(name, 3)]) == {other: 3.0 * (other == kind) for other in counts.KINDS}


def test_counts_on_a_gpu_are_those_of_the_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for torch.profiler, which waits for the device itself when it ends."""
    names: list[str] = []

    @contextmanager
    def recorded(activities: object, acc_events: bool) -> Iterator[object]:
        del names[:]
        yield SimpleNamespace(
            events=lambda: [
                SimpleNamespace(name=name) for name in [*names, "cudaDeviceSynchronize"]
            ]
        )

    monkeypatch.setattr(torch.profiler, "profile", recorded)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: names.append("cudaDeviceSynchronize"))
    call = [
        "cudaLaunchKernel",
        "aten::item",
        "cudaGraphLaunch",
        "Memcpy DtoH (Device -> Pageable)",
        "cudaStreamSynchronize",
    ]
    assert counts.count(lambda: names.extend(call), torch.device("cuda")) == counts.Counts(
        2, 1, 1, "CUDA"
    )


# ---- phases --------------------------------------------------------------------------------------


def test_a_meter_times_methods_and_gives_them_back(clock: FakeClock) -> None:
    parts = Parts(clock)
    with Meter(now=clock) as meter:
        meter.watch(parts, "outer")
        meter.watch(parts, "inner", "within")
        for _ in range(4):
            with meter.range("step"):
                assert parts.outer() == 7
                clock.work(2)
        parts.inner()
    found = {one.name: one for one in meter.latencies()}
    assert list(found) == ["within", "outer", "step"]
    assert found["outer"].wall == pytest.approx((3.0,) * 4), (
        "its own time, without what is timed within it"
    )
    assert found["within"].wall == pytest.approx((5.0,) * 5) and found[
        "step"
    ].wall == pytest.approx((2.0,) * 4)
    assert vars(parts) == {"clock": clock}
    assert str(meter).splitlines()[0].endswith("calls  share")


def test_a_method_of_the_object_itself_is_given_back(clock: FakeClock) -> None:
    parts = Parts(clock)
    own = parts.inner
    parts.inner = own  # type: ignore[method-assign]
    with Meter(now=clock) as meter:
        meter.watch(parts, "inner")
        assert parts.inner is not own
    assert parts.inner is own
    with pytest.raises(ConfigError, match="no method 'none'"):
        meter.watch(parts, "none")


def test_ranges_of_other_threads_are_no_iterations(clock: FakeClock) -> None:
    """As those of a rollout that is collected beside the update."""
    parts = Parts(clock)
    with Meter(now=clock) as meter:
        meter.watch(parts, "inner")
        with meter.range("step"):
            thread = threading.Thread(target=lambda: (parts.inner(), parts.inner()))
            thread.start()
            thread.join()
    assert {one.name: one.per_iteration for one in meter.latencies()} == {"inner": 2, "step": 1}


def test_a_range_that_fails_does_not_count(clock: FakeClock) -> None:
    meter = Meter(now=clock)
    with pytest.raises(ZeroDivisionError), meter.range("step"):
        clock.work(1 / 0)
    with meter.range("step"):
        clock.work(1)
    assert [one.wall for one in meter.latencies()] == [pytest.approx((1.0,))]


def test_a_clock_of_cuda_waits_and_asks_the_device(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-ins: the call returns after 1 ms, the device is done after 5."""
    said: list[str] = []
    capturing = False

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            said.append("record")

        def elapsed_time(self, end: Event) -> float:
            return 4.5

    def synchronize(device: torch.device) -> None:
        said.append("wait")
        clock.now = max(clock.now, done)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    done = 0.0
    with Meter("cuda", now=clock) as meter:
        with meter.range("work"):
            clock.work(1)
            done = clock.now + 0.004
        capturing = True
        with meter.range("captured"):
            clock.work(1)
    (found,) = meter.latencies()
    assert found.wall == pytest.approx((5.0,)) and found.device == (4.5,)
    assert said == ["wait", "record", "record", "wait"], (
        "nothing waits while a graph is being captured"
    )
    assert [row.split()[1] for row in str(found).splitlines()[1:]] == ["wall", "device"]


# ---- lines ---------------------------------------------------------------------------------------


def test_the_line_of_a_callable_that_is_known(clock: FakeClock) -> None:
    """T = 14 + 0.8 n ms, with noise of 3 %: a and b are found within 5 %."""
    noise = random.Random(0)
    found = sweep(
        lambda n: lambda: clock.work((14 + 0.8 * n) * noise.gauss(1, 0.03)),
        "num_steps", (1, 2, 4, 8, 16, 32), iterations=50, warmup=1, counts=False, now=clock,
    )  # fmt: skip
    assert found.fit.a == pytest.approx(14, rel=0.05) and found.fit.b == pytest.approx(
        0.8, rel=0.05
    )
    assert found.fit.r2 > 0.99
    table = str(found).splitlines()
    assert table[0].split()[0] == "num_steps" and len(table) == 8 and table[-1].startswith("  T = ")


def test_a_line_through_points() -> None:
    exact = fit_line([1, 2, 3], [3.0, 5.0, 7.0])
    assert (exact.a, exact.b, exact.r2) == pytest.approx((1.0, 2.0, 1.0))
    assert exact.residuals == pytest.approx((0, 0, 0), abs=1e-9)
    rough = fit_line([0, 1, 2], [0.0, 3.0, 0.0])
    assert (rough.a, rough.b, rough.r2) == pytest.approx((1.0, 0.0, 0.0), abs=1e-9)
    assert rough.residuals == pytest.approx((-1.0, 2.0, -1.0))
    assert fit_line([1, 2], [4.0, 4.0]).r2 == 1.0
    with pytest.raises(ConfigError, match="at least two different"):
        fit_line([2, 2], [1.0, 3.0])


@pytest.mark.parametrize("values", [(4,), (4, 4), (0, 1)])
def test_values_that_make_no_line_are_refused(values: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="at least two different whole numbers"):
        sweep(lambda n: lambda: None, "batch", values)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_wall_time_and_device_time_on_a_gpu() -> None:
    """The device takes about 20 ms for this; the call returns long before. Each has one launch or
    more, and one wait.
    """
    x = torch.randn(4096, 4096, device="cuda")

    def work() -> Tensor:
        y = x
        for _ in range(20):
            y = (y @ x) * 1e-2
        return y[0, 0]

    found = latency(work, iterations=10, warmup=3)
    assert found.device is not None and len(found.device) == 10
    assert found.counts is not None and found.counts.source == "CUDA"
    assert found.counts.launches >= 20 and found.counts.copies == 0
    for wall, device in zip(found.wall, found.device, strict=True):
        assert 0 < device <= wall * 1.05
    reading = latency(lambda: float(work()), iterations=3, warmup=1)
    assert (
        reading.counts is not None
        and reading.counts.copies == 1
        and reading.counts.synchronisations >= 1
    )
