# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turn a run of drive into the trained driver that comes with the package.

    python scripts/ship_driver.py runs/NAME                 writes drive_env/trained/driver
    python scripts/ship_driver.py runs/NAME/best --out DIR  a checkpoint, elsewhere

The folder is a checkpoint with the weights alone (manifest.json, default.safetensors), and a model
card: README.md for people, card.json with the same figures. Only runs on generated scenes are
taken, without a reference that may have seen others, so that the weights depend on no data set.
A run does not record the weights with which it began (--init-from): ship no run that began with
weights from other scenes. The figures are those of

    puffer-train eval driver --scenes SCENES

for each of SCENES, which a test repeats.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from drive_env.config import EVALUATED_ON, sets_of  # noqa: E402
from drive_env.env import DRIVER_NAME, TRAINED  # noqa: E402
from drive_env.evaluate.evaluate import evaluate  # noqa: E402
from puffervec.errors import ConfigError, PuffervecError  # noqa: E402
from puffervec.train.act.loaded import load_policy  # noqa: E402
from puffervec.train.config.sections import LogSection, TrainConfig  # noqa: E402
from puffervec.train.metrics.tables import note  # noqa: E402
from puffervec.train.run import checkpoint as ckpt  # noqa: E402
from puffervec.train.run.find import find_checkpoint  # noqa: E402
from puffervec.train.run.rundir import config_from_tables  # noqa: E402
from puffervec.train.run.state import actor_weights  # noqa: E402

POLICY = "default"
SCENES = tuple(EVALUATED_ON.values())  # The held-out generated scenes.
FIGURES = ("scenes", "agents", "score", "goal", "collision", "offroad", "comfortable", "lawful")
MOST_BYTES = 1_950_000  # The card takes some more.
CARD, FIGURES_FILE = "README.md", "card.json"
RULES = (
    "dynamics",
    "max_jerk_mps3",
    "actions",
    "observation",
    "control",
    "others",
    "goal_behavior",
)

CARD_TEXT = """\
# A trained driver

`puffervec.load_policy("driver")`, `puffer-train eval driver --scenes FOLDER`,
`puffer-train play drive --policy driver`

| | |
|---|---|
{facts}

## Scores

`puffer-train eval driver --scenes SCENES`, with 95 % intervals over scenes:

{scores}

The score is the share of cars that reach their goal without a collision or off-road event before.
docs/drive.md explains the other columns.

## Data and licence

The driver was trained on generated scenes alone, so its licence is that of the package, MIT. No
recorded data set was used in training or to choose among checkpoints. The settings of the preset
and the kinds of generated scenes were also compared by scores on 38 scenes of the Waymo Open Motion
Dataset.

## Limits

- It is a driver for simulations. It must not control a real vehicle.
- It acts only with the observations and actions of its settings (manifest.json).
- It was trained to reach goals in generated traffic of its own copies, not to drive like people.
- Recorded scenes are harder than generated ones: evaluate it on yours before you rely on it.
"""


def ship(where: str | Path, out: Path) -> dict[str, Any]:
    """Write the driver of a run and its card into `out`, in place of what is there.

    Args:
        where: a run folder or a checkpoint.

    Returns:
        The content of card.json.

    Raises:
        ConfigError, CheckpointError: there is no such run, or it cannot be shipped.
    """
    if out.exists() and not (out / ckpt.MANIFEST).exists():
        raise ConfigError(f"--out {out} exists and is not a shipped driver: name a new folder")
    path = find_checkpoint(where, Path("runs"), note)
    manifest = ckpt.read_manifest(path)
    config = config_from_tables(manifest["config"], learns=False)
    refuse_unfit(config, manifest)
    weights = actor_weights(ckpt.read(path, only=(POLICY,)), POLICY)
    # Paths and names of the machine stay behind.
    own = dataclasses.replace(config, log=LogSection()).without_ray()
    kept = {key: manifest[key] for key in ("env", "spec_hash", "counters", "policies", "versions")}
    tables = {"target": own.target, **own.tables()}
    with tempfile.TemporaryDirectory() as folder:
        content = ckpt.Checkpoint({**kept, "config": tables}, {POLICY: weights})
        made = ckpt.write(Path(folder) / "checkpoints", content, keep=1)
        size = sum(file.stat().st_size for file in made.iterdir())
        if size > MOST_BYTES:
            raise ConfigError(
                f"{path} makes {size:,} bytes: a shipped driver has at most {MOST_BYTES:,}, so "
                "train narrower layers"
            )
        card = {**facts_of(own, manifest), "scores": {name: measure(made, name) for name in SCENES}}
        (made / FIGURES_FILE).write_text(json.dumps(card, indent=2) + "\n")
        (made / CARD).write_text(card_text(card))
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
    return card


