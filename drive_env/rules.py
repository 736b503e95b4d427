# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The rules of other benchmarks of driving, as settings of the env.

`rules=NAME` sets all settings of a benchmark at once. docs/comparison.md gives the reasons,
compares published results with ours, and lists what still differs. Imports no other module of the
project.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What PufferDrive and GPUDrive share. Their boxes have 0.7 of an object's length and width. A log
# of 91 frames leaves 90 steps.
_SELF_PLAY = {
    "control": "moving",
    "init_step": 0,
    "max_steps": 90,
    "goal_radius_m": 2.0,
    "collision_behavior": "ignore",
    "offroad_behavior": "ignore",
    "box_scale": 0.7,
}
RULES: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    # Config of the published policies (Cornelisse et al., "Building reliable sim driving agents by
    # scaling self-play", 2025): an agent leaves the scene at its goal, and nothing else ends it.
    "gpudrive": {
        **_SELF_PLAY,
        "others": "log",
        "goal_behavior": "remove",
        "dynamics": "classic_gpudrive",
    },
    # drive.ini of November 2025: an agent that reaches its goal starts again, alone, and objects
    # that are not agents stand where they are at the start.
    "pufferdrive": {
        **_SELF_PLAY,
        "others": "static",
        "goal_behavior": "respawn",
        "respawn_goal_share": 0.25,
        "dynamics": "classic_pufferdrive",
    },
    # Closed loop, non-reactive: the self-driving car among logs, for the length of the log, without
    # a goal that ends the drive. others=idm is the reactive variant.
    "nuplan": {
        "control": "sdc",
        "others": "log",
        "init_step": 0,
        "max_steps": 0,
        "goal_radius_m": 2.0,
        "goal_behavior": "drive_on",
        "collision_behavior": "ignore",
        "offroad_behavior": "ignore",
        "box_scale": 1.0,
        "dynamics": "bicycle",
    },
}


def remarks_on_rules(config: Any) -> list[str]:
    """Return a remark that names the config's rules and the settings that differ from them."""
    if config.rules == "none":
        return []
    others = [
        f"{name}={getattr(config, name)}"
        for name, value in RULES[config.rules].items()
        if getattr(config, name) != value
    ]
    text = f"counted by the rules of {config.rules}"
    return [f"{text}, but with {', '.join(others)}" if others else text]
