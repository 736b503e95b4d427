# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train bench`: speed and time split of a short run; speed.py does the work."""

from __future__ import annotations

from puffervec.errors import ConfigError
from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig
from puffervec.train.verbs.signals import StopSignals
from puffervec.train.verbs.verb import Verb

ABOUT = """\
  Trains for a few seconds and prints agent-steps/s, env-steps/s and where the time goes. Keeps nothing.

  --seconds N           to measure, after a warm-up of a third of that [default: 10]
  --json                one JSON object instead of a table
  --config FILE.toml    and all flags of puffer-train train
"""


def run(args: list[str], signals: StopSignals) -> None:
    """`puffer-train bench ENV`."""
    target = flags.take_target(args)
    seconds = flags.whole("--seconds", flags.take_option(args, "--seconds"), 1) or 10
    as_json = flags.take_switch(args, "--json")
    if target is None:
        raise ConfigError("which env? For example: puffer-train bench drive (puffer-train bench --help shows more)")
    config = flags.settled(TrainConfig.of(target), args)
    from puffervec.train.verbs.speed import measure

    found = measure(config, float(seconds), signals)
    if found is not None:
        print(found.as_json() if as_json else found.text())


VERB = Verb("bench", "ENV [flags]", "speed and time split of a short run", ABOUT, run, configured=True)
