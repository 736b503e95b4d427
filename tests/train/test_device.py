# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest
import torch

from puffervec.errors import ConfigError, PuffervecError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.device import device as dev


def test_names() -> None:
    assert dev.choose_device("cpu") == torch.device("cpu")
    assert dev.choose_device("auto").type in ("cpu", "cuda")
    for name in ("abacus", "mps", "", "cuda:999"):
        with pytest.raises(ConfigError, match="train.device"):
            dev.choose_device(name)


def test_precision() -> None:
    cpu = torch.device("cpu")
    assert dev.use_bf16("bf16", cpu) and not dev.use_bf16("fp32", cpu)
    assert dev.use_bf16("auto", cpu) == dev.cpu_has_bf16()


def test_bf16_needs_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, expected in (
        ("sse avx512f", False),
        ("avx512f avx512_bf16", True),
        ("amx_bf16 amx_tile", True),
        ("asimd bf16 i8mm", True),
    ):
        monkeypatch.setattr(
            dev.Path, "read_text", lambda *a, flags=flags, **k: f"flags : {flags}\n"
        )
        assert dev.cpu_has_bf16() == expected


@pytest.mark.parametrize("count", [1, 3])
def test_team_keeps_the_order(count: int) -> None:
    pool = dev.ThreadPool(count)
    names: set[str] = set()

    def work(item: int) -> int:
        names.add(threading.current_thread().name)
        return item * item

    assert pool.map(work, range(50)) == [i * i for i in range(50)]
    assert pool.map(work, []) == []
    pool.close()
    assert (threading.main_thread().name in names) == (count == 1)


def test_team_threads_use_one_torch_thread() -> None:
    before = torch.get_num_threads()
    pool = dev.ThreadPool(2)
    assert set(pool.map(lambda _: torch.get_num_threads(), range(8))) == {1}
    pool.close()
    assert torch.get_num_threads() == before


def test_team_raises_what_its_work_raised() -> None:
    pool = dev.ThreadPool(2)
    with pytest.raises(ZeroDivisionError):
        pool.map(lambda i: 1 // i, [1, 0, 2])
    assert pool.map(lambda i: i, [4, 5]) == [4, 5]
    pool.close()


@pytest.mark.parametrize("backend", ["serial", "threading"])
def test_threads_of_a_run(small: Callable[..., TrainConfig], backend: str) -> None:
    """Kernels have one thread each all the time; pieces are worked off by two threads at once; envs
    rest in the update.
    """
    torch.set_num_threads(2)
    config = small(
        vec={"backend": backend, "num_envs": 512, "num_buffers": 1},
        train={
            "threads": 2,
            "horizon": 2,
            "minibatch_size": 1024,
            "microbatch_size": 512,
            "update_epochs": 1,
        },
    )
    both = threading.Barrier(
        2, timeout=60.0
    )  # Two pieces in each turn and in the minibatch: one thread alone would be stuck.
    seen: set[tuple[str, int]] = set()

    def look(*arguments: object) -> None:
        both.wait()
        seen.add((threading.current_thread().name.rpartition("_")[0], torch.get_num_threads()))

    with Trainer(config) as trainer:
        trainer.policies["default"].register_forward_hook(look)
        for act in (trainer.collect, trainer.update):
            act()
            assert seen == {("puffervec-pool", 1)} and torch.get_num_threads() == 2
            seen.clear()
            with pytest.raises(PuffervecError, match="send"):  # No turn is under way.
                trainer.vec.recv()


def test_a_gpu_becomes_the_one_that_is_meant_where_none_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "set_device", made.append)
    for name in ("cpu", "cuda", "cuda:1"):
        dev.make_current(torch.device(name))
    assert made == [torch.device("cuda:1")]


def test_deterministic_kernels_are_asked_for_on_cuda_and_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(torch, "use_deterministic_algorithms", asked.append)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    with dev.deterministic_kernels(torch.device("cpu")):
        assert asked == [] and "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    with pytest.raises(PuffervecError), dev.deterministic_kernels(torch.device("cuda")):
        assert asked == [True] and os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        raise PuffervecError
    assert asked == [True, False]
