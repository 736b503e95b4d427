# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Settings of the driving env.

Runs in the learner. `DriveConfig` mirrors the settings in csrc/drive/tables.h, which have the
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

from drive_env.actions import as_texts, axes_of, given_values
from drive_env.rewards import parse_ranges
from puffervec._ffi import ffi, lib
from puffervec.errors import ConfigError

DEFAULT_SCENES = "generated"
HELD_OUT_SCENES = "held-out"
STREET_SCENES, HELD_OUT_STREETS = "streets", "held-out-streets"
EVALUATED_ON = {
    DEFAULT_SCENES: HELD_OUT_SCENES,
    STREET_SCENES: HELD_OUT_STREETS,
}  # runs on generated scenes, by their name
# Along a side of the raster: more than it has channels, so that nobody mistakes these for pixels
LEAST_RASTER = 16
SCENES_ALLOWED = (
    f'"{DEFAULT_SCENES}", "{DEFAULT_SCENES}:N" (N from 1 to 99999), "{HELD_OUT_SCENES}", the same '
    f'with "{STREET_SCENES}" and "{HELD_OUT_STREETS}", a folder or a file; or several of these '
    "with commas between, where =WEIGHT may stand behind each"
)
SPLITS = ("all", "train", "validation", "test")


def _bounds() -> dict[str, tuple[float, float]]:
    """Return the lowest and the highest value of each number."""
    count = ffi.new("uint32_t*")
    listed = lib.pv_drive_settings(count)[0 : count[0]]
    bounds = {ffi.string(item.name).decode(): (item.low, item.high) for item in listed} | {
        "simplify_m": (0.0, 2.0)
    }
    return {name: both for name, both in bounds.items() if name not in CHOICES}


def _choices() -> dict[str, tuple[str, ...]]:
    """Return the names that settings take, in C's order."""
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
NUMBERED = {
    "control": 2,
    "goal_behavior": 2,
}  # How many of a setting's names older runs give by number.
LIMITS = ("max_acceleration_mps2", "max_lateral_mps2", "max_jerk_mps3", "max_steering_rate_radps")
UNLIMITED = ("delta_local", "state")
PLAYERS = (
    "replay_log",
    "idm_agents",
    "expert_actions",
)  # What drives the agents in place of their actions: one at most.
_BOUNDS = _bounds()  # What is outside is refused before scenes are compiled.
# The names are those of DRIVE_CHOICES_... in csrc/drive/tables.h, which a test compares. Numbers
# are those of NUMBERED.
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

AS_PRESET = (
    -1
)  # of a block: what the preset of observations says; of a limit: what the model of dynamics says
_BARE = {"route": 0, "controls": 0, "partner_types": 0, "observe_motion": 0}
_COMPACT = {"partners": 12, "lanes": 16, "lines": 8, "edges": 16, "roads": 0, **_BARE}
_REFERENCE = {"partners": 63, "lanes": 0, "lines": 0, "edges": 0, "roads": 200, **_BARE}
_DRIVER = {**_COMPACT, "route": 8, "controls": 4, "partner_types": 1, "observe_motion": 1}
PRESETS: dict[str, dict[str, int]] = {
    "compact": _COMPACT, "pufferdrive": _REFERENCE, "gpudrive": _REFERENCE, "far": _COMPACT, "driver": _DRIVER,
}  # fmt: skip
# Of the car: lateral acceleration and rate of the front wheels as in Cusumano-Towner et al. 2025
# (the jerk model has them too).
_CAR_LIMITS = {"max_lateral_mps2": 4.0, "max_steering_rate_radps": 0.6}


