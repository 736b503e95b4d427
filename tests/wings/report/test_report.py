# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train report`: its page says what the run's files and its evaluation say
(puffervec/wings/report/page.py).
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from puffervec.commands import cli
from puffervec.train import TrainConfig
from puffervec.train.act.evaluate import RandomActor
from puffervec.train.config.target import own_evaluation
from puffervec.train.metrics.log import read_metrics
from puffervec.viewing.web.replay import Replay
from puffervec.wings.report.page import _pick, worst_and_median
from tests.viewing.web.browser import Browser
from tests.wings.watch.test_watch import HOSTILE, last_of, shortly

FAST = "--episodes 16 --env.max-episode-steps 12 --date 2026-01-02".split()


def data_of(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*)</script>', path.read_text())
    assert found is not None
    return dict(json.loads(found[1]))


@pytest.fixture
def report(a_run: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert cli.main(["report", str(a_run), *FAST]) == 0
    path = a_run / "report.html"
    assert capsys.readouterr().out.startswith(f"{path}: ")
    return path


@pytest.mark.slow
def test_the_page_says_what_the_run_says(report: Path, a_run: Path, tmp_path: Path) -> None:
    data = data_of(report)
    lines = list(read_metrics(a_run / "metrics.jsonl"))
    assert (data["name"], data["env"], data["date"]) == ("first", "cartpole", "2026-01-02")
    assert data["curves"]["step"] == [line["step"] for line in lines]
    for key, values in data["curves"]["keys"].items():
        assert values == pytest.approx([line.get(key) for line in lines], rel=1e-6, nan_ok=True), (
            key
        )
    start = json.loads((a_run / "run.json").read_text())["starts"][0]
    assert data["starts"] == [
        {key: value for key, value in start.items() if key not in ("folder", "job")}
    ]
    config = json.loads((a_run / "config.json").read_text())
    assert data["settings"] == {key: value for key, value in config.items() if key != "log"}
    assert str(a_run.parent) not in report.read_text()
    assert (
        cli.main(
            [
                "eval",
                str(a_run),
                *FAST[:4],
                "--baseline",
                "random",
                "--json",
                str(tmp_path / "eval.json"),
            ]
        )
        == 0
    )
    found = json.loads((tmp_path / "eval.json").read_text())
    assert {key: found[key] for key in ("rows", "total", "remarks", "settings", "seed")} == {
        key: data["evaluation"][key] for key in ("rows", "total", "remarks", "settings", "seed")
    }
    assert data["evaluation"]["checkpoint"] == max(
        path.name for path in (a_run / "checkpoints").iterdir()
    )
    assert [replay["title"] for replay in data["replays"]] in (["worst", "median"], ["worst"])


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(report: Path, a_run: Path, tmp_path: Path) -> None:
    before = report.read_bytes()
    assert cli.main(["report", str(a_run), *FAST, "--out", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_bytes() == before


@pytest.mark.slow
def test_it_in_a_browser(browser: Browser, report: Path, a_run: Path) -> None:
    data, lines = data_of(report), list(read_metrics(a_run / "metrics.jsonl"))
    page = browser.open(report.as_uri(), width=1600, height=1000)
    page.wait("document.querySelector('.replay').dataset.ready")
    assert page.text("h1") == "cartpole: first"
    facts = dict(zip(page.texts(".facts dt"), page.texts(".facts dd"), strict=True))
    assert (
        facts["trained"].startswith(f"{shortly(lines[-1]['step'])} agent-steps")
        and facts["written"] == "2026-01-02"
    )
    row = data["evaluation"]["rows"][0]
    cells = dict(zip(page.texts(".report th"), page.texts(".report td"), strict=False))
    random = data["evaluation"]["tables"]["comparison"][1]
    assert (
        random["driver"] == "random"
        and data["evaluation"]["tables"]["comparison"][0]["driver"] == "first"
    )
    assert page.texts(".headline div") == [
        f"{name}: return {one['return']:.2f} [{one['return_95'][0]:.2f}, {one['return_95'][1]:.2f}]"
        for name, one in (("first", row), ("random", random))
    ]
    assert "losses/entropy" in page.texts(".definitions dt") and "return" in page.texts(
        ".definitions dt"
    )
    assert (
        cells["return"]
        == f"{row['return']:.2f} [{row['return_95'][0]:.2f}, {row['return_95'][1]:.2f}]"
    )
    for key in ("episode/return", "losses/entropy"):
        assert last_of(page, key) == [
            shortly([line[key] for line in lines if line.get(key) is not None][-1])
        ]
    assert f"step 0 of {data['replays'][0]['steps']}" in page.text(".step")
    page.click(".replay .play")
    page.wait("!document.querySelector('.replay .step').innerText.startsWith('step 0')")
    page.click(".page > header .theme")
    assert (
        page.eval(
            "[document.querySelector('.page').dataset.theme, "
            "document.querySelector('.replay').dataset.theme]"
        )
        == ["light"] * 2
    )
    for width, dark in ((360, True), (1600, False)):
        page.look(width, 800, dark=dark, touch=width == 360)
        assert page.eval("document.documentElement.scrollWidth") == width
    assert (page.requests, page.sockets, page.errors) == ([report.as_uri()], [], [])


@pytest.mark.slow
def test_hostile_names_are_text(browser: Browser, a_run: Path) -> None:
    name = HOSTILE.replace("/", "") + "<script>document.title = 'bad'<!--"
    run = Path(shutil.copytree(a_run, a_run.parent / name))
    config = json.loads((run / "run.json").read_text())
    config["starts"][0]["command"] = f"</script>{HOSTILE}"
    (run / "run.json").write_text(json.dumps(config))
    metrics = (
        (run / "metrics.jsonl")
        .read_text()
        .replace("episode/length", f"env/{json.dumps(HOSTILE)[1:-1]}")
    )
    (run / "metrics.jsonl").write_text(metrics)
    assert cli.main(["report", str(run), *FAST, "--no-replays"]) == 0
    page = browser.open((run / "report.html").as_uri())
    assert page.text("h1") == f"cartpole: {name}"
    assert f"</script>{HOSTILE}" in page.texts(".facts dd")
    assert f"env/{HOSTILE}" in page.texts(".chart h3")
    assert (
        page.eval("document.querySelectorAll('img').length") == 0
        and page.eval("document.title") == f"cartpole: {name}"
    )
    assert (page.requests, page.errors) == ([page.requests[0]], [])


def test_numbers_that_are_no_json_are_left_out(
    a_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("run.json", "config.json"):
        text = (a_run / name).read_text()
        (a_run / name).write_text(text.replace("{", '{"odd": [NaN, -Infinity, 1e999],', 1))
    assert cli.main(["report", str(a_run), *FAST, "--no-replays"]) == 0, capsys.readouterr().err
    assert data_of(a_run / "report.html")["settings"]["odd"] == [None, None, None]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["cartpole"], "cartpole is an env: give the folder of a run"),
        (["RUN", "--out", "a.txt"], "--out a.txt: the name must end in .html"),
        (["RUN", "--out", "none/a.html"], "--out none/a.html: there is no folder"),
        (["COPY"], "is not in a run folder: give the folder of a run"),
        ([], "usage: puffer-train report"),
    ],
)
def test_bad_input(
    args: list[str], words: str, a_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(max((a_run / "checkpoints").iterdir()), tmp_path / "copy")
    argv = [{"RUN": str(a_run), "COPY": str(copy)}.get(arg, arg) for arg in args]
    assert cli.main(["report", *argv]) == 2
    assert words in capsys.readouterr().err


def test_the_worst_and_the_median_replay() -> None:
    rising = [
        Replay(name, 1, 1, name.encode(), score)
        for name, score in (("a", 0.0), ("b", 0.5), ("c", 0.7), ("d", 1.0))
    ]
    for count, names in (
        (1, ["worst: a"]),
        (2, ["worst: a", "median: b"]),
        (3, ["worst: a", "median: b"]),
        (4, ["worst: a", "median: c"]),
    ):
        assert [replay.title for replay in _pick(rising[:count])] == names


@pytest.mark.slow
def test_the_worst_and_the_median_scene_are_those_of_the_evaluation() -> None:
    config = TrainConfig.of("drive", env={"scenes": "generated:5", "max_steps": 20})
    own = own_evaluation("drive")
    assert own is not None
    report = own.evaluate(RandomActor(0), config.env, episodes=1, seed=3)
    rising = sorted((float(row["score"].value), row["scene"]) for row in report.rows)  # type: ignore[union-attr]
    found = list(worst_and_median(config, RandomActor(0), report, 3))
    assert [replay.score for replay in found] == [rising[0][0], rising[2][0]][: len(found)]
    names = {replay.title.partition(": ")[2]: replay for replay in found}
    assert [replay.title.partition(": ")[0] for replay in found] == [
        "worst",
        "median",
    ] and names.keys() <= set(report.names())
    without = list(
        worst_and_median(config, RandomActor(0), dataclasses.replace(report, tasks=()), 3)
    )
    assert [replay.measure for replay in without] == ["return"] * len(without) and without
    assert all(
        replay.agents == report.rows[report.names().index(name)]["agents"]
        for name, replay in names.items()
    )
