# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A covering set of drive's settings: every option is in one of these, together with others that it
may meet.

tests/drive_env/test_covering.py runs each on every backend, tests/c/test_drive_variants.py in every
build. A new option is a line here, or goes into a line that it should be seen with.
"""

from __future__ import annotations

from typing import Any

COVERING: list[dict[str, Any]] = [
    {},
    {
        "control": 1,
        "goal_behavior": "drive_on",
        "max_steps": 12,
        "edges": 2,
        "observe_previous_action": 1,
    },
    {
        "partners": 0,
        "lanes": 0,
        "lines": 0,
        "edges": 0,
        "goal_radius_m": 6.0,
        "reward_progress": 0.3,
        "reward_step": -0.01,
    },
    {"raster": 21, "raster_pixel_m": 1.3, "raster_ahead": 0.5, "range_m": 15.0},
    {
        "raster": 37,
        "raster_pixel_m": 0.7,
        "raster_alone": 1,
        "control": 1,
        "raster_channels": "traffic",
    },
    {
        "control": "all",
        "others": "static",
        "init_step": 4,
        "goal_behavior": "respawn",
        "offroad_behavior": "remove",
        "raster": 19,
    },
    {
        "goal_behavior": "stop",
        "collision_behavior": "stop",
        "offroad_behavior": "stop",
        "init_step": 2,
        "max_steps": 40,
    },
    {
        "goal_behavior": "respawn",
        "respawn_goal_share": 0.5,
        "collision_behavior": "remove",
        "goal_radius_m": 6.0,
        "control": "ids",
        "control_ids": tuple(range(0, 1000, 2)),
    },
    {"goal_behavior": "next", "next_goal_m": 12.0, "goal_radius_m": 5.0, "control": "predict"},
    {"control": "sdc", "others": "static", "goal_behavior": "next", "scene_draws": "passes"},
    {
        "others": "idm",
        "control": "predict",
        "idm_headway_s": 1.0,
        "idm_gap_m": 1.0,
        "goal_behavior": "stop",
    },
    {
        "others": "idm",
        "idm_speed_mps": 12.0,
        "idm_acceleration_mps2": 3.0,
        "idm_braking_mps2": 3.0,
        "init_step": 3,
        "control": "sdc",
    },
    {
        "traffic_idm": 0.4,
        "traffic_log": 0.3,
        "control": "all",
        "metrics": 1,
        "goal_behavior": "respawn",
        "max_steps": 9,
    },
    {
        "replay_failed": 0.7,
        "max_steps": 9,
        "goal_radius_m": 5.0,
        "control": "valid",
        "traffic_log": 0.3,
    },
    {"traffic_idm": 1.0, "others": "idm", "control": "valid", "observation": "driver"},
    {"replay_log": 1, "control": 1, "partners": 40, "lanes": 40},
    {"idm_agents": 1, "others": "idm", "control": "all", "goal_behavior": "respawn", "metrics": 1},
    {"metrics": 1, "reward_jerk": -0.01, "reward_lane_align": 0.1, "goal_behavior": "drive_on"},
    {
        "reward_acceleration": -0.01,
        "reward_lateral": -0.02,
        "reward_lane_center": -0.03,
        "reward_log": -0.04,
        "reward_haste": -0.02,
        "reward_goal": 2.0,
    },
    {"reward_speed_limit": -0.1, "unknown_speed_limit_mps": 5.0, "reward_red_light": -2.0},
    {
        "reward_ranges": "collision=-3:0 jerk=-0.1:0 lane_align=0:1",
        "metrics": 1,
        "observe_weights": 1,
        "max_steps": 15,
    },
    {
        "reward_ranges": "goal=0.5:1",
        "draw_rewards": 0,
        "reward_collision": -1.0,
        "reward_offroad": -1.0,
        "observe_weights": 1,
    },
    {
        "dynamics": "bicycle",
        "actions": "continuous",
        "max_acceleration_mps2": 3.0,
        "max_steering_rate_radps": 0.7,
        "observe_motion": 1,
        "control": "all",
    },
    {
        "dynamics": "classic_gpudrive",
        "actions": "multi_discrete",
        "max_jerk_mps3": 9.0,
        "observe_previous_action": 1,
    },
    {
        "dynamics": "classic_pufferdrive",
        "action_values": ("steering=-0.3,0,0.6",),
        "max_lateral_mps2": 2.0,
    },
    {
        "dynamics": "invertible_bicycle",
        "actions": "continuous",
        "expert_actions": 1,
        "observe_previous_action": 1,
        "control": "all",
        "init_step": 3,
    },
    {
        "dynamics": "delta_local",
        "actions": "multi_discrete",
        "observe_previous_action": 1,
        "control": "valid",
    },
    {"dynamics": "state", "actions": "continuous", "expert_actions": 1},
    {"dynamics": "jerk", "observe_previous_action": 1, "observe_motion": 1, "control": "all"},
    {
        "max_speed_mps": 60.0,
        "max_reverse_mps": 0.0,
        "wheelbase_factor": 0.9,
        "lanes": 3,
        "edges": 64,
    },
    {
        "observation": "pufferdrive",
        "lidar_rays": 40,
        "lidar_fov_deg": 150.0,
        "route": 5,
        "route_step_m": 4.0,
        "controls": 3,
    },
    {"observation": "gpudrive", "row_dtype": "float16", "roads": 90, "partners": 9},
    {"observation": "far", "row_dtype": "uint8", "partner_types": 1, "observe_previous_action": 1},
    {"observation": "driver", "dynamics": "car", "metrics": 1},
    {
        "segments": "spread",
        "lanes": 33,
        "row_dtype": "uint8",
        "raster": 16,
        "lidar_rays": 7,
        "lidar_range_m": 25.0,
    },
]