@dataclass(frozen=True)
class DriveConfig:
    """Settings of the driving env (csrc/drive/tables.h); units are in the names.

    Raises:
        ConfigError: a value outside its bounds, or an unknown name; the message names the field,
            the value and what is allowed.
    """

    num_agents: int = 256
    """Agent rows of one env: a bundle of whole scenes that fit."""
    control: Control = "moving"
    """Which objects are agents, of those that are there when the scene starts. moving (0): vehicles
    whose goal is at least 2 m away and that the data does not mark as expert; valid (1): all
    vehicles; all: pedestrians and cyclists too. In these three, nobody is who starts within the
    goal radius of its goal: it stays parked. predict: the data set's tracks to predict; sdc: its
    self-driving car; ids: those of control_ids.
    """
    resample_steps: int = 910
    """Steps after which an env draws other scenes; open episodes are truncated."""
    max_steps: int = 0
    """Steps of one episode of a scene; 0 for the length of its log."""
    partners: int = AS_PRESET
    """Nearest other cars, cyclists and pedestrians that an agent observes. -1: as the preset says;
    compact: 12.
    """
    lanes: int = AS_PRESET
    """Nearest segments of lane centre lines that an agent observes. -1: as the preset says;
    compact: 16.
    """
    lines: int = AS_PRESET
    """Nearest segments of painted lines that an agent observes. -1: as the preset says; compact: 8.
    """
    edges: int = AS_PRESET
    """Nearest segments of road edges that an agent observes. -1: as the preset says; compact: 16.
    """
    observe_previous_action: int = 0
    """1: an agent also observes the acceleration and steering that it chose in the last step."""
    observe_motion: int = AS_PRESET
    """1: an agent also observes its acceleration, lateral acceleration and steering angle, as
    limits on them left them. -1: as the preset says; driver: 1, all others: 0.
    """
    raster: int = 0
    """Pixels along each side of a bird's-eye view that an agent observes, from 16; 0 for none. It
    is a picture of bytes, one channel per kind of thing, turned with the car.
    """
    raster_pixel_m: float = 0.5
    """Metres along the side of a pixel of the bird's-eye view."""
    raster_ahead: float = 0.75
    """Share of the bird's-eye view that lies ahead of the car's centre; the rest lies behind."""
    raster_alone: int = 0
    """1: an agent observes the bird's-eye view alone, and none of the numbers."""
    raster_channels: RasterChannels = "basic"
    """Of the bird's-eye view. basic: roads, the goal and objects, in nine channels; traffic: also
    crosswalks, traffic lights by colour, and stop lines.
    """
    range_m: float = 50.0
    """Nothing farther away than this is observed; a bird's-eye view shows what is in it."""
    goal_radius_m: float = 2.0
    """The goal counts as reached when the car's centre is at most this far from it."""
    goal_behavior: GoalBehavior = field(default="remove", metadata={"was": "remove_at_goal"})
    """What becomes of an agent that reaches its goal. drive_on (0): nothing; remove (1): its
    episode ends and its car is gone;
    stop: its episode ends and its car stays as an obstacle; respawn: its episode ends and begins
    again at its start, and from then on it drives alone: nobody sees or touches it, and it nobody;
    next: it gets another goal, next_goal_m farther along.
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
    """Reward per metre from where the log has the car, in every step; below 0 to imitate it."""
    reward_haste: float = 0.0
    """Reward per m/s above twice the speed that reaches the goal in time, in every step; below 0 so
    that nothing is gained by arriving early.
    """
    unknown_speed_limit_mps: float = 0.0
    """Speed limit of lanes for which the scene has none; 0: they have no limit."""
    observe_weights: int = 0
    """1: an agent also observes where each of its weights lies in its range, from -1 to 1."""
    draw_rewards: int = 1
    """1: weights with a range (reward_ranges) are drawn from it for each agent and episode; 0: the
    settings hold for all.
    """
    max_speed_mps: float = 30.0
    """Speed limit of the dynamics, forward."""
    max_reverse_mps: float = 5.0
    """Speed limit of the dynamics, backward."""
    wheelbase_factor: float = 0.6
    """Wheelbase as a share of the car's length."""
    replay_log: int = 0
    """1: agents follow their log instead of their actions (the baseline "log"); crashes and goals
    are judged as usual.
    """
    metrics: int = 0
    """1: episodes also record faults, lanes, comfort, times to collision and distances from the
    log; always in evaluations.
    """
    observation: Observation = "compact"
    """Preset of observations. compact: see docs/drive.md; pufferdrive: the 1848 numbers of
    PufferDrive; gpudrive: the 2984 of GPUDrive; far: compact, with segments spread over the range;
    driver: compact, with the way to the goal, who is on foot, lights, stop signs and the car's own
    motion. Settings of single blocks may differ from it.
    """
    row_dtype: RowDtype = "float32"
    """Type of the numbers in a row. A float16 rounds them to 11 bits, a uint8 shows each column in
    253 steps.
    """
    segments: SegmentChoice = "nearest"
    """Which segments of a type are observed. nearest: those; spread: some of each of four rings
    around the car, up to 1/8, 1/4, 1/2 and all of the range.
    """
    roads: int = AS_PRESET
    """Nearest segments of all types in the road block of the presets pufferdrive and gpudrive. -1:
    as the preset says; 200.
    """
    partner_types: int = AS_PRESET
    """1: compact partners also show whether they are a vehicle, a pedestrian or a cyclist. -1: as
    the preset says; driver: 1.
    """
    route: int = AS_PRESET
    """Points of the way to the goal along the lane graph; 0 for none. -1: as the preset says;
    driver: 8. Where lanes part, it takes the exit that ends nearest to the goal.
    """
    route_step_m: float = 10.0
    """Metres between two of these points."""
    controls: int = AS_PRESET
    """Nearest traffic lights and stop signs that an agent observes, with their stop lines. -1: as
    the preset says; driver: 4.
    """
    lidar_rays: int = 0
    """Rays that measure how far it is to the next road edge or object, and what it is; 0 for none.
    """
    lidar_fov_deg: float = 360.0
    """Field of view of the rays, its middle ahead."""
    lidar_range_m: float = 50.0
    """Length of the rays."""
    others: Others = "log"
    """Who moves the objects that are no agents. log: their log; they come and go with it. static:
    nobody; they stay where they are when the scene starts. idm: vehicles that move in the log drive
    along it, and on along the lanes, by the intelligent driver model; the rest follow their log.
    """
    init_step: int = 0
    """Frame of the log in which scenes start. Agents are among those who are there in it."""
    collision_behavior: CollisionBehavior = "ignore"
    """What becomes of an agent after a contact. ignore: nothing; stop: its episode ends and its car
    stays as an obstacle;
    remove: its episode ends and its car is gone.
    """
    offroad_behavior: OffroadBehavior = "ignore"
    """The same after it has touched or crossed a road edge."""
    respawn_goal_share: float = 0.25
    """What an agent is paid for reaching its goal again after a respawn, as a share of reward_goal.
    """
    next_goal_m: float = 40.0
    """How far along the lanes the next goal lies (goal_behavior=next)."""
    idm_agents: int = 0
    """1: agents that are vehicles drive by IDM along the path of their log, and on along its lane,
    instead of by their actions; other agents stand still.
    """
    idm_speed_mps: float = 0.0
    """Speed that vehicles under others=idm want; 0 for the largest one of their log."""
    idm_headway_s: float = 1.5
    """Time gap that they keep to the vehicle ahead."""
    idm_gap_m: float = 2.0
    """Distance that they keep to it when they stand."""
    idm_acceleration_mps2: float = 1.5
    """Largest acceleration of theirs."""
    idm_braking_mps2: float = 2.0
    """Braking that they find comfortable."""
    traffic_idm: float = 0.0
    """Share of the vehicles that could be agents which IDM drives in an episode, drawn for each;
    their rows are empty. At least one agent of a scene is left to the policy. 0 in evaluations.
    """
    traffic_log: float = 0.0
    """Share of them that follows its log instead, likewise."""
    reward_ranges: str = field(default="", metadata={"python": True})
    """Rewards whose weights differ between agents: "collision=-3:-0.5 lane_align=0:0.02" draws
    reward_collision and reward_lane_align from these ranges.
    """
    control_ids: tuple[int, ...] = field(default=(), metadata={"python": True})
    """Track ids of the agents under control=ids; in each scene those that it has."""
    dynamics: Dynamics = "bicycle"
    """How agents move (docs/drive.md has the formulas): a kinematic bicycle; GPUDrive's and
    PufferDrive's classic models; a bicycle by acceleration and curvature; displacements in the
    car's frame; poses that are set; PufferDrive's jerk model; car: the bicycle with limits and
    finer steering.
    """
    actions: Actions = "discrete"
    """discrete: one number for a combination of values; multi_discrete: one per axis; continuous: a
        Box, in their units.
    """
    expert_actions: int = 0
    """1: agents play the actions by which the model follows their log, instead of their own."""
    max_acceleration_mps2: float = AS_PRESET
    """Limit on accelerations along the heading, both ways; 0: none, and so is -1."""
    max_lateral_mps2: float = AS_PRESET
    """Grip: limit on the lateral acceleration. Where it would be more, the car turns less; 0: none;
    -1: as the model says; car: 4, all others: none.
    """
    max_jerk_mps3: float = AS_PRESET
    """Limit on how fast the acceleration changes; 0: none, and so is -1."""
    max_steering_rate_radps: float = AS_PRESET
    """Limit on how fast the front wheels turn; 0: none; -1: as the model says; car: 0.6, all
    others: none.
    """
    scene_draws: SceneDraws = "independent"
    """How scenes are drawn. independent: by their weights, whatever was drawn before; passes: an
    env goes through all of them, each once, in a random order, then in another order; sets with
    weights take turns, each with passes of its own.
    """
    replay_failed: float = 0.0
    """Probability with which a scene is drawn again if an agent failed in the last episode of its
    bundle; at most three times in a row.
    """
    action_values: tuple[str, ...] = field(default=(), metadata={"python": True})
    """What actions choose from, as acceleration=-4,0,2 steering=-0.5,0,0.5 for the axes of the
    model; an axis that is not named keeps its own values. A continuous action goes from the least
    to the greatest of them.
    """
    scenes: str = field(default=DEFAULT_SCENES, metadata={"python": True})
    """"generated": 200 generated scenes; "generated:N": N of them; "held-out": 100 others;
    "streets", "streets:N" and "held-out-streets": likewise, of the size of real ones; a folder of
    scene files, or a file; or several, as "A,B" or "A=3,B=1" with weights.
    """
    split: Literal["all", "train", "validation", "test"] = field(
        default="all", metadata={"python": True}
    )
    """Which of the scenes: "all", or "train" (80 %), "validation" or "test" (10 % each), by a hash
        of the file's name.
    """
    simplify_m: float = field(default=0.1, metadata={"python": True})
    """Largest distance between a simplified lane, line or edge and the original."""

    # Of an instance: settings that it took from a preset, as they were given.
    unresolved: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        for name, names in CHOICES.items():
            object.__setattr__(self, name, _chosen(name, getattr(self, name), names))
        limits = {
            name: _CAR_LIMITS.get(name, 0.0) if self.dynamics == "car" else 0.0 for name in LIMITS
        }
        taken: dict[str, Any] = {
            name: value
            for name, value in {**PRESETS[self.observation], **limits}.items()
            if getattr(self, name) == AS_PRESET
        }
        if self.observation == "far":
            taken["segments"] = "spread"
        object.__setattr__(self, "unresolved", {name: getattr(self, name) for name in taken})
        for name, preset in taken.items():
            object.__setattr__(self, name, preset)
        for item in dataclasses.fields(self):
            if item.name not in _BOUNDS:
                continue
            value, (low, high) = getattr(self, item.name), _BOUNDS[item.name]
            found = f"drive: {item.name} is {value!r}; it must be"
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
                raise ConfigError(f"{found} a number from {low:g} to {high:g}")
            if not low <= value <= high:
                raise ConfigError(f"{found} from {low:g} to {high:g}")
            if item.type == "int" and value != int(value):
                raise ConfigError(f"{found} a whole number from {low:g} to {high:g}")
        if not isinstance(self.scenes, str) or not self.scenes:
            raise ConfigError(f"drive: scenes is {self.scenes!r}; it must be {SCENES_ALLOWED}")
        if self.split not in SPLITS:
            raise ConfigError(
                f"drive: split is {self.split!r}; it must be one of {', '.join(SPLITS)}"
            )
        if 0 < self.raster < LEAST_RASTER:
            raise ConfigError(
                f"drive: raster is {self.raster}; it must be 0 (none), or from {LEAST_RASTER} on"
            )
        if self.raster_alone and not self.raster:
            raise ConfigError(
                "drive: raster_alone is 1, but raster is 0: nothing would be observed; set raster "
                "to its pixels"
            )
        if self.raster_channels != "basic" and not self.raster:
            raise ConfigError(
                f"drive: raster_channels is {self.raster_channels}, but raster is 0: there is no "
                "view; set raster to its pixels"
            )
        self._check_traffic()
        parse_ranges(self.reward_ranges)
        object.__setattr__(self, "control_ids", _ids(self.control_ids))
        object.__setattr__(self, "scenes", _resolved(self.scenes))
        object.__setattr__(self, "action_values", as_texts(self.action_values))
        self._check_motion()
        self._check_players()

    def _check_players(self) -> None:
        given = [name for name in PLAYERS if getattr(self, name)]
        if len(given) > 1:
            raise ConfigError(
                f"drive: {' and '.join(given)} are 1, but each drives the agents in its own way: "
                "set one of them"
            )

    def _check_traffic(self) -> None:
        if self.traffic_idm + self.traffic_log > 1.0:
            raise ConfigError(
                f"drive: traffic_idm is {self.traffic_idm:g} and traffic_log "
                f"{self.traffic_log:g}; their sum must be at most 1"
            )
        if self.traffic_log and self.others == "static":
            raise ConfigError(
                f"drive: traffic_log is {self.traffic_log:g}, but others=static: what a log moves "
                "stands still; set it to 0, or others to log or idm"
            )

    def _check_motion(self) -> None:
        values = given_values(self.action_values, self.dynamics)
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
        """Observed segments per type: lanes, lines, edges."""
        return (self.lanes, self.lines, self.edges)


