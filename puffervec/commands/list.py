# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train list`: list the available envs, policies etc. with a description of each.

It runs in the learner and makes no env. Descriptions are the first sentences of docstrings, so
there is no second text to maintain.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import puffervec.envs
from puffervec.commands.verb import StopSignals, Verb
from puffervec.contract.native import NativeEnv
from puffervec.errors import PuffervecError
from puffervec.system.arguments import Parser
from puffervec.train.config import algorithms
from puffervec.train.config.target import GENERIC

ABOUT = """\
Prints the available envs, policies, algorithms, memories, optimizers and presets, each with a
description."""
Rows = list[dict[str, str]]
NO_DOCSTRING = "No description: its module has no docstring."
OPTIMIZERS = {
    "adam": "Adam as one kernel over all weights.",
    "muon": "Muon for matrices, Adam for all other weights; fewer, but slower steps.",
    "muon_sgd": "Muon for all matrices, SGD for vectors; the steps of PufferLib's muon.",
}


def everything() -> dict[str, Rows]:
    """Return all tables by name, as rows of text by column."""
    return {
        "envs": envs(),
        "policies": policies(),
        "algorithms": learners(),
        "memories": memories(),
        "optimizers": [
            {"train.optimizer": name, "what": what} for name, what in OPTIMIZERS.items()
        ],
        "presets": presets(),
    }


def envs() -> Rows:
    """Return the C envs, built-in and of installed packages, with the error of a broken one."""
    rows = []
    for name in puffervec.envs.names():
        try:
            env = puffervec.envs.get(name)
            what, package = _description(env), env.config.__module__.partition(".")[0]
            preset = "own" if env.training.preset else "generic"
        except (PuffervecError, ImportError) as error:
            what, package, preset = " ".join(str(error).split()), "?", "?"
        rows.append({"env": name, "from": package, "preset": preset, "what": what})
    other = "Any Gymnasium id, or module:factory for your own env."
    return [
        *rows,
        {"env": "CartPole-v1, ...", "from": "gymnasium", "preset": "generic", "what": other},
    ]


def _description(env: NativeEnv) -> str:
    """Return the first sentence of the docstring of an env's build module, else of its config."""
    generated = f"{env.config.__name__}("  # Docstring of a dataclass that defines none.
    own = "" if (env.config.__doc__ or "").startswith(generated) else first_sentence(env.config)
    return first_sentence(inspect.getmodule(env.build)) or own or NO_DOCSTRING


def policies() -> Rows:
    """Return the kinds of policies."""
    from puffervec.train.policies.registry import kinds

    descriptions = {"auto": "The one that fits the env's observations."}
    descriptions |= {name: first_sentence(maker) for name, maker in kinds().items()}
    descriptions["module:Class"] = "Your own nn.Module, see puffervec.train.policies.protocol."
    return [{"policy.kind": name, "what": what} for name, what in descriptions.items()]


def learners() -> Rows:
    """Return the algorithms, built-in and of installed packages, with the error of a broken one."""
    rows = []
    for name in algorithms.names():
        try:
            what = first_sentence(algorithms.get(name).section)
        except PuffervecError as error:
            what = " ".join(str(error).split())
        rows.append({"train.algorithm": name, "what": what})
    return [
        *rows,
        {"train.algorithm": "module:NAME", "what": "Your own puffervec.train.Algorithm."},
    ]


def memories() -> Rows:
    """Return the kinds of memory of a policy."""
    from puffervec.train.policies.memory import MEMORIES

    kinds = [
        {"policy.memory": name, "what": first_sentence(maker)} for name, maker in MEMORIES.items()
    ]
    return [{"policy.memory": "none", "what": "Acts on the current observation alone."}, *kinds]


def presets() -> Rows:
    """Return the preset of each env: the settings that apply unless flags override them."""
    tables: dict[str, Mapping[str, Mapping[str, Any]]] = {}
    for name in puffervec.envs.names():
        with contextlib.suppress(PuffervecError, ImportError):  # `envs` lists the error.
            tables[name] = puffervec.envs.get(name).training.preset
    tables = {name: table for name, table in tables.items() if table} | {
        "generic (all other envs)": GENERIC
    }
    return [{"preset": name, "what": _settings(table)} for name, table in tables.items()]


def first_sentence(thing: Any) -> str:
    """Return the first sentence of a docstring, "" if there is none.

    For a function only the object that it returns: "Return a GRU." becomes "A GRU.".
    """
    text = " ".join((inspect.getdoc(thing) or "").split())
    text = re.sub(r"^Return (\w)", lambda match: match[1].upper(), text)
    sentence = re.match(r".*?(?<!al)[.;](?= |$)", re.sub(r"\s*\([^()]*\)", "", text))
    return (sentence[0].rstrip(";") if sentence else text).rstrip(".") + "." if text else ""


def _settings(table: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{key} {','.join(map(str, v)) if isinstance(v, tuple) else v}" for key, v in _flat(table)
    )


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield path + key, value


def as_tables(tables: Mapping[str, Sequence[Mapping[str, str]]]) -> str:
    """Return the tables as text, with the last column wrapped."""
    width = min(160, max(80, shutil.get_terminal_size((120, 24)).columns))
    lines = []
    for title, rows in tables.items():
        cells = [list(rows[0]), *(list(row.values()) for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
        indent = 2 + sum(w + 2 for w in widths)
        lines.append(f"\n{title}")
        for *first, last in cells:
            head = "".join(f"{cell:<{w}}  " for cell, w in zip(first, widths, strict=True))
            lines.append(
                textwrap.fill(
                    last, width, initial_indent="  " + head, subsequent_indent=" " * indent
                )
            )
    return "\n".join(lines)


def options(parser: Parser) -> None:
    """Declare the flags of list."""
    parser.flag("--json", "print one JSON object instead of tables")


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train list`."""
    as_json = VERB.parse(args).json
    print(json.dumps(everything(), indent=2) if as_json else as_tables(everything()))


VERB = Verb(
    "list",
    "[--json]",
    "available envs, policies, algorithms, memories, optimizers and presets",
    ABOUT,
    run,
    options,
)
