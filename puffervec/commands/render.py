# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train render`: draw what a policy does as a replay, film, snapshot or curves.

It works for envs that define a drawing.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from puffervec.commands.outputs import check_output, save_output
from puffervec.commands.players import (
    Player,
    PlayerRequest,
    add_player,
    find_player,
    is_env,
    player_fields,
    progress_of,
    with_named_policy,
)
from puffervec.commands.plot import new_figure, style_axis
from puffervec.commands.verb import StopSignals, Verb
from puffervec.contract.drawing import PALETTE
from puffervec.contract.evaluation import Interval, Report, Row, as_text
from puffervec.errors import ConfigError
from puffervec.system import extras
from puffervec.system.arguments import Parser
from puffervec.system.folder import describe_error, make_folder
from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import env_spec, evaluation_config, native_env

if TYPE_CHECKING:
    from PIL import Image

    from puffervec.contract.drawing import Drawing
    from puffervec.train.act.recording import Recording
    from puffervec.viewing.render.episode import Moment

ABOUT = """\
Writes replay.html, a page in one file that plays episodes and shows the observations, actions and
rewards of the agents. Other formats are a film of an episode (MP4: 1280 x 720), snapshots of it,
and its numbers over time, averaged over many episodes, as PNG and CSV. For a Gymnasium env with
rgb_array it makes a film of the env's own pictures. ENV may precede its RUN. With an ENV alone,
agents act randomly or by --baseline."""
FORMATS = ("html", "mp4", "gif", "png")
# Formats of films with their highest rates in steps per second: viewers play faster GIFs slowly.
FILMS = {"mp4": 120.0, "gif": 50.0}
FILES = {
    "page": "replay.html",
    "film": "episode",
    "snapshots": "snapshots.png",
    "plot": "numbers.png",
    "table": "numbers.csv",
}
SNAPSHOTS = "0,50,150,300"
FIRST = "first:1"
MOST_SNAPSHOTS, MOST_TITLE = 24, 95
FILM_SIZE = {"mp4": (1280, 720)}  # A GIF of this size would be a large file.


@dataclass(frozen=True)
class RenderRequest(PlayerRequest):
    """The arguments of `puffer-train render`.

    Attributes:
        env: if set, the env that the run must be of.
        format: one of FORMATS; None: by the suffix of `out`, else html, or mp4 for an env without
            a drawing.
        draw: see `puffervec.viewing.web.choose`.
        follow: the agent that films follow.
    """

    env: str | None = None
    out: Path | None = None
    format: str | None = None
    draw: str | None = None
    follow: str | None = None
    fps: float | None = None
    snapshots: tuple[int, ...] = (0, 50, 150, 300)
    episodes: int = 64
    steps: int = 1000

    @property
    def is_file(self) -> bool:
        """Whether `out` is a file instead of a folder."""
        return (
            self.out is not None
            and self.out.suffix.lower()[1:] in FORMATS
            and not self.out.is_dir()
        )


def options(parser: Parser) -> None:
    """Declare the flags of render."""
    # fmt: off
    flag = parser.flag
    parser.add_argument("second", nargs="?", help=argparse.SUPPRESS)
    flag("--out FOLDER|FILE", "folder of all files, or a single file; FILE.html: the page; "
         "FILE.mp4 or FILE.gif: the film; FILE.png: the snapshots [default: the run folder, else "
         "the current folder]", type=Path)
    flag("--format NAME", "html: the page; mp4 or gif: a film, snapshots and numbers; png: "
         "snapshots and numbers [default: html]", choices=FORMATS)
    flag("--draw WHICH", "episodes of the page, or of films, one file each: worst:N (by the "
         "score of an evaluation, or of N episodes), part:NAME of the evaluation, all of its "
         "parts, first:N without an evaluation [default: worst:5 for the page; the first episode "
         "for a film, with snapshots and numbers]")
    flag("--follow AGENT", 'agent that the camera of a film follows, named as in the page ("car '
         '4"); worst: the one with the lowest return')
    flag("--fps N", "steps per second of the film [default: the env's own rate]", type=flags.number)
    flag("--snapshots STEPS", "steps of the snapshots [default: %(default)s, up to the end of the "
         "episode]", default=SNAPSHOTS)
    flag("--episodes N", "number of episodes over which the numbers are averaged; the first one is "
         "drawn [default: %(default)s]", type=flags.at_least(1), default=RenderRequest.episodes)
    flag("--steps N", "largest number of steps of an episode [default: %(default)s]",
         type=flags.at_least(1), default=RenderRequest.steps)
    add_player(parser)
    # fmt: on


