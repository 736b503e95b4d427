# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Settings of the driving env.

Runs in the learner. `DriveConfig` mirrors the settings in csrc/drive/tables.h, which hold the
bounds; puffervec compares names, order and types of both when the env is loaded. The sentence under
each field is its help text on the command line.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from drive_env.actions import as_texts, axes_of, parse_action_values
from drive_env.kinds import parse_kinds
from drive_env.rewards import parse_ranges
from drive_env.rules import RULES
from puffervec._ffi import ffi, lib
from puffervec.errors import ConfigError

DEFAULT_SCENES = "generated"
HELD_OUT_SCENES = "held-out"
STREET_SCENES, HELD_OUT_STREETS = "streets", "held-out-streets"
LOT_SCENES, HELD_OUT_LOTS = "lots", "held-out-lots"
# Held-out scenes that evaluate a run, by the name of the generated scenes it trains on.
EVALUATED_ON = {
    DEFAULT_SCENES: HELD_OUT_SCENES,
    STREET_SCENES: HELD_OUT_STREETS,
    LOT_SCENES: HELD_OUT_LOTS,
}
# Fewest pixels along a side of the raster. A raster has fewer channels, so its channel axis is
# always the shortest.
LEAST_RASTER = 16
# Bounds of the length of a window: two frames, and the most frames that a log may have.
LEAST_WINDOW_S, MOST_WINDOW_S = 0.2, 1000.0
SCENES_ALLOWED = (
    f'"{DEFAULT_SCENES}", "{DEFAULT_SCENES}:N" (N from 1 to 99999), "{HELD_OUT_SCENES}", the same '
    f'with "{STREET_SCENES}" and "{HELD_OUT_STREETS}", or "{LOT_SCENES}" and "{HELD_OUT_LOTS}", a '
    "folder, a file or a list of them (.txt); "
    "or several of these separated by commas, each with an optional =WEIGHT"
)
SPLITS = ("all", "train", "validation", "test")


def _bounds() -> dict[str, tuple[float, float]]:
    """Return the lowest and the highest value of each numeric setting."""
    count = ffi.new("uint32_t*")
    listed = lib.pv_drive_settings(count)[0 : count[0]]
    bounds = {ffi.string(item.name).decode(): (item.low, item.high) for item in listed} | {
        "simplify_m": (0.0, 2.0),
        "placements": (0.0, 10_000.0),
        "vehicles_per_km": (0.1, 200.0),
        "placement_seed": (0.0, 2.0**31 - 1),
        "window_s": (0.0, MOST_WINDOW_S),
    }
    return {name: both for name, both in bounds.items() if name not in CHOICES}


def _choices() -> dict[str, tuple[str, ...]]:
    """Return the names that each setting of names allows, in C's order."""
    count = ffi.new("uint32_t*")
    listed = lib.pv_drive_choices(count)[0 : count[0]]
    return {
        ffi.string(item.setting).decode(): tuple(
            ffi.string(name).decode() for name in item.names[0 : item.count]
        )
        for item in listed
    }


CHOICES = _choices()
CONTROLS = cast("tuple[Control, ...]", CHOICES["control"])
# How many of a setting's names older runs may store as numbers.
NUMBERED = {"control": 2, "goal_behavior": 2}
LIMITS = ("max_acceleration_mps2", "max_lateral_mps2", "max_jerk_mps3", "max_steering_rate_radps")
UNLIMITED = ("delta_local", "state")
# Settings that move the agents without regard to their actions; at most one may be 1.
PLAYERS = ("replay_log", "idm_agents", "expert_actions")
_BOUNDS = _bounds()  # Checked before scenes are compiled.
# The names are those of DRIVE_CHOICES_... in csrc/drive/tables.h (a test compares them); the
# numbers are those of NUMBERED.
Control = Literal["moving", "valid", "all", "predict", "sdc", "ids", 0, 1]
Observation = Literal["compact", "pufferdrive", "gpudrive", "far", "driver"]
SegmentChoice = Literal["nearest", "spread"]
RasterChannels = Literal["basic", "traffic"]
RowDtype = Literal["float32", "float16", "uint8"]
Others = Literal["log", "static", "idm"]
GoalBehavior = Literal["drive_on", "remove", "stop", "respawn", "next", 0, 1]
CollisionBehavior = Literal["ignore", "stop", "remove"]
OffroadBehavior = CollisionBehavior
Dynamics = Literal[
    "bicycle",
    "classic_gpudrive",
    "classic_pufferdrive",
    "invertible_bicycle",
    "delta_local",
    "state",
    "jerk",
    "car",
]
Actions = Literal["discrete", "multi_discrete", "continuous"]
SceneDraws = Literal["independent", "passes"]

