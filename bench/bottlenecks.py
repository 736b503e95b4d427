# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the cost of four known causes of slow training, switched on one at a time.

python bench/bottlenecks.py                     drive's preset on a CPU
python bench/bottlenecks.py --device cuda --env tag_grid

synchronisation   at every turn the host waits for the device and reads a number back (on a CPU it
                  only reads the number)
copies            the slab is not page-locked (on a CPU, the rows are copied once more instead)
shared device     at every turn the policy's device multiplies matrices for about as long as
                  simulating a half takes, in place of a simulator on that device
stragglers        Python envs with log-normal step times, compared with constant ones of the same
                  mean: all envs in one batch, two halves, and first come, first served
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from bench import common, runs
from puffervec.errors import ConfigError, PuffervecError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.collect import device_turn
from puffervec.train.device.device import choose_device, one_torch_thread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Burden = Callable[[Trainer], Callable[[], None]]

MATRIX = 256
STRAGGLERS = {
    "all at once": {"num_buffers": 1},
    "two halves": {"num_buffers": 2},
    "first come": {"num_buffers": 1, "batch_size": 4},
}
STRAGGLING_ENVS = 8  # One worker each, so that none waits for another's step.


@dataclasses.dataclass(frozen=True)
class Cause:
    """A cause of slow training.

    Attributes:
        burden: called at every turn.
        around: the context in which the trainer is made.
    """

    what: str
    burden: Burden | None = None
    around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext


# ---- the causes ----------------------------------------------------------------------------------


def synchronise(trainer: Trainer) -> Callable[[], None]:
    """Return a burden that waits for the device and reads a number back."""
    values = next(iter(trainer.slots.values())).storage.values

    def burden() -> None:
        if values.device.type == "cuda":
            torch.cuda.synchronize(values.device)
        values[0].mean().item()

    return burden


def copy_rows(trainer: Trainer) -> Callable[[], None]:
    """Return a burden that copies the half's rows once more."""
    vec = trainer.vec

    def burden() -> None:
        torch.from_numpy(vec.halves[vec.half].block).clone()

    return burden


@contextlib.contextmanager
def pageable() -> Iterator[None]:
    """Prevent the page-locking of slabs for trainers that are made in the block."""
    pin = vars(device_turn)["pin"]
    setattr(device_turn, "pin", lambda block, owner: False)  # noqa: B010  (a name that it imports)
    try:
        yield
    finally:
        setattr(device_turn, "pin", pin)  # noqa: B010


def share_device(trainer: Trainer, seconds: float) -> Callable[[], None]:
    """Return a burden that multiplies matrices for about `seconds` on the policy's device."""
    matrix = torch.eye(MATRIX, device=trainer.device)
    count = max(1, round(seconds / _product_s(matrix)))

    def burden() -> None:
        x = matrix
        for _ in range(count):
            x = x @ matrix

    return burden


def _product_s(matrix: torch.Tensor, count: int = 200) -> float:
    """Return the seconds per matrix product, on one thread of a CPU as in a rollout."""
    with one_torch_thread():
        for warm in (True, False):
            begin, x = time.perf_counter(), matrix
            for _ in range(10 if warm else count):
                x = x @ matrix
            x.sum().item()
        return (time.perf_counter() - begin) / count


# ---- samples -------------------------------------------------------------------------------------


def sample(config: TrainConfig, cause: Cause, seconds: float) -> dict[str, Any]:
    """Train with `config` for about `seconds` with a cause switched on; see `runs.train`."""

    def prepare(trainer: Trainer) -> None:
        if cause.burden is not None:
            put_on(trainer.vec, cause.burden(trainer))

    with cause.around():
        return runs.train(config, seconds, prepare)


def put_on(vec: Any, burden: Callable[[], None]) -> None:
    """Call a burden before every `send` of a vector env."""
    send = vec.send

    def burdened(actions: Any) -> None:
        burden()
        send(actions)

    vec.send = burdened


def straggler_config(even: bool, vec: Mapping[str, Any], device: str) -> TrainConfig:
    """Return a run whose envs have constant or log-normal step times, with the given `vec`."""
    run = runs.Run("bench.uneven:uneven_env", {"env": {"even": even}})
    config = runs.config_of(run, device)
    return config.merged(
        {
            "vec": {"num_envs": STRAGGLING_ENVS, "num_workers": STRAGGLING_ENVS, **vec},
            "train": {"horizon": 32, "update_epochs": 1},
        }
    )