def parse(args: list[str]) -> RenderRequest:
    """Return the request that the arguments describe. Raises: ConfigError: bad input; one line."""
    parsed = VERB.parse(args)
    first, second = parsed.target, parsed.second
    player = player_fields(parsed)
    target, env = (first, None) if second is None else (second, first)
    own = ("out", "format", "draw", "follow", "fps", "episodes", "steps")
    request = RenderRequest(
        target,
        **player,
        **{name: getattr(parsed, name) for name in own},
        env=env,
        snapshots=_parse_snapshots(parsed.snapshots),
    )
    request = with_named_policy(request)
    if is_env(request.target) and request.baseline is None:
        request = dataclasses.replace(request, baseline="random")
    return request


def _parse_snapshots(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text):
        raise ConfigError(f"--snapshots {text}: give steps, as in {SNAPSHOTS}")
    steps = tuple(sorted({int(step) for step in text.split(",")}))
    if len(steps) > MOST_SNAPSHOTS:
        raise ConfigError(f"--snapshots names {len(steps)} steps: at most {MOST_SNAPSHOTS}")
    return steps


def render(request: RenderRequest) -> None:
    """Write the requested files, and print a description of each.

    Raises: ConfigError, CheckpointError, MissingExtraError: bad input, before an episode is run.
    """
    kind = _choose_format(request, "html")
    player = find_player(request, lambda config: _adapt_config(config, request))
    python = player.config.python
    if python:
        kind = _choose_format(request, "mp4")
        if kind not in FILMS or request.draw or request.follow:
            raise ConfigError(
                f"{player.config.target} defines no drawing (NativeEnv.drawing): only films of its "
                "own pictures are possible: use --format mp4 or gif, without --draw and --follow"
            )
    env_spec(player.config)  # Raises for bad settings before a folder is made.
    if request.draw is not None:
        from puffervec.viewing.web.choose import check

        check(request.draw, player.config.target)
    title = f"{player.config.target}: {_name(player)}"
    if python:
        _write_gymnasium(request, player, title, kind)
        return
    paths = _paths(request, player, kind)
    if kind == "html":
        _write_page(request, player, title, paths["page"])
    elif request.draw or request.follow:
        _write_films(request, player, title, paths["film"], kind)
    else:
        _write_pictures(request, player, title, paths, kind)


def _write_gymnasium(request: RenderRequest, player: Player, title: str, kind: str) -> None:
    """Write a film of the pictures that a Gymnasium env makes itself."""
    from puffervec.train.act.own_pictures import OwnPictures
    from puffervec.viewing.render.film import WRITERS

    maker = player.config.creator or player.config.target
    with contextlib.closing(
        OwnPictures(maker, player.config.env, player.actor, request.seed, request.steps)
    ) as episode:
        path = _paths(request, player, kind)["film"]
        fps = min(request.fps or episode.fps, FILMS[kind])
        save_output(path, WRITERS[kind](episode.pictures(title, FILM_SIZE.get(kind)), fps))
    steps = f"{episode.steps} step{'s' * (episode.steps != 1)}"
    print(f"{path}: {steps}, {fps:g} per second", flush=True)