# The value comes from the observation preset (for a block) or the dynamics model (for a limit).
AS_PRESET = -1
_BARE = {"route": 0, "controls": 0, "partner_types": 0, "observe_motion": 0}
_COMPACT = {"partners": 12, "lanes": 16, "lines": 8, "edges": 16, "roads": 0, **_BARE}
_REFERENCE = {"partners": 63, "lanes": 0, "lines": 0, "edges": 0, "roads": 200, **_BARE}
_DRIVER = {**_COMPACT, "route": 8, "controls": 4, "partner_types": 1, "observe_motion": 1}
PRESETS: dict[str, dict[str, int]] = {
    "compact": _COMPACT, "pufferdrive": _REFERENCE,
    "gpudrive": _REFERENCE, "far": _COMPACT, "driver": _DRIVER,
}  # fmt: skip
# The lateral acceleration and steering rate of dynamics=car are those of Cusumano-Towner et al.
# 2025; the jerk model has them too. The jerk limit lets braking build up in 0.4 s (UN Regulation
# 13-H allows 0.6 s), so that actions which are drawn at random do not cancel out.
_CAR_LIMITS = {"max_lateral_mps2": 4.0, "max_jerk_mps3": 10.0, "max_steering_rate_radps": 0.6}


@dataclass(frozen=True)
class DriveConfig:
    """Settings of the driving env (csrc/drive/tables.h); units are in the names.

    Raises:
        ConfigError: a value is outside its bounds, or a name is unknown; the message names the
            field, the value and what is allowed.
    """

    num_agents: int = 256
    """Agent rows of one env, filled with as many whole scenes as fit."""
    control: Control = "moving"
    """Choice of agents among the objects that are present when the scene starts. moving (0):
    vehicles whose goal is at least 2 m away and that the data does not mark as expert; valid (1):
    all vehicles; all: pedestrians and cyclists too. In these three modes an object that starts
    within the goal radius of its goal is not an agent; it stays parked. predict: the data set's
    tracks to predict; sdc: its self-driving car; ids: the tracks of control_ids.
    """
    resample_steps: int = 910
    """Steps after which an env draws other scenes; open episodes are truncated."""
    max_steps: int = 0
    """Steps of one episode of a scene; 0 for the length of its log."""
    partners: int = AS_PRESET
    """Number of nearest other cars, cyclists and pedestrians that an agent observes. -1: the
    preset's value; compact: 12.
    """
    lanes: int = AS_PRESET
    """Number of nearest segments of lane centre lines that an agent observes. -1: the preset's
    value; compact: 16.
    """
    lines: int = AS_PRESET
    """Number of nearest segments of painted lines that an agent observes. -1: the preset's value;
    compact: 8.
    """
    edges: int = AS_PRESET
    """Number of nearest segments of road edges that an agent observes. -1: the preset's value;
    compact: 16.
    """
    observe_previous_action: int = 0
    """1: an agent also observes the acceleration and steering that it chose in the last step."""
    observe_motion: int = AS_PRESET
    """1: an agent also observes its acceleration, lateral acceleration and steering angle, after
    limits on them. -1: the preset's value; driver: 1, all others: 0.
    """
    raster: int = 0
    """Pixels along each side of a bird's-eye view that an agent observes, at least 16; 0 for none.
    It is a picture of bytes, one channel per kind of thing, turned with the car.
    """
    raster_pixel_m: float = 0.5
    """Side length of a pixel of the bird's-eye view, in metres."""
    raster_ahead: float = 0.75
    """Share of the bird's-eye view that lies ahead of the car's centre; the rest lies behind."""
    raster_alone: int = 0
    """1: an agent observes only the bird's-eye view, and none of the numbers."""
    raster_channels: RasterChannels = "basic"
    """Channels of the bird's-eye view. basic: roads, the goal and objects, in nine channels;
    traffic: also crosswalks, traffic lights by colour, and stop lines.
    """
    range_m: float = 50.0
    """Largest distance of observed things; a bird's-eye view shows everything inside it."""
    goal_radius_m: float = 2.0
    """Largest distance between a goal and the car's centre at which the goal counts as reached."""
    goal_behavior: GoalBehavior = field(default="remove", metadata={"was": "remove_at_goal"})
    """Consequence of reaching the goal. drive_on (0): the agent drives on; remove (1): its
    episode ends and its car disappears; stop: its episode ends and its car stays as an obstacle;
    respawn: its episode ends and begins again at its start; from then on it drives alone: it
    neither observes other agents nor collides with them, and they ignore it. next: it gets another
    goal, next_goal_m farther along.
    """
    reward_step: float = 0.0
    """Reward of every step (shaping; 0 in evaluations)."""
    reward_collision: float = -0.5
    """Reward for touching an object, once per contact."""
    reward_offroad: float = -0.5
    """Reward for touching a road edge, once per contact."""
    reward_progress: float = 0.02
    """Reward per metre by which the distance to the goal shrinks (shaping; 0 in evaluations)."""
    reward_goal: float = 1.0
    """Reward for reaching the goal, once."""
    reward_acceleration: float = 0.0
    """Reward per m/s^2 of acceleration or braking, in every step; below 0 for comfort."""
    reward_jerk: float = 0.0
    """Reward per m/s^3 by which the acceleration changes, in every step; below 0 for comfort."""
    reward_lateral: float = 0.0
    """Reward per m/s^2 of lateral acceleration, in every step; below 0 for comfort."""
    reward_lane_align: float = 0.0
    """Reward times the cosine of the angle between the car's direction and its lane, in every step.
    """
    reward_lane_center: float = 0.0
    """Reward per metre from the centre line of the lane, in every step; below 0 to keep to it."""
    reward_speed_limit: float = 0.0
    """Reward per m/s above the lane's speed limit, in every step; below 0 to keep to it."""
    reward_red_light: float = 0.0
    """Reward for crossing a stop line while its light is red, each time."""
    reward_log: float = 0.0
    """Reward per metre from the car's place in the log, in every step; below 0 to imitate it."""
    reward_haste: float = 0.0
    """Reward in every step per m/s by which the speed exceeds twice the speed that would reach the
    goal in time; below 0 so that early arrival gains nothing.
    """
    reward_yield: float = 0.0
    """Reward for entering an area where paths meet less than 3 s before another body that has the
    right of way there, each time.
    """
    unknown_speed_limit_mps: float = 0.0
    """Speed limit of lanes for which the scene has none; 0: no limit."""
    observe_weights: int = 0
    """1: an agent also observes its reward weights, scaled from their ranges to -1 to 1."""
    draw_rewards: int = 1
    """1: weights with a range (reward_ranges) are drawn from it for each agent and episode; 0: all
    agents use the weights in the settings.
    """
    max_speed_mps: float = 30.0
    """Speed limit of the dynamics, forward."""
    max_reverse_mps: float = 5.0
    """Speed limit of the dynamics, backward."""
    wheelbase_factor: float = 0.6
    """Wheelbase as a share of the car's length."""
    replay_log: int = 0
    """1: agents follow their log instead of their actions (the baseline "log"); crashes and goals
    are counted as usual.
    """
    metrics: int = 0
    """1: episodes also record faults, lanes, comfort, times to collision and distances from the
    log; evaluations always do.
    """
    observation: Observation = "compact"
    """Preset of observations. compact: see docs/drive.md; pufferdrive: the 1848 numbers of
    PufferDrive; gpudrive: the 2984 of GPUDrive; far: compact, with segments spread over the range;
    driver: compact, with the route to the goal, the types of partners, lights, stop signs and the
    car's own motion. Settings of single blocks override it.
    """
    row_dtype: RowDtype = "float32"
    """Type of the numbers in a row. float16 rounds them to 11 bits; uint8 has 253 steps per
    column.
    """
    segments: SegmentChoice = "nearest"
    """Choice of observed segments of a type. nearest: the nearest ones; spread: some from each of
    four rings around the car, up to 1/8, 1/4, 1/2 and all of the range.
    """
    roads: int = AS_PRESET
    """Number of nearest segments of all types in the road block of the presets pufferdrive and
    gpudrive. -1: the preset's value, 200.
    """
    partner_types: int = AS_PRESET
    """1: compact partners also show whether they are a vehicle, a pedestrian or a cyclist. -1: the
    preset's value; driver: 1.
    """
    route: int = AS_PRESET
    """Points of the route to the goal along the lane graph; 0 for none. -1: the preset's value;
    driver: 8. Where lanes fork, the route takes the exit that ends nearest to the goal.
    """
    route_step_m: float = 10.0
    """Metres between two points of the route."""
    controls: int = AS_PRESET
    """Number of nearest traffic lights and stop signs that an agent observes, with their stop
    lines. -1: the preset's value; driver: 4.
    """
    conflicts: int = 0
    """Number of nearest conflicts that an agent observes: places where its path meets that of
    another car, cyclist or pedestrian, with both arrival times and who has the right of way; 0 for
    none.
    """
    lidar_rays: int = 0
    """Rays that measure the distance to the next road edge or object, and its kind; 0 for none."""
    lidar_fov_deg: float = 360.0
    """Field of view of the rays, centred straight ahead."""
    lidar_range_m: float = 50.0
    """Length of the rays."""
    others: Others = "log"
    """Motion of the objects that are not agents. log: they follow their log, and appear and
    disappear with it. static: they stay where they are when the scene starts. idm: vehicles that
    move in the log are driven by the intelligent driver model, along their log and then along the
    lanes; other objects follow their log.
    """
    init_step: int = 0
    """Frame of the log in which scenes start. Agents are chosen from the objects present in it."""
    collision_behavior: CollisionBehavior = "ignore"
    """Consequence of a contact. ignore: none; stop: the episode ends and the car stays as an
    obstacle; remove: the episode ends and the car disappears.
    """
    offroad_behavior: OffroadBehavior = "ignore"
    """Consequence of touching or crossing a road edge; values as for collision_behavior."""
    box_scale: float = 1.0
    """Factor on the length and width of objects when contacts with each other and with road edges
    are detected; PufferDrive and GPUDrive use 0.7. Everything else, such as what agents observe,
    keeps the full size.
    """
    respawn_goal_share: float = 0.25
    """Reward for reaching the goal again after a respawn, as a share of reward_goal."""
    next_goal_m: float = 40.0
    """Distance along the lanes to the next goal (goal_behavior=next)."""
    idm_agents: int = 0
    """1: agents that are vehicles are driven by IDM instead of their actions, along the path of
    their log and then along its lane; other agents stand still.
    """
    idm_speed_mps: float = 0.0
    """Desired speed of vehicles under others=idm; 0 for the highest speed of their log."""
    idm_headway_s: float = 1.5
    """Time gap of IDM vehicles to the vehicle ahead."""
    idm_gap_m: float = 2.0
    """Distance of stationary IDM vehicles to the vehicle ahead."""
    idm_acceleration_mps2: float = 1.5
    """Maximum acceleration of IDM vehicles."""
    idm_braking_mps2: float = 2.0
    """Comfortable deceleration of IDM vehicles."""
    traffic_idm: float = 0.0
    """Share of the vehicles that could be agents but are driven by IDM, drawn for each vehicle and
    episode; their rows are empty. At least one agent per scene is left to the policy. 0 in
    evaluations.
    """
    traffic_log: float = 0.0
    """Share of the vehicles that could be agents but follow their log, drawn in the same way."""
    traffic_kinds: str = field(default="", metadata={"python": True})
    """Kinds of drivers of the vehicles that IDM drives (traffic_idm, others=idm), with weights, as
    "plain=2 hasty=1 timid=1". Each vehicle draws its kind and its own numbers for each episode.
    plain: the idm settings; varied: ordinary drivers; hasty; timid; inattentive: blind to some
    partners; late: brakes late. Empty: plain.
    """
    reward_ranges: str = field(default="", metadata={"python": True})
    """Rewards whose weights differ between agents: "collision=-3:-0.5 lane_align=0:0.02" draws
    reward_collision and reward_lane_align from these ranges.
    """
    control_ids: tuple[int, ...] = field(default=(), metadata={"python": True})
    """Track ids of the agents under control=ids; a scene uses those that it has."""
    dynamics: Dynamics = "bicycle"
    """Model of the agents' motion (docs/drive.md has the formulas). bicycle: a kinematic bicycle;
    classic_gpudrive, classic_pufferdrive: the classic models of GPUDrive and PufferDrive;
    invertible_bicycle: a bicycle driven by acceleration and curvature; delta_local: displacements
    in the car's frame; state: the pose is set; jerk: PufferDrive's jerk model; car: the bicycle
    with limits and finer steering.
    """
    actions: Actions = "discrete"
    """Form of the actions. discrete: one number for a combination of values; multi_discrete: one
    number per axis; continuous: a Box, in the units of the axes.
    """
    expert_actions: int = 0
    """1: agents play the actions by which the model follows their log, instead of their own."""
    max_acceleration_mps2: float = AS_PRESET
    """Limit on accelerations along the heading, both ways; 0 or -1: none."""
    max_lateral_mps2: float = AS_PRESET
    """Limit on the lateral acceleration (grip). Beyond it the car turns less; 0: none; -1: the
    model's value; car: 4, all others: none.
    """
    max_jerk_mps3: float = AS_PRESET
    """Limit on the rate of change of the acceleration; 0: none; -1: the model's value; car: 10, all
    others: none.
    """
    max_steering_rate_radps: float = AS_PRESET
    """Limit on the turning rate of the front wheels; 0: none; -1: the model's value; car: 0.6, all
    others: none.
    """
    scene_draws: SceneDraws = "independent"
    """Order of the scenes. independent: by their weights, independently of earlier draws; passes:
    an env draws each scene once in a random order, then starts again in another order; sets with
    weights take turns, each with its own passes.
    """
    replay_failed: float = 0.0
    """Probability that a scene is drawn again if an agent failed in the last episode of its bundle;
    at most three times in a row.
    """
    action_values: tuple[str, ...] = field(default=(), metadata={"python": True})
    """Values that actions choose from, as acceleration=-4,0,2 steering=-0.5,0,0.5 for the axes of
    the model; an axis that is not named keeps the model's values. A continuous action ranges from
    the lowest to the highest value.
    """
    scenes: str = field(default=DEFAULT_SCENES, metadata={"python": True})
    """"generated": 200 generated scenes; "generated:N": N of them; "held-out": 100 others;
    "streets", "streets:N" and "held-out-streets": the same with scenes as large as real ones;
    "lots", "lots:N" and "held-out-lots": the same with parking lots; a folder of scene files, a
    file, or a text file (.txt) that lists some; or several, as "A,B" or, with weights, "A=3,B=1".
    """
    split: Literal["all", "train", "validation", "test"] = field(
        default="all", metadata={"python": True}
    )
    """Scenes to use: "all", or "train" (80 %), "validation" or "test" (10 % each), by
    a hash of the file's name.
    """
    simplify_m: float = field(default=0.1, metadata={"python": True})
    """Largest distance between a simplified lane, line or edge and the original."""
    window_s: float = field(default=0.0, metadata={"python": True})
    """Longer scenes are cut into windows of this many seconds, each of which is a scene; 9.1 is the
    length of the Waymo Open Motion Dataset's. 0: scenes are driven whole.
    """

    rules: Literal["none", "gpudrive", "pufferdrive", "nuplan"] = field(
        default="none", metadata={"python": True, "implies": RULES}
    )
    """Benchmark whose rules apply. gpudrive, pufferdrive, nuplan: set agents, dynamics, length of
    episodes, size of boxes, and the consequences of goals and contacts as that benchmark does;
    settings that are passed as well take precedence. docs/comparison.md lists the values.
    """

    placements: int = field(default=0, metadata={"python": True})
    """Scenes to make of the map of each scene, with vehicles placed at random on its lanes in place
    of its objects; 0: scenes as they are logged. Maps without a log need it.
    """
    vehicles_per_km: float = field(default=8.0, metadata={"python": True})
    """Placed vehicles per km of lane."""
    placement_seed: int = field(default=0, metadata={"python": True})
    """Seed of the placements. A run on placed vehicles is evaluated with another one."""

    # The values that the user passed for settings that a preset then filled in.
    unresolved: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        for name, names in CHOICES.items():
            object.__setattr__(self, name, _parse_choice(name, getattr(self, name), names))
        limits = {
            name: _CAR_LIMITS.get(name, 0.0) if self.dynamics == "car" else 0.0 for name in LIMITS
        }
        preset: dict[str, Any] = {
            name: value
            for name, value in {**PRESETS[self.observation], **limits}.items()
            if getattr(self, name) == AS_PRESET
        }
        if self.observation == "far":
            preset["segments"] = "spread"
        object.__setattr__(self, "unresolved", {name: getattr(self, name) for name in preset})
        for name, value in preset.items():
            object.__setattr__(self, name, value)
        for item in dataclasses.fields(self):
            if item.name not in _BOUNDS:
                continue
            value, (low, high) = getattr(self, item.name), _BOUNDS[item.name]
            prefix = f"drive: {item.name} is {value!r}; it must be"
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
                raise ConfigError(f"{prefix} a number from {low:g} to {high:g}")
            if not low <= value <= high:
                raise ConfigError(f"{prefix} from {low:g} to {high:g}")
            if item.type == "int" and value != int(value):
                raise ConfigError(f"{prefix} a whole number from {low:g} to {high:g}")
        self._check_scenes()
        if 0 < self.raster < LEAST_RASTER:
            raise ConfigError(
                f"drive: raster is {self.raster}; it must be 0 (none) or at least {LEAST_RASTER}"
            )
        if self.raster_alone and not self.raster:
            raise ConfigError(
                "drive: raster_alone is 1, but raster is 0, so nothing would be observed; set "
                "raster to a number of pixels"
            )
        if self.raster_channels != "basic" and not self.raster:
            raise ConfigError(
                f"drive: raster_channels is {self.raster_channels}, but raster is 0, so there "
                "is no view; set raster to a number of pixels"
            )
        self._check_traffic()
        parse_ranges(self.reward_ranges)
        object.__setattr__(self, "control_ids", _parse_ids(self.control_ids))
        object.__setattr__(self, "scenes", _resolve_paths(self.scenes))
        object.__setattr__(self, "action_values", as_texts(self.action_values))
        self._check_motion()
        self._check_players()

    def _check_scenes(self) -> None:
        if not isinstance(self.scenes, str) or not self.scenes:
            raise ConfigError(f"drive: scenes is {self.scenes!r}; it must be {SCENES_ALLOWED}")
        for name, names in (("split", SPLITS), ("rules", tuple(RULES))):
            if getattr(self, name) not in names:
                raise ConfigError(
                    f"drive: {name} is {getattr(self, name)!r}; it must be one of "
                    f"{', '.join(names)}"
                )
        if 0 < self.window_s < LEAST_WINDOW_S:
            raise ConfigError(
                f"drive: window_s is {self.window_s:g}; it must be 0 (scenes are driven whole) or "
                f"at least {LEAST_WINDOW_S:g}"
            )

    def _check_players(self) -> None:
        players = [name for name in PLAYERS if getattr(self, name)]
        if len(players) > 1:
            raise ConfigError(
                f"drive: {' and '.join(players)} are 1, but each drives the agents in its own way: "
                "set only one of them"
            )

    def _check_traffic(self) -> None:
        if self.traffic_idm + self.traffic_log > 1.0:
            raise ConfigError(
                f"drive: traffic_idm is {self.traffic_idm:g} and traffic_log "
                f"{self.traffic_log:g}; their sum must be at most 1"
            )
        if self.traffic_log and self.others == "static":
            raise ConfigError(
                f"drive: traffic_log is {self.traffic_log:g}, but under others=static nothing "
                "follows a log; set it to 0, or others to log or idm"
            )
        if parse_kinds(self.traffic_kinds) and not self.traffic_idm and self.others != "idm":
            raise ConfigError(
                f"drive: traffic_kinds is {self.traffic_kinds!r}, but no vehicle is driven by IDM; "
                "set traffic_idm to the share of such vehicles, or others to idm"
            )

    def _check_motion(self) -> None:
        values = parse_action_values(self.action_values, self.dynamics)
        missing = [
            axis.name
            for axis in axes_of(self.dynamics)
            if not axis.values and axis.name not in values
        ]
        if missing and self.actions != "continuous":
            raise ConfigError(
                f"drive: actions is {self.actions!r}, but dynamics={self.dynamics} has no values "
                "to choose from: use actions=continuous, or give action_values for "
                f"{', '.join(missing)}"
            )
        limits = [name for name in LIMITS if getattr(self, name)]
        if limits and self.dynamics in UNLIMITED:
            raise ConfigError(
                f"drive: {limits[0]} is {getattr(self, limits[0])}, but dynamics={self.dynamics} "
                "sets poses, which have no limits: set it to 0"
            )
        if self.expert_actions and self.dynamics == "jerk":
            raise ConfigError(
                "drive: expert_actions is 1, but dynamics=jerk cannot be inverted: use another "
                "model"
            )

    @property
    def segment_k(self) -> tuple[int, int, int]:
        """Number of observed segments per type: lanes, lines, edges."""
        return (self.lanes, self.lines, self.edges)


