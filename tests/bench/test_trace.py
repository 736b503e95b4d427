# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Timelines: recorded spans follow from each other, the Perfetto file is valid, the picture is drawn."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from bench import common, trace
from bench.modes import PolicyChoice
from bench.trace import Span, Timeline
from bench.workloads import Workload, draw_actions

TURNS = 12
PROBE = Workload("probe", "probe", {"work": 2000}, num_envs=8)


def _record(workers: int, buffers: int, split: str) -> Timeline:
    with PROBE.make("multiprocessing", num_workers=workers, num_buffers=buffers, split=split) as vec:
        policy = PolicyChoice("wait", half_s=2e-4).build(vec, draw_actions(vec.spec, 8))
        return trace.record(vec, policy, TURNS, 4, "a title")


@pytest.fixture(scope="module", params=[(2, 1, "workers"), (4, 2, "workers"), (2, 2, "envs")], ids=str)
def timeline(request: pytest.FixtureRequest) -> Timeline:
    return _record(*request.param)


def _by_track(spans: list[Span]) -> dict[str, list[Span]]:
    tracks = defaultdict(list)
    for span in spans:
        tracks[span.track].append(span)
    return tracks


def test_no_track_does_two_things_at_once(timeline: Timeline) -> None:
    tracks = _by_track(timeline.spans)
    assert set(tracks) == set(timeline.tracks)
    for name, spans in tracks.items():
        spans.sort(key=lambda span: span.begin_ns)
        assert all(span.begin_ns <= span.end_ns for span in spans), name
        assert all(a.end_ns <= b.begin_ns for a, b in zip(spans, spans[1:], strict=False)), name


def test_workers_begin_after_send_and_end_before_recv(timeline: Timeline) -> None:
    """For each half: send, then its workers simulate, then recv, then the policy, on one clock."""
    for half in range(timeline.buffers):
        mine = [span for span in timeline.spans if span.half == half]
        sends = [span for span in mine if span.name.startswith("send")]
        recvs = [span for span in mine if span.name.startswith("recv")]
        policies = [span for span in mine if span.track == "policy"]
        work = [span for span in mine if span.track.startswith("worker")]
        assert len(sends) == len(recvs) == len(policies) == TURNS // timeline.buffers
        assert all(p.begin_ns >= r.end_ns and s.begin_ns >= p.end_ns for r, p, s in zip(recvs, policies, sends, strict=True))
        for sent, received in zip(sends, recvs[1:], strict=False):
            between = [span for span in work if sent.begin_ns <= span.begin_ns and span.end_ns <= received.end_ns]
            assert len(between) == len({span.track for span in between}) == len({span.track for span in work})


def _events(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event["ph"] == kind]


def test_the_perfetto_file_says_the_same(timeline: Timeline, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    common.write_json(path, trace.trace_events([timeline, timeline]))
    document = json.loads(path.read_text())
    complete = _events(document, "X")
    assert {event["pid"] for event in complete} == {1, 2}
    assert len(complete) == 2 * len(timeline.spans)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in _events(document, "M") if e["name"] == "thread_name"}
    assert len(names) == 2 * len(timeline.tracks)
    assert min(event["ts"] for event in complete) == 0.0
    for lane, name in names.items():
        mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in complete if (e["pid"], e["tid"]) == lane)
        assert len(mine) == len([span for span in timeline.spans if span.track == name])
        assert all(end <= begin + 1e-3 for (_, end), (begin, _) in zip(mine, mine[1:], strict=False)), name
    assert {event["args"]["half"] for event in complete} == ({"all"} if timeline.buffers == 1 else {"A", "B"})


def test_the_picture_is_a_png_of_a_sensible_size(timeline: Timeline, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "folder" / "t.png"
    trace.draw([timeline, timeline], path, "a caption")
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    assert width == 1600 and 300 < height < 2000