def _write_films(request: RenderRequest, player: Player, title: str, path: Path, kind: str) -> None:
    """Write a film of each requested episode."""
    from puffervec.viewing.web.choose import choose, viewing_settings
    from puffervec.viewing.web.record import play

    env = native_env(player.config.target)
    assert env is not None
    settings = viewing_settings(env, player.config.env, player.actor)
    choices = choose(player.config, player.actor, request.draw or FIRST, request.seed)
    for number, choice in enumerate(choices, 1):
        record = play(
            env,
            settings,
            player.actor,
            task=choice.task,
            seed=choice.seed,
            most_steps=request.steps,
        )
        drawing, moments = record.episode.drawing, record.moments
        follow = None if request.follow is None else record.agent_named(request.follow)
        name = re.sub(
            r"[^\w.-]+", "-", (choice.name or drawing.title).removesuffix(".json")
        ).lstrip(".-")
        to = (
            path
            if len(choices) == 1
            else path.with_stem(f"{path.stem}-{number:02d}{name and '-'}{name}")
        )
        data, length = _film(drawing, moments, title, request, kind, follow)
        save_output(to, data)
        shown = choice.name or drawing.title or f"seed {choice.seed}"
        print(f"{to}: {shown}, {length}", flush=True)


def _name(player: Player) -> str:
    """Return the player's label, with an absolute run folder shortened to its name."""
    folder = player.folder
    return (
        player.label.replace(str(folder), folder.name)
        if folder is not None and folder.is_absolute()
        else player.label
    )


def _write_page(request: RenderRequest, player: Player, title: str, path: Path) -> None:
    from puffervec.viewing.web.choose import WORST, choose, play_choices
    from puffervec.viewing.web.page import replay_page

    choices = choose(player.config, player.actor, request.draw or WORST, request.seed)
    every = list(play_choices(player.config, player.actor, choices, request.steps))
    replays = [replay for place, replay in enumerate(every) if replay not in every[:place]]
    count = f"{len(replays)} episode{'s' * (len(replays) != 1)}"
    if len(replays) < len(every):
        count += f" ({len(every)} were played, the others are identical)"
        title += f", {count}"
    save_output(path, replay_page(replays, title).encode())
    scores = [
        f"{replay.title or 'an episode'} ({replay.measure} {replay.score:.2f})"
        for replay in replays
    ]
    print(f"{path}: {count}: {', '.join(scores)}", flush=True)


def _write_pictures(
    request: RenderRequest, player: Player, title: str, paths: dict[str, Path], kind: str
) -> None:
    from puffervec.train.act.recording import record
    from puffervec.viewing.web.choose import viewing_settings

    env = native_env(player.config.target)
    assert env is not None
    # Even a film alone needs as many episodes: with sampled actions it would differ otherwise.
    numbers = {"episodes": request.episodes, "most_steps": request.steps, "seed": request.seed}
    recording = record(
        env, viewing_settings(env, player.config.env, player.actor), player.actor, **numbers
    )
    for part, path in paths.items():
        result = _PARTS[part](recording, title, request, kind)
        if result is not None:
            save_output(path, result[0])
            print(f"{path}: {result[1]}", flush=True)


