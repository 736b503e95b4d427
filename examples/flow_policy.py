# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A flow-matching policy whose loop waits for the GPU, and one that does not; see docs/profile.md.

    puffer-train profile flow_policy:by_while --syncs    11 read-backs for 10 steps
    puffer-train profile flow_policy:by_range --syncs    none
    python examples/flow_policy.py --out FOLDER          all of it, with reports and a picture

Run `puffer-train` in this folder.

The policy encodes an observation once (the prefix), then moves noise along a learned velocity for N
steps until it is a chunk of actions (Lipman et al. 2022, "Flow Matching for Generative Modeling").
Its weights are random here: only its speed matters.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from puffervec import profile

OBSERVATIONS, CHUNK, ACTIONS, WIDTH = 64, 16, 7, 256


class FlowPolicy(nn.Module):
    """Observation (B, 64) -> a chunk of actions (B, 16, 7)."""

    def __init__(self) -> None:
        super().__init__()
        layers = [layer for _ in range(6) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
        self.prefix = nn.Sequential(nn.Linear(OBSERVATIONS, WIDTH), nn.GELU(), *layers)
        self.velocity = nn.Sequential(
            nn.Linear(WIDTH + CHUNK * ACTIONS + 1, WIDTH),
            nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(),
            nn.Linear(WIDTH, CHUNK * ACTIONS),
        )  # fmt: skip

    def move(self, x: Tensor, seen: Tensor, time: Tensor, dt: Tensor) -> Tensor:
        """Return the actions (B, 16, 7) one step of time later."""
        inputs = torch.cat([seen, x.flatten(1), time.expand(len(x), 1)], dim=1)
        return x + dt * self.velocity(inputs).view_as(x)

    def until_zero(self, observation: Tensor, noise: Tensor, num_steps: int) -> Tensor:
        """Denoise while there is time left. The condition is a tensor: each evaluation waits
        for the device.
        """
        seen, x = self.prefix(observation), noise
        time = torch.ones(1, 1, device=noise.device)
        dt = -time / num_steps
        while time >= -dt / 2:
            x = self.move(x, seen, time, dt)
            time = time + dt
        return x

    def in_steps(self, observation: Tensor, noise: Tensor, num_steps: int) -> Tensor:
        """Denoise `num_steps` times. The host counts them, so it never waits for the device."""
        seen, x = self.prefix(observation), noise
        time = torch.ones(1, 1, device=noise.device)
        dt = -time / num_steps
        for _ in range(num_steps):
            x = self.move(x, seen, time, dt)
            time = time + dt
        return x


def _inference(
    denoise: str, num_steps: int, batch: int, device: torch.device | str
) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    with torch.device(device):
        policy, observation = FlowPolicy(), torch.randn(batch, OBSERVATIONS)

    @torch.no_grad()
    def infer() -> Tensor:
        noise = torch.randn(
            batch, CHUNK, ACTIONS, device=device
        )  # the same in each call: the profiler seeds the generator
        found: Tensor = getattr(policy, denoise)(observation, noise, num_steps)
        return found

    return infer


def by_while(
    num_steps: int = 10, batch: int = 1, device: torch.device | str = "cpu"
) -> Callable[[], Tensor]:
    """Return a function without arguments that runs an inference, with the loop on tensors."""
    return _inference("until_zero", num_steps, batch, device)


def by_range(
    num_steps: int = 10, batch: int = 1, device: torch.device | str = "cpu"
) -> Callable[[], Tensor]:
    """Return the same with the loop on the host."""
    return _inference("in_steps", num_steps, batch, device)


def main() -> None:
    """Find what waits, what it costs per step, and whether the actions change."""
    flags = argparse.ArgumentParser(description=main.__doc__)
    flags.add_argument(
        "--steps", type=int, nargs="+", default=[1, 2, 4, 6, 8, 10, 12, 16], help="of denoising"
    )
    flags.add_argument("--iterations", type=int, default=200)
    flags.add_argument(
        "--out", type=Path, help="a folder for while.json, range.json and flow_policy.png"
    )
    options = flags.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    timing = profile.Timing(options.iterations, device=device)
    makes = {
        "while": functools.partial(by_while, device=device),
        "range": functools.partial(by_range, device=device),
    }
    for name, make in makes.items():
        print(f"{name}: {profile.find_syncs(make())}")
        print(f"{name}: {profile.prove_no_syncs(functools.partial(make, device='cuda'))}")
    swept = profile.sweeps(makes, "num_steps", options.steps, timing)
    found = profile.latencies({name: make() for name, make in makes.items()}, timing)
    before, after = (
        profile.Report({"target": "flow_policy"}, (one,), swept[one.name]) for one in found
    )
    print(
        f"\nwhile\n{before}\n\nrange\n{after}\n\nfrom while to "
        f"range\n{profile.compare(before, after)}"
    )
    if options.out is not None:
        before.save(options.out / "while.json")
        after.save(options.out / "range.json")
        print(
            f"{profile.picture([before, after], options.out / 'flow_policy.png', list(makes))}: "
            "written"
        )


if __name__ == "__main__":
    main()
