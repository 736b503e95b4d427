# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train render`: films, snapshots and curves of runs and baselines;
puffervec/train/act/own_pictures.py.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from puffervec.commands import cli
from puffervec.commands.render import RenderRequest, parse
from puffervec.errors import ConfigError
from puffervec.system import extras
from puffervec.train import TrainConfig, Trainer

pytest.importorskip("matplotlib")
from PIL import Image

Small = Callable[..., TrainConfig]
TAG = {"num_taggers": 3, "grid_length": 8, "episode_length": 12}
FAST = "--format gif --episodes 5 --seed 3".split()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(config: TrainConfig) -> Path:
    with Trainer(config) as trainer:
        trainer.train()
        return trainer.folder


def frames(path: Path) -> list[bytes]:
    film, found = Image.open(io.BytesIO(path.read_bytes())), []
    for number in range(film.n_frames):
        film.seek(number)
        found.append(film.convert("RGB").tobytes())
    return found


@pytest.mark.slow
def test_an_env_at_random(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "render",
        "tag_grid",
        *FAST,
        "--env.num-taggers",
        "3",
        "--env.episode-length",
        "12",
        "--snapshots",
        "4,0,300",
    ]
    assert cli.main(argv) == 0
    folder = here / "render-tag_grid-random"
    assert sorted(path.name for path in folder.iterdir()) == [
        "episode.gif",
        "numbers.csv",
        "numbers.png",
        "snapshots.png",
    ]
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("episode.gif: 12 steps, 10 per second") and said[1].endswith(
        "snapshots.png: steps 0, 4, 12"
    )
    assert len(frames(folder / "episode.gif")) == 13
    rows = list(csv.DictReader((folder / "numbers.csv").read_text().splitlines()))
    assert [int(row["step"]) for row in rows] == list(range(13))
    assert (
        list(rows[0].values()) == ["0", "1.0", "1.0", "1.0"]
        and float(rows[-1]["runners left_low"]) >= 0
    )
    assert np.asarray(Image.open(folder / "numbers.png").convert("RGB")).std() > 10
    argv[argv.index("gif")] = "png"
    assert cli.main([*argv, "--out", "again.png"]) == 0
    assert (here / "again.png").read_bytes() == (folder / "snapshots.png").read_bytes()


@pytest.mark.slow
def test_a_run_and_its_policies(small: Small, here: Path) -> None:
    """Several policies with memory; the settings are the run's; drawn actions make another film
    than the likeliest ones.
    """
    run = trained(
        small(
            "tag_grid",
            env=TAG,
            policy={"map": ("taggers=tagger", "runner=runner"), "memory": "mingru"},
        )
    )
    assert cli.main(["render", "latest", *FAST]) == 0
    assert {"episode.gif", "numbers.csv", "numbers.png", "snapshots.png"} <= {
        path.name for path in run.iterdir()
    }
    assert (
        cli.main(
            ["render", "tag_grid", str(run), "--out", "sampled.gif", "--seed", "3", "--sample"]
        )
        == 0
    )
    films = [frames(path) for path in (run / "episode.gif", here / "sampled.gif")]
    assert all(1 < len(film) <= 13 for film in films) and films[0] != films[1]
    assert {path.name for path in here.iterdir()} == {"runs", "sampled.gif"}


