# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The detector of synchronisation (puffervec/train/device/syncs.py, and
puffervec/wings/profile/fake.py for fake CUDA tensors) finds what waits, and names its line.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from puffervec.train.device.syncs import Syncs, cuda_syncs, find_syncs
from puffervec.wings.profile.fake import ProofError, fake_cuda, prove_no_syncs

X = torch.arange(4.0)
ANYWHERE: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "a number": (lambda x: x.sum().item(), "aten::_local_scalar_dense"),
    "float()": (lambda x: float(x.sum()), "aten::_local_scalar_dense"),
    "if": (lambda x: bool(x.any()), "aten::_local_scalar_dense"),
    "nonzero": (lambda x: x.nonzero(), "aten::nonzero"),
    "a mask": (lambda x: torch.ops.aten.index.Tensor(x, [x > 1]), "aten::index"),
    "masked_select": (lambda x: x.masked_select(x > 1), "aten::masked_select"),
    "unique": (lambda x: x.unique(), "aten::_unique2"),
    "unique rows": (lambda x: x.view(2, 2).unique(dim=0), "aten::unique_dim"),
    "repeats": (lambda x: x.repeat_interleave(x.long()), "aten::repeat_interleave"),
    "bincount": (lambda x: x.long().bincount(), "aten::bincount"),
    "equal": (lambda x: torch.equal(x, x + 0), "aten::equal"),
    "tolist": (lambda x: x.tolist(), "Tensor.tolist"),
    "numpy": (lambda x: x.numpy(), "Tensor.numpy"),
    "asarray": (np.asarray, "Tensor.__array__"),
    "cpu": (lambda x: x.cpu(), "Tensor.cpu"),
}
ON_CUDA: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "cpu": (lambda x: x.cpu(), "aten::_to_copy"),
    "to": (lambda x: x.to("cpu"), "aten::_to_copy"),
    "to, named": (
        lambda x: x.to(device=torch.device("cpu"), dtype=torch.float64),
        "aten::_to_copy",
    ),
    "to, without waiting": (lambda x: x.to("cpu", non_blocking=True), "aten::_to_copy"),
    "copy_ to the host": (lambda x: torch.zeros(4, device="cpu").copy_(x), "aten::copy_"),
    "copy_ to the slab": (lambda x: torch.from_numpy(np.zeros(4)).copy_(x), "aten::copy_"),
    "an item of the host": (
        lambda x: torch.zeros(4, device="cpu").__setitem__(0, x[0]),
        "aten::copy_",
    ),
    "copy_ of pageable memory": (lambda x: x.copy_(torch.zeros(4, device="cpu")), "aten::copy_"),
    "to the device": (lambda x: torch.zeros(4, device="cpu").to(x.device), "aten::_to_copy"),
    "a stream": (lambda x: torch.cuda.Stream().synchronize(), "synchronize"),  # type: ignore[no-untyped-call]
    "an event": (lambda x: torch.cuda.Event().synchronize(), "synchronize"),  # type: ignore[no-untyped-call]
    "the device": (lambda x: torch.cuda.synchronize(), "synchronize"),
}


@pytest.mark.parametrize("case", ANYWHERE)
def test_what_reads_is_found_on_a_cpu(case: str) -> None:
    read, op = ANYWHERE[case]
    with Syncs() as syncs:
        read(X)
    assert {found.op for found in syncs.found} == {op} and syncs.found[0].file == "test_syncs.py"


@pytest.mark.parametrize("case", ANYWHERE)
def test_what_reads_fails_or_is_found_on_fake_cuda(case: str) -> None:
    refused = False
    with fake_cuda(), Syncs() as syncs:
        x = torch.zeros(4)
        try:
            ANYWHERE[case][0](x)
        except (RuntimeError, TypeError):  # There are no numbers to be given.
            refused = True
    assert refused or syncs.found


def test_only_the_copy_that_is_meant_is_let_pass() -> None:
    def _copy_out(x: Tensor, free: bool) -> None:
        torch.zeros(4, device="cpu").copy_(x, non_blocking=free)

    meant = [("copy to the host", "test_syncs.py", "_copy_out")]
    with fake_cuda():
        x = torch.zeros(4)
        with Syncs(meant) as syncs:
            _copy_out(x, True)
        assert syncs.found == [] and [one[:3] for one in syncs.allowed] == meant
        with Syncs(meant) as syncs:
            _copy_out(x, False)
        assert [one.op for one in syncs.found] == ["aten::copy_"], "it waits"
        with Syncs([("copy to the host", "test_syncs.py", "_elsewhere")]) as syncs:
            _copy_out(x, True)
        assert [one.op for one in syncs.found] == ["copy to the host"], "from elsewhere"


def reads(x: Tensor, times: int) -> Tensor:
    for _ in range(times):
        x = x + float(x.sum())  # the line that is looked for
    return x


def test_the_line_that_reads_is_named() -> None:
    report = find_syncs(lambda: reads(X, 3))
    assert len(report.found) == 3 and len(set(report.found)) == 1
    sync = report.found[0]
    assert (sync.file, sync.function) == ("test_syncs.py", "reads") and sync.path == __file__
    assert sync.line.endswith("# the line that is looked for")
    assert f"3 x aten::_local_scalar_dense  test_syncs.py:{sync.number} in reads" in str(report)
    assert report.as_json()["count"] == 3 and len(report.as_json()["places"]) == 1


def test_operations_are_counted_without_views() -> None:
    with Syncs() as syncs:
        (X.view(2, 2).t() * 2).sum()
    assert syncs.operations == 2 and syncs.copies_out == 0


