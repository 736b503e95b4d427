# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Entry points of `puffervec.wings.plan`: the modes of `train.plan`, and `puffer-train plan`.

The command prints and draws the planned memory of a policy's forward pass. torch is imported only
when a function is called.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffervec.commands.outputs import check_output
from puffervec.commands.players import add_code, is_env
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError
from puffervec.system.arguments import Parser
from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig

if TYPE_CHECKING:
    import torch
    from torch import nn

    from puffervec.train.policies.mapping import PolicyRows

ABOUT = """\
Prints the nodes and tensors of a policy's forward pass, which of them share memory, and the bytes:
with a buffer per tensor, with aliases only, with reuse over time, and the least that any plan can
take. Draws graph and memory as an SVG. The flags of puffer-train train are for an ENV, whose policy
has new weights."""
BATCH = 64


def options(parser: Parser) -> None:
    """Declare the flags of plan."""
    # fmt: off
    flag = parser.flag
    flag("--batch N", "rows of the batch [default: %(default)s]",
         type=flags.at_least(1), default=BATCH)
    flag("--out FILE", "the picture [default: plan.svg, in the run folder where there is one; "
         "several policies: plan-NAME.svg]", type=Path)
    flag("--json", "one JSON object instead of tables")
    add_code(parser)
    # fmt: on


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train plan TARGET`."""
    parsed = VERB.parse(args)
    target, out = parsed.target, parsed.out
    if out is not None:
        check_output("--out", out, ".svg")
    code = [parsed.env, parsed.policy]
    folder, policies = (
        _load_env(target, parsed.settings)
        if is_env(target)
        else _load_run(target, parsed.settings, code)
    )
    first, tables = out or folder / "plan.svg", {}
    for name, (policy, rows) in policies.items():
        file = first if len(policies) == 1 else first.with_stem(f"{first.stem}-{name}")
        tables[name] = _plan(name, policy, rows, parsed.batch, file, parsed.json)
    if parsed.json:
        print(json.dumps(tables))


def _load_env(target: str, args: list[str]) -> tuple[Path, dict[str, tuple[Any, PolicyRows]]]:
    """Return the folder for the picture, and an env's policies with new weights."""
    config = flags.build_config(TrainConfig.of(target), args, VERB.parser().long_flags())
    from puffervec.train.policies.run_spec import RunSpec

    return Path("."), {
        name: (rows.build().eval(), rows) for name, rows in RunSpec.of(config).rows.items()
    }


def _load_run(
    target: str, args: list[str], code: list[str | None]
) -> tuple[Path, dict[str, tuple[Any, PolicyRows]]]:
    VERB.refuse(args)
    import torch

    from puffervec.train.act.evaluate import load_policies
    from puffervec.train.metrics.tables import note
    from puffervec.train.run.find import read_newest
    from puffervec.train.run.rundir import CHECKPOINTS

    path, (run, policies) = read_newest(
        target, Path("runs"), lambda p: load_policies(p, torch.device("cpu"), code), note
    )
    folder = path.parent.parent if path.parent.name == CHECKPOINTS else path
    return folder, {name: (policy, run.rows[name]) for name, policy in policies.items()}


def _plan(
    name: str, policy: Any, rows: PolicyRows, batch: int, file: Path, as_json: bool
) -> dict[str, Any]:
    """Draw the plan of a policy, and print it unless JSON is wanted; return its tables."""
    from puffervec.wings import plan
    from puffervec.wings.plan.check import example_arguments

    planned = plan.compile_policy(policy, example_arguments(rows, policy, batch), "eager")
    if not as_json:
        print(f"policy {name}: {type(policy).__name__}, {batch} rows\n\n{planned.describe()}")
    try:
        planned.draw(file)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error
    if not as_json:
        print(f"{file}: written\n")
    return planned.tables()


def acting(policy: Any, mode: str) -> Any:
    """Return the callable that acts for a policy in a mode (`puffervec.doors.policy_wrapper`)."""
    from puffervec.wings.plan import cache

    return cache.acting(policy, cache.without_graphs(mode))


def check_plans(
    rows: Mapping[str, PolicyRows], policies: Mapping[str, nn.Module], device: torch.device
) -> None:
    """Raise ConfigError if a policy cannot be planned in its mode `train.plan`; see check.py."""
    from puffervec.wings.plan.check import check_plans

    check_plans(rows, policies, device)


def planned_calls(
    policy: nn.Module, args: tuple[Any, ...]
) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Return, for each mode, a function that plans a policy for these arguments.

    Each function returns a call of its plan with the arguments.
    """
    from puffervec.wings import plan

    def make_call(mode: str) -> Callable[[], Any]:
        return functools.partial(plan.compile_policy(policy, args, mode), *args)

    return {
        f"plan, {mode}": functools.partial(make_call, mode)
        for mode in plan.MODES
        if mode != "eager"
    }


VERB = Verb(
    "plan",
    "RUN|latest|ENV [flags]",
    "the memory of a policy's forward pass, planned",
    ABOUT,
    run,
    options,
    configured=True,
)
