# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import cProfile
import json
import math
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puffervec.train.metrics.log import JsonLog, read_metrics
from puffervec.viewing.web.follow import MOST_KEYS, Follower


def line(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "elapsed_s": step / 10, **more}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_it_takes_what_has_come_since(path: Path) -> None:
    follower = Follower(path)
    follower.poll()
    assert (follower.keys, follower.error, follower.age_s) == ([], "", None)
    log = JsonLog(path, {"env": "probe", "config": {"train": {"seed": 3}}})
    follower.poll()
    assert (follower.env, follower.config) == ("probe", {"train": {"seed": 3}})
    for step in range(5):
        before = follower.version
        log.write(line(step, a=step**2) | ({"late": 1.5} if step == 4 else {}))
        follower.poll()
        assert follower.version > before
        assert follower.column("a").tolist() == [n**2 for n in range(step + 1)]
        assert follower.age_s is not None and follower.age_s < 60
    version = follower.version
    follower.poll()
    assert follower.version == version
    for ago, least, most in ((100.0, 100.0, 130.0), (-100.0, 0.0, 0.1)):  # A clock may run behind.
        written = time.time() - ago
        os.utime(path, (written, written))
        follower.poll()
        assert follower.age_s is not None and least <= follower.age_s < most
    assert follower.keys == ["step", "elapsed_s", "a", "late"]
    assert follower.last("late") == 1.5 and follower.last("nothing") is None
    assert follower.curves(["late", "a", "nothing"]) == {
        "step": [0, 1, 2, 3, 4],
        "elapsed_s": [0, 0.1, 0.2, 0.3, 0.4],
        "keys": {"late": [None, None, None, None, 1.5], "a": [0, 1, 4, 9, 16]},
        "lines": 5,
    }
    log.close()


def test_a_torn_last_line_is_waited_for(path: Path) -> None:
    text = "".join(
        json.dumps(one) + "\n" for one in ({"schema_version": 1}, line(1, a=2.5), line(2, a=7.25))
    )
    follower = Follower(path)
    for at in range(len(text)):  # Every place where a line can be torn.
        append(path, text[at])
        follower.poll()
        assert (
            follower.column("a").tolist() == [2.5, 7.25][: max(0, text[: at + 1].count("\n") - 1)]
        )


def test_lost_work_is_left_out_as_read_metrics_leaves_it_out(path: Path) -> None:
    log, follower = JsonLog(path, {"env": "probe"}), Follower(path)
    for step in (1, 2, 3):
        log.write(line(step, a=step))
    follower.poll()
    log.mark("resumed", step=2, update=1, elapsed_s=0.2)
    log.write(line(3, a=-3))
    log.mark("other")
    follower.poll()
    expected = [one["a"] for one in read_metrics(path)]
    assert expected == [1, 2, -3] == follower.column("a").tolist()
    log.close()


def test_a_file_that_is_replaced_or_cut_or_gone_begins_anew(path: Path, tmp_path: Path) -> None:
    follower = Follower(path)
    for content in ([1, 2, 3], [5], [6, 7]):
        other = tmp_path / "other"
        other.write_text(
            "".join(
                json.dumps(one) + "\n"
                for one in [{"schema_version": 1}, *(line(n, a=n) for n in content)]
            )
        )
        os.replace(other, path)
        follower.poll()
        assert follower.column("a").tolist() == content
    path.write_text(json.dumps({"schema_version": 1}) + "\n")
    follower.poll()
    assert follower.column("a").tolist() == []
    path.unlink()
    version = follower.version
    follower.poll()
    assert follower.version > version and follower.age_s is None


def test_what_is_none_of_ours_is_told_of(path: Path, tmp_path: Path) -> None:
    path.write_text('{"schema_version": 99}\n{"step": 1}\n')
    follower = Follower(path)
    follower.poll()
    assert "schema_version 99: must be 1" in follower.error and follower.keys == []
    path.unlink()
    secret = tmp_path / "secret"
    secret.write_text('{"schema_version": 1}\n{"step": 1, "a": 5}\n')
    path.symlink_to(secret)
    follower.poll()
    assert "links are not followed" in follower.error and follower.keys == []


def test_odd_lines_are_left_out(path: Path) -> None:
    odd = [
        "[1]",
        "{",
        '{"step": true, "a": "text", "b": {"c": 1}}',
        "9" * 100,
        '{"a": 1e999, "step": 4, "elapsed_s": 1}',
        "\xff" * 5,
    ]
    path.write_text(
        "\n".join(['{"schema_version": 1}', *odd, '{"step": 5, "elapsed_s": 2, "a": 7}', ""]),
        errors="replace",
    )
    follower = Follower(path)
    follower.poll()
    assert follower.curves(["a", "b"])["keys"] == {"a": [None, 7]}