def _choose_format(request: RenderRequest, usual: str) -> str:
    """Return the requested format, one of FORMATS.

    Args: usual: the format if none is requested.
    Raises: ConfigError, MissingExtraError: the format cannot be written.
    """
    ending = request.out.suffix.lower()[1:] if request.out is not None and request.is_file else None
    if (
        request.out is not None
        and ending is None
        and request.out.suffix
        and not request.out.is_dir()
    ):
        raise ConfigError(
            f"--out {request.out}: give a folder, or a file that ends in .html, .mp4, .gif or .png"
        )
    kind = request.format or ending or usual
    if ending not in (None, kind):
        raise ConfigError(f"--format {kind}: {request.out} ends in .{ending}")
    if request.draw is not None and kind == "png":
        raise ConfigError(
            f"--draw {request.draw}: chooses the episodes of a page or of films: use --format "
            "html, mp4 or gif"
        )
    if request.follow is not None and kind not in FILMS:
        raise ConfigError(f"--follow {request.follow}: is for films: use --format mp4 or gif")
    if (
        ending in FILMS
        and request.draw is not None
        and not re.fullmatch(r"part:.+|\w+:1", request.draw)
    ):
        raise ConfigError(
            f"--out {request.out} is one film, and --draw {request.draw} may be several: give a "
            "folder"
        )
    if kind != "html":
        extras.require(f"--format {kind}", "PIL", "matplotlib")
    if kind == "mp4":
        extras.require("--format mp4", "imageio_ffmpeg")
    most = FILMS.get(kind, max(FILMS.values()))
    if request.fps is not None and not 0 < request.fps <= most:
        raise ConfigError(
            f"--fps is {request.fps:g}: use more than 0 and at most {most:g} in {kind} files"
        )
    return kind


def _adapt_config(config: TrainConfig, request: RenderRequest) -> TrainConfig:
    """Return the evaluation config of a run.

    Raises: ConfigError: the run is of another env, or the env cannot be drawn.
    """
    if request.env not in (None, config.target):
        raise ConfigError(f"{request.target} is a run of {config.target!r}, not of {request.env!r}")
    native = native_env(config.target)
    if native is not None and native.drawing is None:
        raise ConfigError(f"{config.target} defines no drawing (NativeEnv.drawing)")
    return evaluation_config(config)


def _paths(request: RenderRequest, player: Player, kind: str) -> dict[str, Path]:
    """Return the path of each part. Raises: ConfigError: a path cannot be written."""
    if request.out is not None and request.is_file:
        paths = {{"html": "page", "png": "snapshots"}.get(kind, "film"): request.out}
    else:
        name = re.sub(r"[^\w.-]+", "-", f"render-{player.config.target}-{player.label}")
        folder = request.out or player.folder or Path(name)
        try:
            make_folder(folder)
        except OSError as error:
            raise ConfigError(f"cannot write to {folder}: {describe_error(error)}") from error
        paths = {part: folder / name for part, name in FILES.items()}
        page, film = paths.pop("page"), paths.pop("film")
        if kind == "html":
            paths = {"page": page}
        elif kind != "png":
            alone = player.config.python or request.draw or request.follow
            paths = {"film": film.with_suffix(f".{kind}"), **({} if alone else paths)}
    for path in paths.values():
        check_output("--out", path)
    return paths


# Each of these functions returns a file's bytes and a description, or None if there is nothing to
# draw.


def _film(
    drawing: Drawing,
    moments: Iterable[Moment],
    title: str,
    request: RenderRequest,
    kind: str,
    follow: str | None = None,
) -> tuple[bytes, str]:
    """Return a film and its length. Args: follow: name of the agent that the camera follows."""
    from puffervec.viewing.render.film import WRITERS, Camera
    from puffervec.viewing.render.painter import frame_of, picture_of, size_of, title_of

    fps, title = request.fps or min(drawing.fps, FILMS[kind]), title_of(title, drawing)
    camera, steps = Camera(drawing, follow), 0

    def pictures() -> Iterator[Image.Image]:
        nonlocal steps
        for moment in moments:
            steps, (view, marked) = moment.step, camera.at(moment)
            if kind in FILM_SIZE:
                yield frame_of(view, marked, title, FILM_SIZE[kind])
            else:
                yield picture_of(view, marked, title, size_of(drawing))

    data = WRITERS[kind](pictures(), fps)
    return data, f"{steps} step{'s' * (steps != 1)}, {fps:g} per second"


def _first_film(
    recording: Recording, title: str, request: RenderRequest, kind: str
) -> tuple[bytes, str]:
    return _film(recording.episode().drawing, recording.moments(), title, request, kind)


