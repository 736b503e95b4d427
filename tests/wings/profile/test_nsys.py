# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Nsight Systems (puffervec/wings/profile/nsys.py): what `nsys stats --format csv` writes is read,
and what to run said.

The files are made here: 5 inferences of 11 graph launches and 11 waits each, as a loop over a
tensor has with 10 steps.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import torch

from puffervec.errors import ConfigError
from puffervec.wings.profile import nsys

API = """\
Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
93.0,93000000,55,1690909.1,1690000.0,1600000,1800000,1000.0,cudaStreamSynchronize
4.0,4000000,55,72727.3,72000.0,70000,80000,100.0,cudaGraphLaunch_v10000
2.0,2000000,60,33333.3,33000.0,30000,40000,100.0,cudaMemcpyAsync_v3020
"""
KERNELS = """\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,60000000,550,109090.9,109000.0,100000,120000,10.0,"void gemm<float, 128>(float const*, int)"
40.0,40000000,1100,36363.6,36000.0,30000,40000,10.0,elementwise
"""
MEMORY = """\
Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation
80.0,80000,55,1454.5,1450.0,1400,1500,10.0,[CUDA memcpy Device-to-Host]
20.0,20000,5,4000.0,4000.0,4000,4000,0.0,[CUDA memcpy Host-to-Device]
"""
NVTX = """\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range
100.0,3650000,5,730000.0,730000.0,700000,760000,100.0,PushPop,:inference
"""
ALL = {"api": API, "kernels": KERNELS, "memory": MEMORY, "nvtx": NVTX}


def written(folder: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    return [str(folder / f"{name}.csv") for name in texts]


def test_summaries_give_counts_per_inference(tmp_path: Path) -> None:
    trace = nsys.read_csv(written(tmp_path, **ALL))
    assert trace.inferences == 5
    assert trace.per_inference() == {"launches": 11, "copies": 11, "synchronisations": 11}
    text = str(trace)
    assert (
        "11 launches" in text
        and "11 copies from the device to the host" in text
        and "11 synchronisations" in text
    )
    assert "3.650 ms, the kernels 100.000 ms" in text, "the ranges show enqueue time only"


def test_all_summaries_may_stand_in_one_file_with_messages_between(tmp_path: Path) -> None:
    """As `nsys stats` prints them; numbers may have separators of thousands."""
    words = "Generating SQLite file report.sqlite from report.nsys-rep\n"
    words += "".join(
        f"Processing [report.sqlite] with [reports/{name}_sum.py]...\n{text}\n"
        for name, text in ALL.items()
    )
    trace = nsys.read_csv(written(tmp_path, all=words.replace("93000000,55", '"93,000,000",55')))
    assert trace.per_inference()["launches"] == 11 and trace.summaries["API"][0].total_ms == 93.0
    assert [row.times for row in trace.summaries["kernels"]] == [550, 1100]


def test_without_an_nvtx_summary_the_number_has_to_be_said(tmp_path: Path) -> None:
    files = written(tmp_path, api=API)
    assert nsys.read_csv(files, inferences=11).per_inference() == {
        "launches": 5,
        "synchronisations": 5,
    }
    with pytest.raises(ConfigError, match="number of inferences is not known"):
        str(nsys.read_csv(files))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b\n1,2\n",
        API.replace("93000000", "many"),
        "\xff\xfe",
        API.replace("Total Time (ns)", "Time"),
        API.replace("55", "9" * 4000),
        API.replace("55", "9" * 5000),
        API.replace("55", "-1"),
        API.replace("93000000", "nan"),
        API.replace("93000000", "9e999"),
    ],
)
def test_wrong_files_are_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match="wrong.csv is not a CSV file of nsys stats: ") as refused:
        nsys.read_csv([tmp_path / "wrong.csv"])
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 500


def test_many_rows_are_collected_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not copied for each further row, which takes minutes for a file of 2 MB."""
    copied: list[int] = []

    def counted(items: list[nsys.Row]) -> tuple[nsys.Row, ...]:
        copied.append(len(items))
        return tuple(items)

    monkeypatch.setattr(nsys, "tuple", counted, raising=False)
    text = API + "1.0,1,1,1,1,1,1,1,call\n" * 2000
    (tmp_path / "long.csv").write_text(text)
    assert len(nsys.read_csv([tmp_path / "long.csv"], inferences=1).summaries["API"]) == 2003
    assert sum(copied) == 2003


def test_files_that_are_not_there_or_given_twice(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none.csv: No such file"):
        nsys.read_csv([tmp_path / "none.csv"])
    with pytest.raises(ConfigError, match="a second summary of API"):
        nsys.read_csv(written(tmp_path, api=API, again=API))


def test_the_commands_fit_together() -> None:
    record, stats, read = map(
        shlex.split, nsys.command_lines(["puffer-train", "profile", "my env:f", "--nvtx"])
    )
    assert record[:2] == ["nsys", "profile"] and record[-4:] == [
        "puffer-train",
        "profile",
        "my env:f",
        "--nvtx",
    ]
    assert {
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        f"--output={nsys.REPORT}",
    } <= set(record)
    assert stats[:2] == ["nsys", "stats"] and stats[-1] == f"{nsys.REPORT}.nsys-rep"
    assert [name.removeprefix(f"{nsys.REPORT}_") for name in read[3:]] == [
        f"{name}.csv" for name in nsys.SUMMARIES
    ]


def test_ranges_and_the_window_call_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Runtime:
        def cudaProfilerStart(self) -> None:
            said.append("start")

        def cudaProfilerStop(self) -> None:
            said.append("stop")

    class Event:
        def record(self) -> None:
            said.append("event")

        def query(self) -> bool:
            return said.append("look") or said.count("look") > 1  # type: ignore[func-returns-value]

    with nsys.window(), nsys.nvtx_range("nobody listens"):
        pass
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: said.append("wait"))
    monkeypatch.setattr(torch.cuda, "cudart", Runtime)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", said.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: said.append("end"))
    with nsys.window(), nsys.nvtx_range("inference"):
        said.append("work")
    assert said == ["wait", "start", "inference", "work", "end", "event", "look", "look", "stop"], (
        "no wait within the window"
    )
