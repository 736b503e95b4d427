# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What benchmarks step: actions, counted transitions, the C loop."""

from __future__ import annotations

import numpy as np
import pytest

from bench.workloads import Workload, c_loop, count_shares, draw_actions, half_actions
from puffervec.vec.vector_env import VectorEnv

PROBE = Workload(
    "probe", "probe", {"episode_length": 3, "num_agents": 2}, num_envs=4, episode_turns=4
)
TWO_GROUPS = Workload("probe", "probe", {"mode": 1, "num_agents": 2}, num_envs=4)


def test_actions_are_in_range_contiguous_and_the_same_in_every_run() -> None:
    with TWO_GROUPS.make("serial") as vec:
        drawn, again = draw_actions(vec.spec, 4), draw_actions(vec.spec, 4)
        assert set(drawn) == {"scouts", "towers"}
        for group in vec.spec.groups:
            actions = drawn[group.name]
            assert actions.dtype == np.int32 and actions.flags.c_contiguous
            assert (
                actions.min() >= 0
                and (
                    actions.reshape(-1, group.action_dims).max(axis=0)
                    == np.array(group.action_sizes) - 1
                ).all()
            )
            assert np.array_equal(actions, again[group.name])


@pytest.mark.parametrize("workload", [PROBE, TWO_GROUPS], ids=["one group", "two groups"])
def test_halves_get_their_own_rows_of_the_same_batches(workload: Workload) -> None:
    with workload.make("serial", num_buffers=2) as vec:
        drawn = draw_actions(vec.spec, workload.num_envs)
        halves = half_actions(vec, drawn)
        for name, batches in drawn.items():
            both = [h[0][name] if isinstance(h[0], dict) else h[0] for h in halves]
            assert np.array_equal(np.concatenate(both), batches[0])


def test_resets_are_no_steps() -> None:
    """Episodes of three steps and one reset: three of four turns are transitions, for all envs and
    agents alike.
    """
    with PROBE.make("serial") as vec:
        drawn = draw_actions(vec.spec, 4)
    shares = count_shares(PROBE, drawn, 8)
    assert shares.env_steps == 4 * 3 / 4
    assert shares.agent_steps == 4 * 2 * 3 / 4


def test_agents_that_left_take_no_steps() -> None:
    """With leave=1, agent 1 of 2 is gone after step 1: per episode of 3 steps and a reset, 3 + 1
    transitions of agents.
    """
    leaving = Workload(
        "probe", "probe", {"episode_length": 3, "num_agents": 2, "leave": 1}, num_envs=4
    )
    with leaving.make("serial") as vec:
        drawn = draw_actions(vec.spec, 4)
    shares = count_shares(leaving, drawn, 8)
    assert shares.agent_steps == 4 * (3 + 1) / 4 and shares.env_steps == 4 * 3 / 4


def test_the_c_loop_takes_every_turn_with_the_drawn_actions() -> None:
    """The same rows stand at its end as after as many turns of the vector env."""
    with PROBE.make("serial") as vec:
        drawn = draw_actions(vec.spec, 4)
        vec.recv()
        batches = half_actions(vec, drawn)[0]
        for turn in [*range(3), *range(5)]:  # warm-up and timed part begin with batch 0 each
            vec.send(batches[turn % len(batches)])
            wanted = vec.recv()[0].copy()
    kept = []
    close = VectorEnv.close

    def keep(self: VectorEnv) -> None:
        kept.append(self.halves[0].groups["agents"].observations.copy())
        close(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VectorEnv, "close", keep)
        seconds = c_loop(PROBE, drawn, 5, 3)
    assert seconds > 0 and np.array_equal(kept[0], wanted)
