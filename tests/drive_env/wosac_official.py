# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Ask waymo_open_dataset for features and likelihoods: `python wosac_official.py IN.npz OUT.npz`.

It needs TensorFlow with NumPy 1, so it runs in an interpreter of its own and imports nothing of
puffervec. See test_realism_official.py, which writes IN.npz and reads OUT.npz.

IN.npz, of a scene: x, y, heading, valid (M, 91) of the log; length, width, kind (M,); sim_x, sim_y,
sim_heading (R, M, 80) of rollouts; evaluated (N,) in ascending order; points (P, 2) of road edges,
and the polyline of each (P,); lane_points (Q, 2) of lanes, the lane of each (Q,) lane_of, and of
lights light_lane (L,), light_stop (L, 2) and light_red (L, 91). Of samples: log_NAME (N, T),
sim_NAME (R, N, T) for features that have a histogram, or 0 and 1 in (N, 1), (R, N, 1) for those
that happen or not.
OUT.npz, of a scene: log_NAME (N, 80) and sim_NAME (R, N, 80) for each feature; for each YEAR of the
challenge YEAR_NAME: the likelihoods, weighted sums and weights (weight_NAME). Of samples: NAME,
log-probabilities as log_NAME.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from waymo_open_dataset.protos import (
    map_pb2,
    scenario_pb2,
    sim_agents_metrics_pb2,
    sim_agents_submission_pb2,
)
from waymo_open_dataset.utils.sim_agents import submission_specs
from waymo_open_dataset.wdl_limited.sim_agents_metrics import estimators, metric_features, metrics

CONFIGS = {
    "2024": "challenge_2024_config.textproto",
    "2025": "challenge_2025_sim_agents_config.textproto",
}
CHALLENGE = submission_specs.ChallengeType.SIM_AGENTS
KINDS = (1, 2, 3, 4)  # vehicle, pedestrian, cyclist, other
LANES = 100_000  # the id of the first lane


def scenario_of(given: dict[str, Any]) -> Any:
    """Make the log a Scenario. What is not valid has zeros, as in the data set."""
    found = scenario_pb2.Scenario(scenario_id="scene", current_time_index=10)
    found.sdc_track_index = int(given["evaluated"][0])
    found.timestamps_seconds.extend(0.1 * np.arange(given["x"].shape[1]))
    for number, kind in enumerate(given["kind"]):
        track = found.tracks.add(id=number + 1, object_type=KINDS[int(kind)])
        for time, valid in enumerate(given["valid"][number]):
            state = track.states.add(valid=bool(valid))
            if valid:
                state.center_x, state.center_y = given["x"][number, time], given["y"][number, time]
                state.heading = given["heading"][number, time]
                state.length, state.width, state.height = (
                    given["length"][number],
                    given["width"][number],
                    1.5,
                )
    for number in given["evaluated"][1:]:
        found.tracks_to_predict.add(track_index=int(number))
    for number in np.unique(given["polyline"]):
        of = given["points"][given["polyline"] == number]
        points = [map_pb2.MapPoint(x=x, y=y, z=0.0) for x, y in of.tolist()]
        found.map_features.add(id=int(number) + 1).road_edge.polyline.extend(points)
    for number in np.unique(given["lane_of"]):
        of = given["lane_points"][given["lane_of"] == number]
        points = [map_pb2.MapPoint(x=x, y=y, z=0.0) for x, y in of.tolist()]
        lane = found.map_features.add(id=LANES + int(number)).lane
        lane.type = lane.TYPE_SURFACE_STREET
        lane.polyline.extend(points)
    for time in range(given["x"].shape[1]):
        lights = found.dynamic_map_states.add().lane_states
        for number, (x, y), red in zip(
            given["light_lane"].tolist(),
            given["light_stop"].tolist(),
            given["light_red"][:, time],
            strict=True,
        ):
            light = lights.add(lane=LANES + number, stop_point=map_pb2.MapPoint(x=x, y=y, z=0.0))
            light.state = light.LANE_STATE_STOP if red else light.LANE_STATE_GO
    return found


def rollouts_of(given: dict[str, Any], scenario: Any) -> Any:
    """Make the rollouts of all objects that are there at the current time ScenarioRollouts."""
    found = sim_agents_submission_pb2.ScenarioRollouts(scenario_id="scene")
    for rollout in range(len(given["sim_x"])):
        scene = found.joint_scenes.add()
        for number in submission_specs.get_sim_agent_ids(scenario, CHALLENGE):
            of = (rollout, number - 1)
            scene.simulated_trajectories.add(
                object_id=number,
                center_x=given["sim_x"][of],
                center_y=given["sim_y"][of],
                center_z=np.zeros(given["sim_x"].shape[-1]),
                heading=given["sim_heading"][of],
            )
    if len(found.joint_scenes) == 32:
        submission_specs.validate_scenario_rollouts(found, scenario)
    return found


def config_of(year: str) -> Any:
    """Read the challenge's settings."""
    found = sim_agents_metrics_pb2.SimAgentMetricsConfig()
    text_format.Parse(Path(metrics.__file__).with_name(CONFIGS[year]).read_text(), found)
    return found


def of_samples(given: dict[str, Any]) -> dict[str, Any]:
    """Return log-probabilities of samples."""
    config, found = config_of("2024"), {}
    for name in [key.removeprefix("log_") for key in given if key.startswith("log_")]:
        feature = getattr(config, name)
        kind = tf.float32 if feature.HasField("histogram") else tf.bool
        log, sim = (tf.cast(given[f"{of}_{name}"], kind) for of in ("log", "sim"))
        found[name] = estimators.log_likelihood_estimate_timeseries(feature, log, sim).numpy()
    return found


def of_scene(given: dict[str, Any]) -> dict[str, Any]:
    """Return features, likelihoods and their sums."""
    scenario = scenario_of(given)
    rollouts = rollouts_of(given, scenario)
    log, sim = metric_features.compute_scenario_rollouts_features(scenario, rollouts, CHALLENGE)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(log):
        if field.name != "object_id":
            found["log_" + field.name] = getattr(log, field.name).numpy()[0]
            found["sim_" + field.name] = getattr(sim, field.name).numpy()
    for year in CONFIGS:
        config = config_of(year)
        scored = metrics.compute_scenario_metrics_for_features_bundle(config, "scene", log, sim)
        groups = metrics.aggregate_metrics_to_buckets(config, scored)
        for of in (scored, groups):
            fields = [field.name for field, _ in of.ListFields() if field.name != "scenario_id"]
            found |= {f"{year}_{name}": getattr(of, name) for name in fields}
        for field, feature in config.ListFields():
            found[f"{year}_weight_{field.name}"] = feature.metametric_weight
    return found


if __name__ == "__main__":
    with np.load(sys.argv[1]) as file:
        given = dict(file)
    np.savez(sys.argv[2], **(of_scene(given) if "x" in given else of_samples(given)))