def test_fake_cuda_proves_that_nothing_waits() -> None:
    report = prove_no_syncs(lambda: functools.partial(reads, torch.zeros(4), 0))
    assert report.found == () and report.ended and "no synchronisation" in str(report)
    report = prove_no_syncs(lambda: functools.partial(reads, torch.zeros(4), 3))
    assert [sync.function for sync in report.found] == ["reads"] and not report.ended


def zeroed(x: Tensor) -> None:
    x[x > 0] = 0.0


def filled(x: Tensor, value: Tensor) -> None:
    x[x > 0] = value


USUAL: dict[str, tuple[Callable[[], Callable[[], object]], list[str]]] = {
    "attention": (lambda: functools.partial(nn.TransformerEncoderLayer(8, 2, batch_first=True),
                                            torch.zeros(2, 3, 8)), []),
    "lstm": (lambda: functools.partial(nn.LSTM(4, 4), torch.zeros(2, 3, 4)), []),
    "gru": (lambda: functools.partial(nn.GRU(4, 4), torch.zeros(2, 3, 4)), []),
    "convolution": (lambda: functools.partial(nn.Conv2d(3, 4, 3), torch.zeros(2, 3, 8, 8)), []),
    "distribution": (
        lambda: lambda: Categorical(logits=torch.zeros(4, 3), validate_args=False).sample(), []
    ),
    "distribution, checked": (
        # Torch.compile turns the default off
        lambda: lambda: Categorical(logits=torch.zeros(4, 3), validate_args=True),
        ["aten::_local_scalar_dense"],
    ),
    "gradients": (lambda: functools.partial(torch.enable_grad()(nn.Linear(4, 4).forward),
                                            torch.zeros(2, 4)), []),
    "cuda()": (lambda: torch.zeros(4, device="cpu").cuda, ["aten::_to_copy"]),
    "a new number": (lambda: lambda: torch.tensor(1.0, device="cuda"), ["aten::_to_copy"]),
    "as_tensor": (lambda: lambda: torch.as_tensor(np.zeros(4), device="cuda"), ["aten::_to_copy"]),
    "a number where a mask says": (lambda: functools.partial(zeroed, torch.zeros(4)), []),
    "a list as index": (lambda: lambda: torch.zeros(4)[[0, 1]], ["aten::_to_copy"]),
}  # fmt: skip


def test_a_number_goes_where_a_mask_says_without_a_wait() -> None:
    """Unlike numbers of the device, of which the mask says how many."""
    assert find_syncs(lambda: zeroed(torch.ones(4))).found == ()
    assert [
        sync.op for sync in find_syncs(lambda: filled(torch.ones(4), torch.tensor(1.0))).found
    ] == ["aten::index_put_"]
    proof = prove_no_syncs(lambda: functools.partial(filled, torch.zeros(4), torch.zeros(())))
    assert [sync.op for sync in proof.found] == ["aten::index_put_"]


@pytest.mark.parametrize("case", USUAL)
def test_what_policies_usually_do_runs_on_fake_cuda(case: str) -> None:
    make, ops = USUAL[case]
    assert [sync.op for sync in prove_no_syncs(make).found] == ops


@pytest.mark.parametrize("move", ["to(device)", "to(name, dtype)", "cuda()", "outside"])
def test_a_module_may_be_moved_to_the_fake_device(move: str) -> None:
    outside = nn.Sequential(nn.Linear(4, 4), nn.LSTM(4, 4))
    before = [*outside.parameters()]

    def make() -> Callable[[], object]:
        net = (
            outside
            if move == "outside"
            else nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
        )
        dtype = torch.bfloat16 if "dtype" in move else torch.float32
        moved = (
            net.cuda()
            if move == "cuda()"
            else net.to("cuda", dtype)
            if "dtype" in move
            else net.to(torch.device("cuda"))
        )
        assert moved is net and {x.device.type for x in net.state_dict().values()} == {"cuda"}
        return functools.partial(net, torch.zeros(2, 4, dtype=dtype))

    report = prove_no_syncs(make)
    assert report.found == () and report.ended
    assert all(now is then for now, then in zip(outside.parameters(), before, strict=True))
    assert before[0].device.type == "cpu"


def test_what_fails_for_another_reason_is_no_synchronisation() -> None:
    def after_a_copy() -> None:
        torch.zeros(2, 3).cpu()
        torch.mm(torch.zeros(2, 3), torch.zeros(2, 3))

    report = prove_no_syncs(lambda: after_a_copy)
    assert not report.ended and "where the work ended: " in str(report) and " dim" in report.note
    with pytest.raises(ProofError, match="no proof: .* dim"):
        prove_no_syncs(lambda: functools.partial(torch.mm, torch.zeros(2, 3), torch.zeros(2, 3)))


def test_the_debug_mode_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for the GPU's part: torch raises this warning where an operation waits."""
    modes: list[object] = []
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def wait() -> None:
        warnings.warn("called a synchronizing CUDA operation (Triggered internally)", stacklevel=1)
        warnings.warn("something else", stacklevel=1)

    report = cuda_syncs(wait)
    assert [(sync.file, sync.function) for sync in report.found] == [
        ("test_syncs.py", "wait")
    ] and modes == ["warn", 0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_the_debug_mode_on_a_gpu() -> None:
    x = X.to("cuda")
    assert len(cuda_syncs(lambda: reads(x, 3)).found) == 3
    assert cuda_syncs(lambda: reads(x, 0)).found == ()
