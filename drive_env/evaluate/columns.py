# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rates and means computed from the records of the driving env (csrc/drive/judge/records.h).

The training log and evaluations show them. Each is the sum of a record divided by the number of
agents or, if written "sum/count", by the sum of another record.
"""

from __future__ import annotations

RATES = {  # shares of agents, printed for each scene
    "score": "score",
    "goal": "goals",
    "collision": "collisions",
    "offroad": "offroads",
}
# Further shares of agents or steps, recorded with the setting `metrics`
MORE_RATES = {
    "at_fault": "at_fault",
    "red_light": "red_light",
    "wrong_way": "wrong_way",
    "stop_sign": "stop_sign",
    "lawful": "lawful",
    "short_ttc": "short_ttc",
    "lane_aligned": "aligned_steps/lane_steps",
    "comfortable": "comfortable_spans/spans",
    "speeding": "speeding_steps/limit_steps",
    "failed_to_yield": "failed_to_yield",
}
MEANS = {  # means, in the same form
    "route_share": "route_share",
    "goal_time": "timed_steps/log_steps",
    "path_m": "path_m/spans",
    "lane_offset_m": "lane_offset_m/lane_steps",
    "least_ttc_s": "least_ttc_s",
    "peak_acceleration": "peak_acceleration",
    "peak_braking": "peak_braking",
    "peak_lateral": "peak_lateral",
    "peak_jerk": "peak_jerk",
    "ade_m": "ade_m/logged",
    "fde_m": "fde_m/logged",
}
MOST = {"route_share": 1.0}  # Upper bounds of means that have one; all means are 0 or more.
# Explains the columns of tables to people who do not know the env; docs/drive.md has more.
MEANINGS = {
    "agents": "vehicles that were driven, over all episodes",
    "score": "share of the agents that reached their goal without a collision or a departure from "
    "the road before",
    "goal": "share that reached their goal",
    "collision": "share that touched another object",
    "offroad": "share that left the road",
    "at_fault": "share that caused a contact",
    "comfortable": "share of the half-seconds in which accelerations and jerks were within the "
    "limits of comfort",
    "lawful": "share that ran no red light or stop sign, kept to its side, and was at most 5 mph "
    "above a limit",
    "goal_time": "time to the goal over that of the log",
    "path_m": "mean distance from the path of the log, in metres",
}