@pytest.mark.slow
def test_films_of_any_episode(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second of two begins as that of the next seed; a camera on an agent films otherwise."""
    argv = (
        "render tag_grid --env.num-taggers 3 --env.random-starts True --env.episode-length 6 "
        "--format gif --out"
    ).split()
    assert cli.main([*argv, "two", "--draw", "first:2", "--seed", "3"]) == 0
    names = sorted(path.name for path in (here / "two").iterdir())
    assert names == ["episode-01.gif", "episode-02.gif"]
    assert "seed 4, " in capsys.readouterr().out
    for out, more in (
        ("next.gif", []),
        ("near.gif", ["--follow", "runner_0"]),
        ("worst.gif", ["--follow", "worst"]),
    ):
        assert cli.main([*argv, out, "--seed", "4", "--draw", "first:1", *more]) == 0
    films = {
        name: frames(here / name)
        for name in ("next.gif", "near.gif", "worst.gif", "two/episode-01.gif")
    }
    assert (
        films["next.gif"][0]
        == frames(here / "two" / "episode-02.gif")[0]
        != films["two/episode-01.gif"][0]
    )
    assert films["next.gif"] != films["near.gif"]
    assert cli.main([*argv, "none.gif", "--follow", "nobody"]) == 2
    assert (
        "--follow nobody: the agents of the episode are runner_0, tagger_0"
        in capsys.readouterr().err
    )


class Blind(gymnasium.Env):
    """A Gymnasium env of four steps without pictures."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode, self.clock = render_mode, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.clock = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.clock += 1
        return np.array([self.clock], np.float32), 1.0, self.clock == 4, False, {}


class Shown(Blind):
    """The same with pictures, whose colour is the clock."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def render(self) -> np.ndarray:
        assert self.render_mode == "rgb_array"
        return np.full((21, 40, 3), 50 * self.clock, np.uint8)


def test_a_gymnasium_env_shows_its_own_pictures(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["render", "tests.commands.test_render:Shown", "--out", "a.gif"]) == 0
    assert capsys.readouterr().out == "a.gif: 4 steps, 10 per second\n"
    film = Image.open(io.BytesIO((here / "a.gif").read_bytes()))
    middle = film.width // 2, film.height - 12 - 11
    shades = []
    for number in range(film.n_frames):
        film.seek(number)
        shades.append(film.convert("RGB").getpixel(middle)[0])
    assert film.n_frames == 5 and shades == pytest.approx([0, 50, 100, 150, 200], abs=8)


class Bare(gymnasium.Env):
    """A Gymnasium env whose class takes no arguments."""

    observation_space, action_space = Blind.observation_space, Blind.action_space


def make_without_mode(size: int = 5) -> Blind:
    return Blind()


def make_with_any(**settings: Any) -> Bare:
    return Bare(**settings)


@pytest.mark.parametrize("factory", ["make_without_mode", "make_with_any"])
def test_a_factory_without_render_mode_is_refused(
    factory: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    maker = f"tests.commands.test_render:{factory}"
    assert cli.main(["render", maker, "--out", "a.gif"]) == 2
    assert capsys.readouterr().err == (
        f"puffer-train: {maker} takes no render_mode: add a parameter render_mode and pass "
        "it to the env, which then returns its pictures from render()\n"
    )


def make_without_window(render_mode: str | None = None) -> Blind:
    if render_mode is not None:
        raise TypeError("no window")
    return Blind()


def test_other_faults_of_a_factory_are_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    maker = "tests.commands.test_render:make_without_window"
    assert cli.main(["render", maker, "--out", "a.gif"]) == 2
    said = capsys.readouterr().err
    assert "cannot be created with render_mode='rgb_array': TypeError: no window" in said


@pytest.mark.slow
def test_films_as_mp4(here: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    cv2 = pytest.importorskip("cv2")
    assert cli.main("render cartpole --steps 5 --out a.mp4 --fps 25".split()) == 0
    film = cv2.VideoCapture("a.mp4")
    parts = (
        cv2.CAP_PROP_FRAME_COUNT,
        cv2.CAP_PROP_FPS,
        cv2.CAP_PROP_FRAME_WIDTH,
        cv2.CAP_PROP_FRAME_HEIGHT,
    )
    assert [film.get(part) for part in parts] == [6, 25, 1280, 720]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("--seed 3", "which run"),
        ("none", "none does not exist"),
        ("tag_grid none", "none does not exist"),
        ("probe", "probe defines no drawing (NativeEnv.drawing)"),
        ("CartPole-v1 --format html", "CartPole-v1 defines no drawing"),
        ("CartPole-v1 --format gif --draw first:1", "without --draw and --follow"),
        (
            "tests.commands.test_render:Blind --format gif",
            "renders no pictures: its render modes are none",
        ),
        ("tag_grid --baseline best", "tag_grid has random"),
        ("tag_grid --env.num-taggers 0", "num_taggers is 0"),
        (
            "tag_grid --out a.avi",
            "--out a.avi: give a folder, or a file that ends in .html, .mp4, .gif or .png",
        ),
        ("tag_grid --out a.gif --format mp4", "--format mp4: a.gif ends in .gif"),
        ("tag_grid --out no/a.gif", "--out no/a.gif: there is no folder"),
        ("tag_grid --format avi", "invalid choice: 'avi'"),
        ("tag_grid --draw best", "--draw best: use part:NAME, worst:N, first:N or all"),
        (
            "tag_grid --draw part:1",
            "--draw part:1: tag_grid has no evaluation by parts: use worst:N",
        ),
        (
            "tag_grid --draw first:2 --format png",
            "--draw first:2: chooses the episodes of a page or of films",
        ),
        (
            "tag_grid --draw first:2 --out a.gif",
            "--out a.gif is one film, and --draw first:2 may be several: give a folder",
        ),
        ("tag_grid --follow worst", "--follow worst: is for films: use --format mp4 or gif"),
        ("tag_grid --fps 0 --format png", "--fps is 0"),
        (
            "tag_grid --fps 60 --format gif",
            "--fps is 60: use more than 0 and at most 50 in gif files",
        ),
        ("tag_grid --snapshots 1,-2", "--snapshots 1,-2: give steps, as in 0,50,150,300"),
        (
            "tag_grid --snapshots " + ",".join(map(str, range(25))),
            "--snapshots names 25 steps: at most 24",
        ),
        ("tag_grid --episodes 0", "--episodes"),
        ("tag_grid --steps none", "--steps"),
        ("tag_grid --colour red", "--colour"),
    ],
)
def test_bad_input_is_one_line(
    args: str, words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["render", *args.split(), "--device=cpu"]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert not list(here.iterdir())


@pytest.mark.slow
def test_a_run_of_another_env_is_refused(
    small: Small, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(small())
    assert cli.main(["render", "tag_grid", str(run)]) == 2
    assert "is a run of 'probe', not of 'tag_grid'" in capsys.readouterr().err


def replays(path: Path) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="data">(.*)</script>', path.read_text())
    assert found is not None
    return list(json.loads(found[1])["replays"])


def test_a_page_of_a_run(small: Small, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an env without parts: as many episodes as asked for, each with a seed of its own."""
    run = trained(small("tag_grid", env=TAG))
    assert cli.main("render latest --draw worst:3 --sample".split()) == 0
    found = replays(run / "replay.html")
    assert len(found) == 3 and [one["score"] for one in found] == sorted(
        one["score"] for one in found
    )
    assert (
        capsys.readouterr().out.startswith(f"{run / 'replay.html'}: 3 episodes: ")
        or run.is_absolute()
    )
    assert all(1 <= one["steps"] <= 12 and one["measure"] == "return" for one in found)
    assert cli.main(["render", str(run.absolute()), "--draw", "first:1", "--out", "one.html"]) == 0
    page = (here / "one.html").read_text()
    assert f"<title>tag_grid: {run.name}</title>" in page and str(run.parent.absolute()) not in page


def test_identical_episodes_are_on_the_page_once(
    small: Small, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The starts of this env do not depend on the seed, nor do the likeliest actions."""
    trained(small("tag_grid", env=TAG))
    assert cli.main("render latest --draw worst:3 --out same.html".split()) == 0
    assert len(replays(here / "same.html")) == 1
    title = re.search("<title>(.*)</title>", (here / "same.html").read_text())
    for words in (capsys.readouterr().out, title[1] if title else ""):
        assert "1 episode " in words and "3 were played" in words


@pytest.mark.slow
def test_a_page_of_the_worst_scenes(here: Path) -> None:
    """The same episodes as those of the evaluation, by its score, the lowest first."""
    scenes = ["--env.scenes", "generated:4", "--baseline", "lane-follow"]
    assert cli.main(["eval", "drive", *scenes, "--json", "eval.json"]) == 0
    rows = {row["scene"]: row for row in json.loads(Path("eval.json").read_text())["rows"]}
    assert cli.main(["render", "drive", *scenes, "--draw", "worst:2", "--out", "worst.html"]) == 0
    found = replays(here / "worst.html")
    scores = sorted(row["score"] for row in rows.values())
    assert [one["score"] for one in found] == scores[:2]
    for one in found:
        row = rows[one["title"]]
        assert (
            one["events"].get("at goal", 0) == round(row["goal"] * row["agents"])
            and one["agents"] == row["agents"]
        )
    assert (
        cli.main(
            ["render", "drive", *scenes, "--draw", f"part:{found[1]['title']}", "--out", "one.html"]
        )
        == 0
    )
    assert replays(here / "one.html") == found[1:]


def test_what_is_not_installed_is_said_or_done_without(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = extras.installed
    monkeypatch.setattr(
        extras, "installed", lambda module: module != "imageio_ffmpeg" and there(module)
    )
    assert cli.main("render cartpole --format mp4".split()) == 2
    assert (
        "--format mp4 needs imageio_ffmpeg: pip install 'puffervec[video]'"
        in capsys.readouterr().err
    )
    monkeypatch.setattr(extras, "installed", lambda module: module != "PIL" and there(module))
    assert cli.main("render cartpole --format gif".split()) == 2
    assert "--format gif needs PIL: pip install 'puffervec[video]'" in capsys.readouterr().err
    assert cli.main("render cartpole --steps 2 --draw first:1".split()) == 0
    assert (here / "render-cartpole-random" / "replay.html").is_file(), "a page needs none of them"


def test_what_is_asked_for() -> None:
    line = "tag_grid runs/one --snapshots 9,3,9 --fps 4.5 --out a --sample --scenes here"
    assert parse(line.split()) == RenderRequest(
        "runs/one", env="tag_grid", snapshots=(3, 9), fps=4.5, out=Path("a"), deterministic=False,
        env_flags=("--scenes", "here"), code=(None, None),
    )  # fmt: skip
    assert parse(["tag_grid"]).baseline == "random" and parse(["runs/one"]).baseline is None
    with pytest.raises(ConfigError, match="unknown argument --json"):
        parse(["latest", "--json"])
