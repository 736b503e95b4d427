# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure a ConvNeXt split by columns over ranks: memory per rank and time per training step.

    python bench/sharded.py                              1, 2 and 4 ranks over gloo, one core each
    python bench/sharded.py --png sharded.png            with a plot
    python bench/sharded.py --device cuda --size xl --ranks 1 2    two GPUs, ConvNeXt-XL

Strong scaling: the same picture on more ranks. Weak scaling: a picture whose width grows with the
number of ranks. Both are also measured with activation checkpointing (`keep_every`). Memory is the
peak of the tensors of forward and backward on a rank, without weights, gradients and optimizer
state. A step is forward, loss, backward and AdamW. Each repeat starts new processes.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common

# Depths and dims of the network, and batch, height and width on one rank of the pictures.
SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, int, int]]] = {
    "small": ((2, 2, 4, 2), (16, 32, 64, 128), (4, 128, 256)),
    "tiny": ((1, 1), (8, 16), (1, 32, 64)),
    "xl": ((3, 3, 27, 3), (256, 512, 1024, 2048), (7, 512, 1024)),
}
KEPT = {"all kept": 0, "computed again": 4}
SCALING = ("strong", "weak")
MIB = 2**20
LONGEST_S = 580


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the flags."""
    flags = common.parser(__doc__)
    flags.add_argument(
        "--ranks",
        type=int,
        nargs="+",
        default=[1, 2, 4],
        help="numbers of ranks (default: %(default)s)",
    )
    flags.add_argument(
        "--size",
        choices=SIZES,
        default="small",
        help="size of network and pictures (default: %(default)s)",
    )
    flags.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="cuda: as many GPUs as ranks"
    )
    flags.add_argument(
        "--steps",
        type=int,
        default=3,
        help="that are timed, after a first one (default: %(default)s)",
    )
    flags.add_argument(
        "--repeats",
        type=int,
        default=5,
        help="samples; each is a fresh start (default: %(default)s)",
    )
    flags.add_argument(
        "--attempts",
        type=int,
        default=1,
        help="largest number of attempts per sample while other processes disturb it",
    )
    flags.add_argument("--png", type=Path, help="path of the plot (default: none)")
    common.add_json(flags, "sharded")
    flags.add_argument("--rank-job", action="store_true", help=argparse.SUPPRESS)
    return flags.parse_args(arguments)


# ---- on each rank --------------------------------------------------------------------------------


def rank_job(options: argparse.Namespace) -> None:
    """Measure all variants on this number of ranks; rank 0 prints them."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    torch.set_num_threads(1)
    device = torch.device("cpu")
    if options.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    mesh = init_device_mesh(options.device, (int(os.environ["WORLD_SIZE"]),))
    result = {
        f"{scaling}, {activations}": variant(options, mesh, device, scaling, KEPT[activations])
        for scaling in SCALING
        for activations in KEPT
    }
    if dist.get_rank() == 0:
        print(json.dumps(result))
    dist.destroy_process_group()


def variant(
    options: argparse.Namespace, mesh: Any, device: Any, scaling: str, keep_every: int
) -> dict[str, float]:
    """Train some steps; return the seconds per step of the slowest rank and the most bytes."""
    import torch
    import torch.distributed as dist

    from puffervec.wings.sharded import ConvNeXt, peak_bytes, shard_cnn

    depths, dims, (batch, height, width) = SIZES[options.size]
    width *= mesh.size() if scaling == "weak" else 1
    torch.manual_seed(0)
    cnn = shard_cnn(ConvNeXt(3, 10, depths, dims).to(device), mesh, (3, height, width), keep_every)
    optimizer = torch.optim.AdamW(cnn.parameters(), 1e-4, fused=True)
    first, end = cnn.columns(width)
    own = torch.randn(batch, 3, height, end - first, device=device)

    def step() -> None:
        cnn(own, width=width).square().mean().backward()

    times, peak = [], 0
    for number in range(options.steps + 2):
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        if number == 1:  # Gradients exist by now, and the measurement of memory takes time.
            peak = peak_bytes(step, device)
            continue
        step()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    worst = torch.tensor([statistics.median(times[1:]), peak], dtype=torch.float64, device=device)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    seconds, most = worst.tolist()
    return {"step_s": seconds, "peak_bytes": most, "width": width}