def causes(device: torch.device, simulation_s: float) -> dict[str, Cause]:
    """Return the causes that exist on this device, by name."""
    cuda = device.type == "cuda"
    return {
        "synchronisation": Cause(
            "a wait and a number read back at every turn"
            if cuda
            else "a number read back at every turn",
            synchronise,
        ),
        "copies": Cause("the slab is pageable memory", around=pageable)
        if cuda
        else Cause("stand-in: one more copy of the rows", copy_rows),
        "shared device": Cause(
            f"stand-in load: {1e3 * simulation_s:.2f} ms of products at every turn",
            lambda trainer: share_device(trainer, simulation_s),
        ),
    }


NOTHING = Cause("nothing")


def run(
    options: argparse.Namespace, note: Callable[[str], None]
) -> tuple[list[dict[str, Any]], float]:
    """Measure all causes in turns; return the rows of the table and the share of others."""
    device = choose_device(options.device)
    config = runs.fix_choices(runs.config_of(runs.RUNS[options.env], options.device))
    by_name = causes(device, runs.simulation_half_s(config))
    variants = {"": functools.partial(sample, config, NOTHING, options.seconds)}
    variants |= {
        name: functools.partial(sample, config, cause, options.seconds)
        for name, cause in by_name.items()
    }
    for way, vec in STRAGGLERS.items():
        for even in (True, False):
            straggling = straggler_config(even, vec, options.device)
            variants[f"{way} {even}"] = functools.partial(
                sample, straggling, NOTHING, options.seconds
            )
    samples = common.interleave(variants, options.repeats, note, options.attempts)
    pairs = [(name, cause.what, "", name) for name, cause in by_name.items()]
    pairs += [("stragglers", way, f"{way} True", f"{way} False") for way in STRAGGLERS]
    return [row(*pair, samples.results) for pair in pairs], samples.foreign


def row(
    cause: str, what: str, off: str, on: str, results: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return a line of the table.

    Args:
        off, on: the variants without and with the cause.
    """
    without, with_it = (
        [float(one["agent_steps_per_s"]) for one in results[name]] for name in (off, on)
    )
    return {
        "cause": cause,
        "what": what,
        "facts": results[on][0]["facts"],
        "off": common.figure(without),
        "on": common.figure(with_it),
        "left": common.ratio(with_it, without),
    }


def draw_left(table: Sequence[Mapping[str, Any]], title: str, axis: Axes) -> None:
    """Draw the share of the speed that each cause leaves."""
    labels = [f"{line['cause']}:\n{line['what']}" for line in table]
    runs.bars(
        axis,
        labels,
        [line["left"] for line in table],
        title,
        "agent-steps/s with the cause / without it",
    )
    axis.axvline(1.0, color="#999999", linewidth=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 for bad input."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common.add_flags(flags, "bottlenecks", 10.0)
    flags.add_argument(
        "--env", default="drive", help=f"from {','.join(runs.RUNS)} (default: %(default)s)"
    )
    flags.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: %(default)s)")
    flags.add_argument("--png", type=Path, help="path of the picture (default: next to the JSON)")
    options = flags.parse_args(arguments)
    progress = common.Progress()
    try:
        if options.env not in runs.RUNS:
            raise ConfigError(f"--env is {options.env!r}: use one of {', '.join(runs.RUNS)}")
        rows, foreign = run(options, progress)
        title = f"{options.env} on {options.device}: what causes leave of the speed"
        runs.draw_beside([functools.partial(draw_left, rows, title)], options, "bottlenecks")
    except (PuffervecError, OSError) as error:
        progress.clear()
        print(f"error: {error}", file=sys.stderr)
        return 2
    progress.clear()
    cells = [
        (r["cause"], r["what"], str(r["off"]), str(r["on"]),
         f"{100 * (1 - r['left'].median):+.1f}%", f"{100 * r['left'].spread:.0f}%",
         *runs.fact_cells(r["facts"]))
        for r in rows
    ]  # fmt: skip
    common.print_table(
        "what four causes cost, agent-steps/s",
        ("cause", "what is switched on", "off", "on", "cost", "±", *runs.FACT_COLUMNS),
        cells,
        [
            f"stragglers: {STRAGGLING_ENVS} envs whose steps sleep; off: all for the mean time. "
            f"The others: {options.env}."
        ],
    )
    common.finish("bottlenecks", options, common.machine(), foreign, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
