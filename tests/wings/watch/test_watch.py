# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The page of `puffer-train watch` in a browser (static/watch.js, charts.js, tables.js), and
its command (puffervec/wings/watch/door.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from puffervec.errors import ConfigError
from puffervec.system.folder import Folder, NotPlainError
from puffervec.train.metrics import curves
from puffervec.train.metrics.log import JsonLog, read_metrics
from puffervec.wings.watch import door
from puffervec.wings.watch.page import read_below
from tests.fixtures.pages import Served
from tests.helpers import eventually
from tests.viewing.web.browser import Browser, Page

Serve = Callable[..., Served]
HOSTILE = '<img src=x onerror=alert(1)> & "quotes" \''


def opened(browser: Browser, served: Served, **look: object) -> Page:
    """The page once it has shown something; from then on it looks for news ten times a second."""
    page = browser.open(served.url, **look)  # type: ignore[arg-type]
    page.eval(
        "const later = window.setTimeout; window.setTimeout = (work, ms) => later(work, "
        "Math.min(ms, 100)); 0"
    )
    page.wait("document.getElementById('app').dataset.ready >= 1")
    return page


def last_of(page: Page, key: str) -> list[str]:
    """What stands under the chart of a metric: a number for each run."""
    return page.texts(f'[data-key="{key}"] li b')


def shortly(number: float) -> str:
    """A number as pages show it (static/charts.js)."""
    if number == int(number) or abs(number) >= 1e4:
        return f"{round(number):,}"
    return np.format_float_positional(float(f"{number:.4g}"), trim="-")


def asked_elsewhere(page: Page, served: Served) -> list[str]:
    return [url for url in page.requests if not url.startswith((served.url, "data:"))]


def test_the_page_shows_what_metrics_say(browser: Browser, serve: Serve, a_run: Path) -> None:
    served = serve("watch", "runs")
    page = opened(browser, served, width=1600, height=1000)
    lines = list(read_metrics(a_run / "metrics.jsonl"))
    row = page.texts('[data-run="0"] td')
    heads = page.texts(".runs th")
    assert row[:2] == ["first", "cartpole"] and row[heads.index("agent-steps")] == shortly(
        lines[-1]["step"]
    )
    assert (
        row[heads.index("return")] == shortly(lines[-1]["episode/return"]) and "score" not in heads
    )
    for key in (
        "episode/return",
        "episode/length",
        "losses/value",
        "losses/entropy",
        "charts/agent_steps_per_s",
    ):
        known = [line[key] for line in lines if line.get(key) is not None]
        assert last_of(page, key) == [shortly(known[-1])], key
    shares = page.text(".split")
    assert (
        "update" in shares
        and abs(sum(float(part.split()[1]) for part in shares.split(", ")) - 100) < 1
    )
    page.eval("document.querySelector('.choose').open = true")
    page.click('.chooser input[value="usage/learner_cores"]')
    page.wait("document.querySelector('[data-key=\"usage/learner_cores\"]') !== null")
    # A replay that begins by itself moves nothing.
    tops = [
        page.eval(
            f"(document.querySelector('.jobs').replaceChildren({text}), "
            "document.querySelector('.log').offsetTop)"
        )
        for text in ("", "'a replay'")
    ]
    assert tops[0] == tops[1]
    page.click(".log")
    below_zero = {key for key in ("losses/policy", "losses/value") if lines[-1][key] <= 0}

    def drawn() -> bool:
        """Return whether numbers are shown where they have a logarithm, and only there."""
        return all(
            (shortly(lines[-1][key]) in last_of(page, key)) == (key not in below_zero)
            for key in ("losses/policy", "losses/value")
        )

    eventually(drawn, "curves on a logarithmic axis")
    page.eval(
        "const along = document.querySelector('.along'); along.value = 'minutes'; "
        "along.dispatchEvent(new Event('change'))"
    )
    assert (
        page.eval("document.querySelectorAll('.chart .uplot').length")
        == page.eval("document.querySelectorAll('.chart').length")
        > 3
    )
    assert page.errors == [] and asked_elsewhere(page, served) == []
    assert page.sockets == []


@pytest.mark.slow
def test_it_follows_a_run_and_finds_new_ones(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    run = tmp_path / "runs" / HOSTILE.replace("/", "")
    run.mkdir(parents=True)
    log = JsonLog(run / "metrics.jsonl", {"env": HOSTILE})
    log.write({"step": 10, "elapsed_s": 1.0, "env/score": 0.25, f"env/{HOSTILE}": 3.5})
    served = serve("watch", "runs")
    page = opened(browser, served, width=360, height=800, dark=True, touch=True)
    assert last_of(page, "env/score") == ["0.25"]
    assert page.texts('[data-run="0"] td')[:2] == [run.name, HOSTILE]
    assert f"env/{HOSTILE}" in page.texts(".chart h3")
    assert page.eval("document.querySelectorAll('.page img').length") == 0
    log.write({"step": 20, "elapsed_s": 2.0, "env/score": 0.5})
    page.wait("document.querySelector('[data-key=\"env/score\"] li b').innerText === '0.5'")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 30, "elapsed_s": 3.0, "env/sc')
        file.flush()
        seen = int(page.eval("document.getElementById('app').dataset.ready"))
        page.wait(f"document.getElementById('app').dataset.ready > {seen + 1}")
        assert last_of(page, "env/score") == ["0.5"]
        file.write('ore": 0.75}\n')
    page.wait("document.querySelector('[data-key=\"env/score\"] li b').innerText === '0.75'")
    other = JsonLog(_made(tmp_path / "runs" / "second") / "metrics.jsonl", {"env": HOSTILE})
    other.write({"step": 5, "elapsed_s": 1.0, "env/score": 0.125})
    page.wait("document.querySelectorAll('[data-key=\"env/score\"] li b').length === 2")
    assert last_of(page, "env/score") == ["0.75", "0.125"]
    page.tap('[data-run="0"] input')
    page.wait("document.querySelectorAll('[data-key=\"env/score\"] li b').length === 1")
    assert page.eval("document.documentElement.scrollWidth") == 360
    assert page.errors == [] and asked_elsewhere(page, served) == []
    log.close()
    other.close()


@pytest.mark.slow
def test_news_take_no_click(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "first"
    run.mkdir(parents=True)
    log = JsonLog(run / "metrics.jsonl", {"env": "cartpole"})
    log.write({"step": 10, "elapsed_s": 1.0, "env/score": 0.25})
    page = opened(browser, serve("watch", "runs"), width=800, height=800)
    left, top, width, height = page.place('[data-run="0"] input')
    at = {"x": left + width / 2, "y": top + height / 2, "button": "left", "clickCount": 1}
    page.call("Input.dispatchMouseEvent", type="mousePressed", **at)
    log.write({"step": 20, "elapsed_s": 2.0, "env/score": 0.5})
    page.wait("watchPage.stale")
    page.call("Input.dispatchMouseEvent", type="mouseReleased", **at)
    page.wait("document.querySelectorAll('[data-key=\"env/score\"] li b').length === 0")
    page.call("Input.dispatchMouseEvent", type="mousePressed", **at)
    page.call("Input.dispatchMouseEvent", type="mouseReleased", **at)
    page.wait("document.querySelector('[data-key=\"env/score\"] li b').innerText === '0.5'")
    assert page.errors == []
    log.close()


@pytest.mark.slow
def test_values_under_the_pointer_and_a_zoom_that_all_charts_share_and_keep(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    logs = [
        JsonLog(_made(tmp_path / f"run-{number}") / "metrics.jsonl", {"env": "probe"})
        for number in range(2)
    ]
    for number, log in enumerate(logs):
        for step in range(0, 101 - 50 * number):
            log.write(
                {"step": step, "elapsed_s": float(step), "env/a": step + 0.5, "env/b": -step - 0.25}
            )
    page = opened(browser, serve("watch", "run-0", "run-1"))
    page.eval(
        "const range = document.querySelector('.smooth'); range.value = 0; "
        "range.dispatchEvent(new Event('input'))"
    )
    left, top, width, height = page.place('[data-key="env/a"] .u-over')
    shown_x = "(() => [...page_charts()].map(({plot}) => [plot.scales.x.min, plot.scales.x.max]))()"
    page.eval("window.page_charts = () => watchPage.charts.charts.values(); 0")

    def pointer(share: float) -> None:
        page.call(
            "Input.dispatchMouseEvent",
            type="mouseMoved",
            x=left + share * width,
            y=top + height / 2,
        )

    pointer(0.3)
    page.wait("document.querySelector('[data-key=\"env/a\"] .at').innerText === 'at 30 steps'")
    assert last_of(page, "env/a") == ["30.5", "30.5"] and last_of(page, "env/b") == [
        "-30.25",
        "-30.25",
    ]
    pointer(0.7)  # where the second run has ended
    page.wait("document.querySelector('[data-key=\"env/b\"] .at').innerText === 'at 70 steps'")
    assert last_of(page, "env/a") == ["70.5", "-"] and last_of(page, "env/b") == ["-70.25", "-"]
    page.drag((left + 0.2 * width, top + 9), (left + 0.6 * width, top + 9))
    page.wait("!document.querySelector('.zoom-out').hidden")
    zoomed = page.eval(shown_x)
    assert (
        len(zoomed) == 2
        and zoomed[0] == zoomed[1]
        and abs(zoomed[0][0] - 20) < 1
        and abs(zoomed[0][1] - 60) < 1
    )
    logs[0].write({"step": 101, "elapsed_s": 101.0, "env/a": 7.0, "env/b": 8.0, "env/c": 9.0})
    page.wait("document.querySelectorAll('.chart').length === 3")
    assert page.eval(shown_x) == [zoomed[0]] * 3
    page.click(".zoom-out")
    page.wait("[...page_charts()][0].plot.scales.x.max === 101")
    assert page.eval(shown_x)[:2] == [[0, 101]] * 2
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    page.wait("document.querySelector('[data-key=\"env/a\"] .at').innerText === 'newest'")
    assert last_of(page, "env/a") == ["7", "50.5"] and page.errors == []
    for log in logs:
        log.close()


@pytest.mark.slow
def test_a_folder_without_a_run_is_watched(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    page = opened(browser, serve("watch", "runs"))
    assert (
        page.text(".runs .none") == "There is no run in runs yet: runs appear here when they begin."
    )
    assert page.eval("document.querySelector('.ask-eval').disabled")
    assert page.text(".jobs").startswith("There is no run yet")
    JsonLog(_made(tmp_path / "runs" / "first") / "metrics.jsonl", {"env": "probe"}).close()
    page.wait("document.querySelector('[data-run=\"0\"]') !== null")
    assert page.errors == []


@pytest.mark.slow
def test_many_runs_look_different(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    JsonLog(_made(tmp_path / "run") / "metrics.jsonl", {}).close()
    page = opened(browser, serve("watch", "run"))
    looks = page.eval("[...Array(64).keys()].map((n) => JSON.stringify(lookOf(n)))")
    assert len(set(looks)) == 64
    assert page.eval("new Set([...Array(16).keys()].map((n) => lookOf(n).colour)).size") == 16


@pytest.mark.slow
def test_the_first_column_and_the_replay_buttons_stay_in_view(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    """In a table that is wider than the window."""
    JsonLog(_made(tmp_path / "run") / "metrics.jsonl", {}).close()
    page = opened(browser, serve("watch", "run"), width=1280)
    row = {"scene": "one", **{f"rate {n}": 0.5 for n in range(20)}}
    row |= {f"rate {n}_95": [0.25, 0.75] for n in range(20)}
    report = json.dumps({"rows": [row], "score": "rate 1"})
    page.eval(
        f"document.querySelector('.report').append(...reportTables({report}, () => "
        "button('replay', 'play', () => 0))); 0"
    )
    assert (
        page.eval(
            "(() => { const e = document.querySelector('.report .wide'); return e.scrollWidth - "
            "e.clientWidth; })()"
        )
        > 300
    )
    for scrolled in (0, 150, 9999):
        page.eval(f"document.querySelector('.report .wide').scrollLeft = {scrolled}; 0")
        for selector in (".report td:first-child", ".report td.act button"):
            box = f"document.querySelector('{selector}').getBoundingClientRect()"
            left, right = page.eval(f"[{box}.left, {box}.right]")
            assert 0 <= left < right <= 1280, (selector, scrolled)


@pytest.mark.slow
def test_a_table_of_intervals_fits_a_narrow_window(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    """Each interval stands below its number there; in a wide window it stands next to it."""
    JsonLog(_made(tmp_path / "run") / "metrics.jsonl", {}).close()
    page = opened(browser, serve("watch", "run"), width=1100)
    row: dict[str, object] = {"scene": "one"}
    for n in range(8):
        row |= {f"rate {n}": 0.5, f"rate {n}_95": [0.25, 0.75]}
    report = json.dumps({"rows": [row], "score": "rate 1"})
    page.eval(f"document.querySelector('.report').append(...reportTables({report})); 0")
    heights = []
    for width in (1100, 1800):
        page.look(width, 800)
        inner, outer, height = page.eval(
            "(() => { const e = document.querySelector('.report .wide'); return [e.scrollWidth, "
            "e.clientWidth, e.clientHeight]; })()"
        )
        assert inner == outer, width
        heights.append(height)
    assert heights[0] > heights[1]
    assert page.texts(".report td")[1] == "0.50 [0.25, 0.75]"


@pytest.mark.slow
def test_a_click_says_what_it_waits_for(browser: Browser, serve: Serve, a_run: Path) -> None:
    page = opened(browser, serve("watch", "runs", "--replay-every", "0"))
    jobs = [
        {
            "number": 0,
            "run": 0,
            "kind": "eval",
            "part": "",
            "checkpoint": "000000001000",
            "state": "working",
        }
        | {"phase": "evaluating", "share": 0.42, "seconds": 63.0, "automatic": False},
        {
            "number": 1,
            "run": 0,
            "kind": "replay",
            "part": "a",
            "checkpoint": "000000001000-1",
            "state": "waiting",
        }
        | {"phase": "", "share": 0, "seconds": None, "automatic": True},
        {
            "number": 2,
            "run": 0,
            "kind": "replay",
            "part": "",
            "checkpoint": "000000001000",
            "state": "waiting",
        }
        | {"phase": "", "share": 0, "seconds": None, "automatic": False},
    ]
    words = page.eval(
        f"watchPage.state.jobs = {json.dumps(jobs)}, watchPage.state.jobs.map((job) => "
        "watchPage.jobWords(job)[0])"
    )
    assert words == [
        "evaluation, checkpoint 1,000: evaluating, 42 %, 63 s",
        "replay of a, checkpoint 1,000-1: waits for the evaluation, checkpoint 1,000, and 1 more",
        "replay, checkpoint 1,000: waits for the evaluation, checkpoint 1,000",
    ]
    order = page.eval("[...document.querySelectorAll('.page h2')].map((head) => head.innerText)")
    assert order.index("What the policy does") < order.index("Curves")


def _made(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.slow
def test_an_evaluation_beside_the_training(browser: Browser, serve: Serve, a_run: Path) -> None:
    served = serve(
        "watch", "runs", "--seed", "3", "--env.max-episode-steps", "20", "--replay-every", "0"
    )
    page = opened(browser, served)
    before = sorted(path.name for path in a_run.rglob("*"))
    page.click(".ask-eval")
    page.wait("document.querySelector('.report table') !== null")
    (job,) = served.json("state")["jobs"]
    assert (job["state"], job["kind"], job["checkpoint"]) == (
        "done",
        "eval",
        max(path.name for path in (a_run / "checkpoints").iterdir()),
    )
    report = served.json("jobs/0")
    (row,) = report["rows"]
    cells = dict(zip(page.texts(".report th"), page.texts(".report td"), strict=False))
    assert (
        cells["return"]
        == f"{row['return']:.2f} [{row['return_95'][0]:.2f}, {row['return_95'][1]:.2f}]"
    )
    assert cells["episodes"] == str(row["episodes"]) and report["seed"] == 3 and row["length"] <= 20
    assert sorted(path.name for path in a_run.rglob("*")) == before
    assert page.errors == [] and asked_elsewhere(page, served) == []


@pytest.mark.slow  # test_an_evaluation_beside_the_training is the quick one
def test_a_replay_of_the_newest_checkpoint(browser: Browser, serve: Serve, a_run: Path) -> None:
    """It plays in a frame that can reach neither the page around it nor the server."""
    served = serve("watch", "runs", "--env.max-episode-steps", "20", "--replay-every", "0")
    page = opened(browser, served)
    page.click(".ask-replay")
    page.wait("document.querySelector('iframe.replay') !== null")
    assert page.eval("document.querySelector('iframe.replay').contentDocument") is None
    status, headers, body = served.get("jobs/0")
    assert status == 200 and headers["content-security-policy"].startswith(
        "sandbox allow-scripts; default-src 'none'"
    )
    alone = browser.open(served.url + "jobs/0")
    alone.wait(
        "document.querySelector('.step') !== null && "
        "document.querySelector('.step').innerText.includes('step 0 of ')"
    )
    assert alone.eval("fetch('../state').then(() => 'reached', () => 'refused')") == "refused"
    errors = [error for error in alone.errors if "Content Security Policy" not in error]
    assert errors == [] and page.errors == [] and asked_elsewhere(page, served) == []
    alone.close()


@pytest.mark.slow
def test_the_newest_checkpoint_plays_without_being_asked_for(
    browser: Browser, serve: Serve, a_run: Path
) -> None:
    """One that somebody plays stays until they want the newer one."""
    served = serve("watch", "runs", "--env.max-episode-steps", "5", "--replay-every", "1")
    before = sorted(path.name for path in a_run.rglob("*"))
    page = opened(browser, served)
    page.wait("document.querySelector('iframe.replay') !== null")
    old = max((a_run / "checkpoints").iterdir())
    assert f"Replay: checkpoint {int(old.name):,}" in page.text(".replays h3")
    assert sorted(path.name for path in a_run.rglob("*")) == before
    page.click("iframe.replay")
    newer = old.with_name(str(int(old.name) + 1000).zfill(len(old.name)))
    old.rename(newer)
    page.wait("document.querySelector('.newer button') !== null")
    assert page.text(
        ".newer"
    ) == f"show checkpoint {int(newer.name):,}" and f"{int(old.name):,}" in page.text(".replays h3")
    page.click(".newer button")
    page.wait("document.querySelector('.newer button') === null")
    assert f"Replay: checkpoint {int(newer.name):,}" in page.text(".replays h3")
    assert page.errors == [] and asked_elsewhere(page, served) == []


@pytest.mark.slow
def test_a_run_without_a_checkpoint_cannot_be_played(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    JsonLog(_made(tmp_path / "run") / "metrics.jsonl", {"env": "cartpole"}).close()
    page = opened(browser, serve("watch", "run"))
    assert page.eval("document.querySelector('.ask-replay').disabled")
    assert page.text(".jobs").startswith("The run has no checkpoint yet")


@pytest.mark.slow
def test_the_end_of_the_command_is_told(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    JsonLog(_made(tmp_path / "run") / "metrics.jsonl", {}).close()
    served = serve("watch", "run")
    page = opened(browser, served)
    served.close()
    page.wait("document.querySelector('.bad').innerText.includes('has the command ended')")


def test_latest_is_the_run_that_was_started_last(tmp_path: Path) -> None:
    for number, name in enumerate(("a", "c", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
        os.utime(tmp_path / name / "run.json", (number, number))
    (tmp_path / "other").mkdir()
    assert door.resolve("latest", tmp_path) == tmp_path / "b"
    assert door.resolve("a", tmp_path) == Path("a")
    with pytest.raises(ConfigError, match="no run was started in .*other"):
        door.resolve("latest", tmp_path / "other")


def test_a_replay_comes_every_minute_or_only_when_it_is_asked_for() -> None:
    assert door.VERB.parse(["runs"]).replay_every == 60
    assert door.VERB.parse(["runs", "--replay-every", "0"]).replay_every == 0


@pytest.mark.slow
def test_curves_are_smoothed_as_plot_smooths_them(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    JsonLog(_made(tmp_path / "run") / "metrics.jsonl", {}).close()
    page = opened(browser, serve("watch", "run"))
    rng = np.random.default_rng(1)
    xs, ys = np.cumsum(rng.integers(1, 9, 200)).astype(float), rng.normal(size=200)
    for share in (0.0, 0.03, 0.3):
        found = page.eval(
            f"smoothed({json.dumps(xs.tolist())}, {json.dumps(ys.tolist())}, {share})"
        )
        np.testing.assert_allclose(
            found, curves.smoothed(xs, ys, share * (xs[-1] - xs[0])), rtol=1e-9, atol=1e-12
        )


def test_files_are_read_name_by_name(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("x.txt", "a/x.txt", "a/b/x.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with Folder(tmp_path) as folder:
        for name in ("x.txt", "a/x.txt", "a/b/x.txt"):
            assert read_below(folder, name.split("/")) == name.encode()
        with pytest.raises(FileNotFoundError):
            read_below(folder, ["a", "y.txt"])
        with pytest.raises((NotPlainError, OSError)):
            read_below(folder, ["link", "x.txt"])