def _chosen(setting: str, value: object, names: tuple[str, ...]) -> str:
    """Return a setting's name; older runs may give a number instead."""
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and 0 <= value < NUMBERED.get(setting, 0)
    ):
        return names[value]
    if not isinstance(value, str) or value not in names:
        raise ConfigError(f"drive: {setting} is {value!r}; it must be one of {', '.join(names)}")
    return value


def _ids(given: Any) -> tuple[int, ...]:
    """Return a list of track ids as a sorted tuple without repetitions."""
    if not isinstance(given, (tuple, list)) or not all(
        type(number) is int and -(2**31) <= number < 2**31 for number in given
    ):
        raise ConfigError(
            f"drive: control_ids is {given!r}; it must be a list of whole numbers, as (3, 17)"
        )
    return tuple(sorted(set(given)))


def sets_of(scenes: str) -> list[tuple[str, float | None]]:
    """Return the sets that the setting `scenes` names, each with its weight, None where it has
    none.

    A path that exists counts as one set, whatever it is called.

    >>> sets_of("generated:50,held-out=0.5")
    [('generated:50', None), ('held-out', 0.5)]
    """
    if _exists(scenes):
        return [(scenes, None)]
    found: list[tuple[str, float | None]] = []
    for part in scenes.split(","):
        name, _, weight = part.rpartition("=")
        given = (
            bool(name)
            and not _exists(part)
            and re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", weight) is not None
        )
        if given and not float(weight):
            raise ConfigError(
                f"drive: the weight of {name} is {weight}; it must be above 0, or leave the set out"
            )
        found.append((name, float(weight)) if given else (part, None))
    return found


def _exists(name: str) -> bool:
    try:
        return Path(name).expanduser().exists()
    except (
        OSError,
        RuntimeError,
        ValueError,
    ):  # not a file name; reading it will fail with the reason
        return False


def _resolved(scenes: str) -> str:
    """Return the setting with absolute paths where there are such files or folders."""
    found = []
    for name, weight in sets_of(scenes):
        generated = name.partition(":")[0] in (*EVALUATED_ON, *EVALUATED_ON.values())
        path = name if generated or not _exists(name) else str(Path(name).expanduser().absolute())
        found.append(path if weight is None else f"{path}={weight:g}")
    return ",".join(found)