def _parse_choice(setting: str, value: object, names: tuple[str, ...]) -> str:
    """Return a setting's name; older runs may have stored a number instead."""
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and 0 <= value < NUMBERED.get(setting, 0)
    ):
        return names[value]
    if not isinstance(value, str) or value not in names:
        raise ConfigError(f"drive: {setting} is {value!r}; it must be one of {', '.join(names)}")
    return value


def _parse_ids(ids: Any) -> tuple[int, ...]:
    """Return a list of track ids as a sorted tuple without repetitions."""
    if not isinstance(ids, (tuple, list)) or not all(
        type(number) is int and -(2**31) <= number < 2**31 for number in ids
    ):
        raise ConfigError(
            f"drive: control_ids is {ids!r}; it must be a list of whole numbers, such as (3, 17)"
        )
    return tuple(sorted(set(ids)))


def sets_of(scenes: str) -> list[tuple[str, float | None]]:
    """Return the sets that the setting `scenes` names, each with its weight or None.

    A path that exists counts as one set, whatever its name.

    >>> sets_of("generated:50,held-out=0.5")
    [('generated:50', None), ('held-out', 0.5)]
    """
    if _exists(scenes):
        return [(scenes, None)]
    sets: list[tuple[str, float | None]] = []
    for part in scenes.split(","):
        name, _, weight = part.rpartition("=")
        weighted = (
            bool(name)
            and not _exists(part)
            and re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", weight) is not None
        )
        if weighted and not float(weight):
            raise ConfigError(
                f"drive: the weight of {name} is {weight}; it must be above 0, or leave the set out"
            )
        sets.append((name, float(weight)) if weighted else (part, None))
    return sets


def _exists(name: str) -> bool:
    try:
        return Path(name).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False  # Not a file name; reading it will fail with the reason.


def _resolve_paths(scenes: str) -> str:
    """Return the setting with absolute paths for those files and folders that exist."""
    parts = []
    for name, weight in sets_of(scenes):
        generated = name.partition(":")[0] in (*EVALUATED_ON, *EVALUATED_ON.values())
        path = name if generated or not _exists(name) else str(Path(name).expanduser().absolute())
        parts.append(path if weight is None else f"{path}={weight:g}")
    return ",".join(parts)