def _sheet(
    recording: Recording, title: str, request: RenderRequest, kind: str
) -> tuple[bytes, str]:
    from puffervec.viewing.render.film import png
    from puffervec.viewing.render.painter import sheet_of, title_of

    last = len(recording.states) - 1
    steps = {min(step, last) for step in request.snapshots}
    moments = [moment for moment in recording.moments() if moment.step in steps]
    drawing = recording.episode().drawing
    return png(
        sheet_of(drawing, moments, title_of(title, drawing))
    ), f"steps {', '.join(str(one.step) for one in moments)}"


def _table(
    recording: Recording, title: str, request: RenderRequest, kind: str
) -> tuple[bytes, str] | None:
    rows: list[Row] = [{"step": step, **row} for step, row in enumerate(_intervals(recording))]
    return (
        (Report(rows).to_csv().encode(), "the numbers of the plot") if recording.numbers else None
    )


def _plot(
    recording: Recording, title: str, request: RenderRequest, kind: str
) -> tuple[bytes, str] | None:
    """Draw a panel for each number: its mean over the envs, with a band for its 95 % interval."""
    if not recording.numbers:
        return None
    rows, wholes = _intervals(recording), recording.episode().drawing.wholes
    figure = new_figure(8.0, 1.0 + 3.0 * len(recording.numbers))
    for axis, (name, values), colour in zip(
        figure.subplots(len(recording.numbers), 1, squeeze=False)[:, 0],
        recording.numbers.items(),
        itertools.cycle(PALETTE),
    ):
        bands = np.array([(row[name].value, row[name].low, row[name].high) for row in rows])
        axis.fill_between(
            range(len(bands)),
            bands[:, 1],
            bands[:, 2],
            color=colour,
            alpha=0.2,
            lw=0,
            label="95 % interval",
        )
        axis.plot(bands[:, 0], color=colour, lw=1.8, label=f"mean of {values.shape[1]} episodes")
        axis.set_ylabel(f"{name}, share" if name in wholes else name, fontsize=9)
        if name in wholes:
            axis.set_ylim(-0.02, 1.02)
        axis.set_xlabel("step", fontsize=9)
        axis.margins(x=0.01)
        style_axis(axis)
        axis.legend(fontsize=8, frameon=False)
    figure.suptitle(
        title if len(title) <= MOST_TITLE else f"{title[:45]}...{title[-45:]}", fontsize=10
    )
    out = io.BytesIO()
    figure.savefig(out, format="png")
    ends = ", ".join(f"{name} {as_text(value)}" for name, value in rows[-1].items())
    return out.getvalue(), f"{ends} at the end"


def _intervals(recording: Recording) -> list[dict[str, Interval]]:
    """Return for each step the mean of each number over the envs, with its 95 % interval.

    Numbers that are parts of a whole become shares of it.
    """
    from puffervec.train.collect.episodes import mean_interval

    wholes = recording.episode().drawing.wholes
    rows: list[dict[str, Interval]] = [{} for _ in next(iter(recording.numbers.values()), ())]
    for name, values in recording.numbers.items():
        for row, step in zip(rows, values / wholes.get(name, 1.0), strict=True):
            mean, half = mean_interval(step)
            low, high = mean - half, mean + half
            row[name] = (
                Interval(mean, max(low, 0.0), min(high, 1.0))
                if name in wholes
                else Interval(mean, low, high)
            )
    return rows


_PARTS: dict[str, Callable[[Recording, str, RenderRequest, str], tuple[bytes, str] | None]] = {
    "film": _first_film,
    "snapshots": _sheet,
    "plot": _plot,
    "table": _table,
}


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train render RUN`."""
    request = parse(args)
    with progress_of(request):
        render(request)


VERB = Verb(
    "render", "RUN|latest|ENV [RUN] [flags]", "replays, films and snapshots of a policy",
    ABOUT, run, options,
)  # fmt: skip