def test_long_runs_are_thinned_to_means(path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000)
    values[300:310] = values[400:409] = values[999] = math.nan
    lines = [line(n, a=None if math.isnan(value) else value) for n, value in enumerate(values)]
    path.write_text("".join(json.dumps(one) + "\n" for one in [{"schema_version": 1}, *lines]))
    follower = Follower(path)
    follower.poll()
    found = follower.curves(["a"], most=100)
    parts = values.reshape(100, 10)
    expected = [None if np.isnan(part).all() else float(np.nanmean(part)) for part in parts]
    assert found["step"] == [10 * n + 4.5 for n in range(100)] and found["lines"] == 1000
    assert len(follower.curves([])["step"]) == 600 and follower.last("a") == values[998]
    assert found["keys"]["a"] == [
        None if one is None else pytest.approx(one, rel=1e-6) for one in expected
    ]


@pytest.mark.parametrize(("size", "taken"), [(2**20, True), (2**20 + 1, False)])
def test_a_line_that_is_not_finished_is_kept_up_to_a_mebibyte(
    path: Path, size: int, taken: bool
) -> None:
    """No line of a run is as long; what is longer must not fill the memory."""
    append(path, json.dumps({"schema_version": 1}) + "\n")
    begin = json.dumps(line(1, a=2.0))[:-1] + ', "odd": "'
    follower = Follower(path)
    append(path, begin + "x" * (size - len(begin)))
    follower.poll()
    append(path, '"}\n' + json.dumps(line(2, a=3.0)) + "\n")
    follower.poll()
    assert follower.column("a").tolist() == ([2.0] if taken else []) + [3.0]


def test_a_long_file_is_read_in_several_turns(path: Path) -> None:
    lines = [json.dumps(line(n)).ljust((1 << 20) - 1) + "\n" for n in range(16)]
    path.write_text(json.dumps({"schema_version": 1}) + "\n" + "".join(lines))
    follower = Follower(path)
    for count in (15, 16):  # 16 MiB, and the rest.
        follower.poll()
        assert follower.column("step").tolist() == list(range(count))


def test_whole_numbers_are_sent_as_they_are_and_others_with_seven_digits(path: Path) -> None:
    whole = [123_456_789_012.0, -98_765_432.0, 0.0]
    follower = Follower(path)
    lines = [line(n, whole=one, part=one + 1 / 3) for n, one in enumerate(whole)]
    path.write_text("".join(json.dumps(one) + "\n" for one in [{"schema_version": 1}, *lines]))
    follower.poll()
    found = follower.curves(["whole", "part"])["keys"]
    assert found["whole"] == whole and found["part"] == [
        123_456_800_000.0,
        -98_765_430.0,
        0.3333333,
    ]


def test_a_metric_of_its_own_on_each_line_takes_memory_as_the_file_does(path: Path) -> None:
    count = MOST_KEYS + 500
    lines = [line(n, **{f"env/{n}": 1.5}) for n in range(count)]
    path.write_text("".join(json.dumps(one) + "\n" for one in [{"schema_version": 1}, *lines]))
    follower = Follower(path)
    tracemalloc.start()
    follower.poll()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 * path.stat().st_size
    assert (
        len(follower.keys) == MOST_KEYS == 2000
        and f"more than {MOST_KEYS} metrics" in follower.remark
    )
    found = follower.curves(["env/7"], most=count)
    assert found["keys"]["env/7"] == [1.5 if n == 7 else None for n in range(count)]


def test_any_number_of_resumes_takes_one_pass(path: Path) -> None:
    rng = np.random.default_rng(2)
    text, step = [json.dumps({"schema_version": 1})], 0
    for number in range(2000):
        if rng.random() < 0.3:
            step = max(0, step - int(rng.integers(0, 5)))
            text.append(
                json.dumps(
                    {"event": "resumed", "step": step}
                    if rng.random() < 0.99
                    else {"event": "resumed"}
                )
            )
        else:
            step += 1
            text.append(json.dumps(line(step, number=number)))
    path.write_text("\n".join(text) + "\n")
    expected = list[dict[str, Any]]()
    for values in map(json.loads, text[1:]):
        if "event" in values:
            expected = [earlier for earlier in expected if earlier["step"] <= values.get("step", 0)]
        else:
            expected.append(values)
    follower = Follower(path)
    assert _calls(follower.poll) < 50 * len(text)
    assert follower.column("number").tolist() == [one["number"] for one in expected]
    assert _calls(lambda: list(read_metrics(path))) < 50 * len(text)
    assert list(read_metrics(path)) == expected


def _calls(work: Callable[[], object]) -> int:
    """Count the calls of functions, also of those in C, while something works."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())