def refuse_unfit(config: TrainConfig, manifest: Mapping[str, Any]) -> None:
    """Raise ConfigError for a run whose weights may depend on more than generated scenes."""
    if config.target != "drive":
        raise ConfigError(f"the run is of {config.target}, not of drive")
    names = [name for name, _ in sets_of(config.env.scenes)]
    if other := [name for name in names if name.partition(":")[0] not in EVALUATED_ON]:
        raise ConfigError(f"the run has seen {other[0]}: only generated scenes may be shipped")
    if config.train.kl_to:
        raise ConfigError(
            f"train.kl_to is {config.train.kl_to}: what it has seen would be shipped too"
        )
    if set(manifest["policies"]) != {POLICY}:
        raise ConfigError(f"the run has the policies {', '.join(manifest['policies'])}: one only")


def facts_of(config: TrainConfig, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the card states about the training."""
    counters = manifest["counters"]
    return {
        "scenes": config.env.scenes,
        "algorithm": config.train.algorithm,
        "agent_steps": int(counters["agent_steps"]),
        "minutes": round(float(counters["elapsed_s"]) / 60, 1),
        "rules": {name: getattr(config.env, name) for name in RULES},
        "versions": manifest["versions"],
    }


def measure(folder: Path, scenes: str) -> dict[str, Any]:
    """Return the figures of a checkpoint on some scenes, as `puffer-train eval` has them."""
    policy = load_policy(folder, settings={"scenes": scenes, "split": "all"})
    note(f"evaluating on {scenes}")
    report = evaluate(policy, policy.config.env).report().to_json()
    total = report["total"]
    figures = {"scenes": len(report["rows"]), **total}
    wanted = [*FIGURES, *(f"{name}_95" for name in FIGURES)]
    return {name: figures[name] for name in wanted if name in figures}


def card_text(card: Mapping[str, Any]) -> str:
    """Return the model card."""
    facts = {
        "trained on": f"`--scenes {card['scenes']}`",
        "by": f"{card['algorithm']}, {card['agent_steps']:,} agent-steps in "
        f"{card['minutes']:g} minutes",
        "settings": ", ".join(f"`{name}={value}`" for name, value in card["rules"].items()),
        "versions": ", ".join(f"{name} {value}" for name, value in card["versions"].items()),
    }
    rates = FIGURES[2:]
    lines = [
        f"| scenes | cars | {' | '.join(rates)} |",
        f"| --- | --: |{' --- |' * len(rates)}",
    ]
    for name, figures in card["scores"].items():
        cells = " | ".join(format_rate(figures, rate) for rate in rates)
        lines.append(f"| `{name}` ({figures['scenes']}) | {figures['agents']:,} | {cells} |")
    return CARD_TEXT.format(
        facts="\n".join(f"| {name} | {value} |" for name, value in facts.items()),
        scores="\n".join(lines),
    )


def format_rate(figures: Mapping[str, Any], name: str) -> str:
    """Return a rate with its interval, if it has one."""
    value, interval = figures.get(name), figures.get(f"{name}_95")
    if value is None:
        return "-"
    if not interval or None in interval:
        return f"{value:.3f}"
    return f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="run folder or checkpoint")
    parser.add_argument("--out", type=Path, default=TRAINED / DRIVER_NAME)
    options = parser.parse_args(arguments)
    try:
        card = ship(options.run, options.out)
    except PuffervecError as error:
        print(f"ship_driver: {error}", file=sys.stderr)
        return 2
    for name, figures in card["scores"].items():
        print(f"{name}: score {format_rate(figures, 'score')}")
    print(f"{options.out}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