# ---- all of them ---------------------------------------------------------------------------------


def sample(options: argparse.Namespace, ranks: int) -> dict[str, dict[str, float]]:
    """Start the ranks and return their measurements."""
    torchrun = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr",
        "127.0.0.1",
        "--nproc-per-node",
        str(ranks),
    ]
    mine = [
        "--rank-job",
        "--size",
        options.size,
        "--device",
        options.device,
        "--steps",
        str(options.steps),
    ]
    done = subprocess.run(
        [sys.executable, *torchrun, str(Path(__file__).resolve()), *mine],
        cwd=common.ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=LONGEST_S,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{ranks} ranks failed:\n{done.stderr[-2000:]}")
    result: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return result


def summary(
    results: Mapping[str, Sequence[Mapping[str, Mapping[str, float]]]],
) -> list[dict[str, Any]]:
    """Return a row per variant and number of ranks.

    It has medians over the repeats, and ratios to one rank.
    """
    rows = []
    for name in next(iter(results.values()))[0]:
        base = [run[name] for run in next(iter(results.values()))]
        for ranks, runs in results.items():
            samples = [run[name] for run in runs]
            rows.append(
                {
                    "variant": name,
                    "ranks": int(ranks),
                    "width": int(samples[0]["width"]),
                    "step_ms": vars(common.figure(1e3 * run["step_s"] for run in samples)),
                    "times_one_rank": vars(
                        common.ratio([r["step_s"] for r in samples], [r["step_s"] for r in base])
                    ),
                    "peak_mib": samples[0]["peak_bytes"] / MIB,
                    "of_one_rank": samples[0]["peak_bytes"] / base[0]["peak_bytes"],
                }
            )
    return rows


def markdown(results: Mapping[str, Any]) -> str:
    """Return the table of docs/sharded.md. Args: results: the results of a JSON file."""
    rows = []
    for row in results["measured"]:
        step, over = (str(common.Figure(**row[key])) for key in ("step_ms", "times_one_rank"))
        memory = (f"{row['peak_mib']:.1f}", f"{row['of_one_rank']:.2f}")
        rows.append((row["variant"], str(row["ranks"]), str(row["width"]), step, over, *memory))
    columns = ("variant", ">ranks", ">W", ">step ms", ">of one rank", ">MiB per rank")
    return common.markdown((*columns, ">of one rank"), rows)


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw time per step and memory per rank over the number of ranks."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
    styles = {"strong": "-", "weak": "--"}
    colours = dict(zip(KEPT, ("#0072B2", "#D55E00"), strict=True))
    ranks = sorted({row["ranks"] for row in rows})
    for name in dict.fromkeys(row["variant"] for row in rows):
        scaling, _, activations = name.partition(", ")
        own = [row for row in rows if row["variant"] == name]
        style: dict[str, Any] = {
            "ls": styles[scaling],
            "color": colours[activations],
            "marker": "o",
            "label": name,
        }
        axes[0].plot(
            [row["ranks"] for row in own], [row["step_ms"]["median"] for row in own], **style
        )
        axes[1].plot([row["ranks"] for row in own], [row["peak_mib"] for row in own], **style)
    for axis, title in zip(
        axes, ("ms per training step", "most MiB at once for a step, per rank"), strict=True
    ):
        axis.set(title=title, xlabel="ranks", xticks=ranks, ylim=(0, None))
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", alpha=0.3)
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit status."""
    options = parse(arguments)
    if options.rank_job:
        rank_job(options)
        return 0
    numbers = options.ranks
    if options.device == "cuda":
        import torch

        numbers = [number for number in numbers if number <= torch.cuda.device_count()]
        if not numbers:
            print(
                f"error: --device cuda: {torch.cuda.device_count()} GPUs for {options.ranks} ranks",
                file=sys.stderr,
            )
            return 2
    variants = {str(number): functools.partial(sample, options, number) for number in numbers}
    facts = common.machine()
    runs = common.interleave(
        variants, options.repeats, lambda line: print(line, file=sys.stderr), options.attempts
    )
    rows = summary(runs.results)
    print(markdown({"measured": rows}))
    if options.png:
        draw(rows, options.png)
    common.finish(
        "sharded",
        options,
        facts,
        runs.foreign,
        {"measured": rows},
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
