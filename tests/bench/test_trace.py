# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Timelines: recorded spans follow from each other."""

from __future__ import annotations

from collections import defaultdict

import pytest

from bench import trace
from bench.modes import PolicyChoice
from bench.trace import Span, Timeline
from bench.workloads import Workload, draw_actions

TURNS = 12
PROBE = Workload("probe", "probe", {"work": 2000}, num_envs=8)


def _record(workers: int, buffers: int, split: str) -> Timeline:
    with PROBE.make(
        "multiprocessing", num_workers=workers, num_buffers=buffers, split=split
    ) as vec:
        policy = PolicyChoice("wait", half_s=2e-4).build(vec, draw_actions(vec.spec, 8))
        return trace.record(vec, policy, TURNS, 4, "a title")


@pytest.fixture(
    scope="module", params=[(2, 1, "workers"), (4, 2, "workers"), (2, 2, "envs")], ids=str
)
def timeline(request: pytest.FixtureRequest) -> Timeline:
    return _record(*request.param)


def _by_track(spans: list[Span]) -> dict[str, list[Span]]:
    tracks = defaultdict(list)
    for span in spans:
        tracks[span.track].append(span)
    return tracks


@pytest.mark.slow
def test_no_track_does_two_things_at_once(timeline: Timeline) -> None:
    tracks = _by_track(timeline.spans)
    assert set(tracks) == {"learner", *timeline.lanes}
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
        assert all(
            p.begin_ns >= r.end_ns and s.begin_ns >= p.end_ns
            for r, p, s in zip(recvs, policies, sends, strict=True)
        )
        for sent, received in zip(sends, recvs[1:], strict=False):
            between = [
                span
                for span in work
                if sent.begin_ns <= span.begin_ns and span.end_ns <= received.end_ns
            ]
            assert (
                len(between)
                == len({span.track for span in between})
                == len({span.track for span in work})
            )
