# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Opponents from other runs: puffervec/train/run/opponents.py and puffervec/train/run/trained.py,
alone and in pools.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from puffervec.commands.eval import EvalRequest, parse, run_evaluation
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train import TrainConfig, Trainer, load_policy
from puffervec.train.act.acting import Sides
from puffervec.train.act.evaluate import RandomActor, evaluate_generic
from puffervec.train.config import flags
from puffervec.train.device.ranks import GroupRanks
from puffervec.train.policies.pool import Pool
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run import checkpoint as ckpt
from tests.helpers import thinned
from tests.train.gangs import all_well
from tests.train.test_resume import SAVED, UPDATES, StopAt, bytes_of, everything, go_on

Small = Callable[..., TrainConfig]
CHASE = ("taggers=tagger", "runner=runner")


@pytest.fixture
def chase(small: Small) -> Small:
    def make(**tables: Any) -> TrainConfig:
        env, network = {"num_taggers": 3, "episode_length": 5}, {"map": CHASE, "hidden": (5,)}
        return small("tag_grid", env=env, policy=network).merged(tables)

    return make


@pytest.fixture
def league(chase: Small) -> Path:
    """A run with three checkpoints; its networks are others than those of `chase`."""
    network = {"runner": {"memory": "mingru", "hidden": [3]}}
    with Trainer(
        chase(
            log={"name": "league", "checkpoint_interval_s": 0}, policies=network, train={"lr": 0.1}
        )
    ) as trainer:
        for _ in range(3):
            trainer.collect()
            trainer.update()
            trainer.save()
        return trainer.folder


def tensors_of(path: Path, name: str) -> dict[str, torch.Tensor]:
    return ckpt.read(path, only=(name,)).tensors[name]


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", thinned(2, [False, True]))
def test_an_opponent_plays_as_it_is_and_its_run_may_go(
    chase: Small, league: Path, asynchronous: bool
) -> None:
    config = chase(
        policies={"runner": {"opponent": str(league)}}, train={"asynchronous": asynchronous}
    )
    best = tensors_of(ckpt.listed(league / "checkpoints")[-1], "runner")
    with Trainer(config) as trainer:
        assert trainer.describe().endswith(", runner played by 1 of other runs")
        metrics = trainer.train()
        assert "losses/taggers/policy" in metrics and not any(
            "losses/runner" in key for key in metrics
        )
        assert metrics["step"] % 3 == 0, "steps of three taggers; those of the runner teach nothing"
        now = trainer.policies["runner"].state_dict()
        assert (
            all(torch.equal(best[name], part) for name, part in now.items())
            and not trainer.policies["runner"].training
        )
        storage = trainer.slots["runner"].storage
        assert storage.obs[""].untyped_storage().nbytes() == storage.obs[""][0].nbytes, (
            "one step of observations is kept"
        )
        path, folder = trainer.save(), trainer.folder
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["policies"]["runner"]["opponents"][0]["policy"] == "runner"
    assert manifest["config"]["policies"]["runner"] == {
        "opponent": str(league),
        "memory": "mingru",
        "hidden": [3],
    }
    shutil.rmtree(league)
    with Trainer(config, checkpoint=path) as trainer:
        assert trainer.collect() and "losses/taggers/policy" in trainer.update()
    loaded = load_policy(folder).policies["runner"].state_dict()
    assert all(torch.equal(best[name], part) for name, part in loaded.items())


@pytest.mark.slow
def test_one_of_a_pool_plays_each_episode(chase: Small, league: Path) -> None:
    pool = str(league / "checkpoints")
    config = chase(
        policies={"taggers": {"opponent": pool}},
        vec={"num_envs": 16, "num_buffers": 2},
        train={"horizon": 40},
    )

    def played(threads: int, seed: int = 1) -> torch.Tensor:
        """Who has played which env, by step: (steps, 16)."""
        seen = []
        with Trainer(config.merged({"train": {"threads": threads, "seed": seed}})) as trainer:
            assert (
                isinstance(trainer.policies["taggers"], Pool)
                and len(trainer.policies["taggers"].members) == 3
            )
            rollout, stop = trainer.collector.rollout, lambda: bool(seen.append(who(trainer)))
            assert rollout.collect(stop)
        return torch.stack(seen[2::2])

    def who(trainer: Trainer) -> torch.Tensor:
        rows = torch.cat(
            [turn.states["taggers"][-2] for turn in trainer.collector.rollout.turns]
        ).view(16, 3)
        assert bool((rows == rows[:, :1]).all()), "the rows of an env have the same opponent"
        return rows[:, 0].clone()

    found = played(1)
    assert set(found.flatten().tolist()) == {0, 1, 2}
    changes = (found[1:] != found[:-1]).any(1).nonzero().flatten()
    # An episode has five steps, and its last row is followed by the first of the next.
    assert len(changes) > 3 and len({int(step) % 6 for step in changes}) == 1, (
        "only where episodes begin"
    )
    assert torch.equal(found, played(3)) and not torch.equal(found, played(1, seed=2))


@pytest.mark.parametrize(
    "train",
    [
        {},
        *(
            pytest.param({key: True}, marks=pytest.mark.slow)
            for key in ("asynchronous", "deterministic")
        ),
    ],
)
def test_resume_is_exact_against_a_pool(chase: Small, league: Path, train: dict[str, Any]) -> None:
    opponents = {
        "runner": {"opponent": [str(league), *map(str, ckpt.listed(league / "checkpoints")[:2])]}
    }
    config = chase(
        policies=opponents, train={"total_timesteps": 100_000, **train}, policy={"memory": "lstm"}
    )
    with Trainer(config, dashboard=StopAt(0)) as trainer:
        go_on(trainer, UPDATES)
        straight, counters, lines = everything(trainer)
    with Trainer(config, dashboard=StopAt(0)) as trainer:
        go_on(trainer, SAVED)
        path = trainer.save()
        manifest = json.loads((path / "manifest.json").read_text())
        newest = ckpt.listed(league / "checkpoints")[1]
        assert [source["checkpoint"] for source in manifest["policies"]["runner"]["opponents"]][
            -1
        ] == str(newest)
        last = tensors_of(newest, "runner")
        assert all(
            torch.equal(last[name], part) for name, part in tensors_of(path, "runner").items()
        ), "the last stands for it"
    shutil.rmtree(league)
    with Trainer(config, checkpoint=path, dashboard=StopAt(0)) as trainer:
        go_on(trainer, UPDATES)
        resumed, again, more = everything(trainer)
    assert again == counters and more[-1] == lines[-1] and resumed.keys() == straight.keys()
    assert [
        name for name, part in straight.items() if bytes_of(part) != bytes_of(resumed[name])
    ] == []


@pytest.mark.slow
def test_ranks_have_the_same_opponent(chase: Small, league: Path) -> None:
    config = chase(
        policies={"runner": {"opponent": str(league / "checkpoints")}}, log={"name": "ranks"}
    )

    def work(ranks: GroupRanks) -> tuple[torch.Tensor, torch.Tensor]:
        with Trainer(config, ranks=ranks) as trainer:
            assert trainer.collect()
            trainer.update()
            trainer.save()
            weights = torch.cat(
                [part.flatten() for part in trainer.policies["taggers"].state_dict().values()]
            )
            return weights, torch.cat(
                [part.flatten() for part in trainer.policies["runner"].state_dict().values()]
            )

    (mine, against), (other, its) = all_well(2, work)
    assert torch.equal(mine, other) and torch.equal(against, its)


def test_what_cannot_play_is_refused(
    chase: Small, small: Small, league: Path, tmp_path: Path
) -> None:
    def refused(
        words: str, place: Any = "", config: TrainConfig | None = None, **given: Any
    ) -> None:
        config = config or chase(policies={"runner": {"opponent": place}})
        with pytest.raises((ConfigError, CheckpointError), match=words):
            Trainer(config, **given)

    with Trainer(chase(log={"name": "plain"}, env={"use_full_observation": False})) as trainer:
        partial = trainer.save()
    with Trainer(small("cartpole", log={"name": "pole"})) as trainer:
        pole = trainer.save()
    with Trainer(chase(log={"name": "wide"}, policy={"hidden": (9,)})) as trainer:
        wide = trainer.save()
    refused(
        "policies.runner.opponent: .*nothing does not exist: name a run", str(tmp_path / "nothing")
    )
    refused(
        "policies.runner.opponent: .* is a checkpoint of cartpole whose observations", str(pole)
    )
    refused(
        "policies.runner.opponent: .* is a checkpoint of tag_grid whose observations", str(partial)
    )
    refused(
        "the networks of .* differ: use networks of one kind in a pool", [str(league), str(wide)]
    )
    refused(
        "'runner' is played by an opponent",
        str(league),
        policies={"runner": trainer.policies["runner"]},
    )
    swapped = chase(
        policy={"map": ("runner=0", "rest=1,2,3")}, policies={"runner": {"opponent": str(league)}}
    )
    refused(
        "no policy of .* acts for the agents of 'runner': it has taggers, runner", config=swapped
    )
    with Trainer(chase(policies={"runner": {"opponent": str(wide)}})) as trainer:
        path = trainer.save()
    refused(
        "policies.runner.opponent is .*league.* only a new run can have another",
        str(league),
        checkpoint=path,
    )


def test_a_policy_for_all_plays_a_part(chase: Small, small: Small) -> None:
    with Trainer(
        small("tag_grid", env={"num_taggers": 3, "episode_length": 5}, log={"name": "shared"})
    ) as trainer:
        path = trainer.save()
    with Trainer(chase(policies={"runner": {"opponent": str(path)}})) as trainer:
        played = trainer.policies["runner"].state_dict()
        assert all(
            torch.equal(played[name], part) for name, part in tensors_of(path, "default").items()
        )


# ---- flags, evaluation ---------------------------------------------------------------------------


def test_the_flag_says_who_plays_what(chase: Small) -> None:
    config = chase(policies={"taggers": {"to_train": False}})
    assert flags.group_by_policy(config, ["runner=runs/a", "runner=b", "c/d=e"]) == {
        "runner": ["runs/a", "b"],
        "taggers": ["c/d=e"],
    }
    assert flags.build_config(config, ["--opponent=taggers=x", "--opponent", "y"]).of_policy(
        "taggers"
    ).role.opponent == ("x", "y")
    with pytest.raises(
        ConfigError,
        match="which policy it plays: use --opponent NAME=x, NAME one of taggers, runner",
    ):
        flags.group_by_policy(chase(), ["x"])
    with pytest.raises(ConfigError, match="--opponent: expected one argument"):
        flags.build_config(config, ["--opponent"])
    assert parse(["runs/a", "--opponent", "runner=random", "--opponent=taggers=x"]).opponents == (
        "runner=random",
        "taggers=x",
    )


def test_evaluation_matches_sides(
    chase: Small, league: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*opponents: str) -> str:
        run_evaluation(
            EvalRequest(str(league), episodes=4, opponents=opponents, json=tmp_path / "found.json")
        )
        assert json.loads((tmp_path / "found.json").read_text())["policy"].endswith(
            ", ".join(opponents)
        )
        return capsys.readouterr().out.partition("\n  agent type")[2].partition("means")[0]

    alone, itself, none = said(), said(f"runner={league}"), said("runner=random", "taggers=random")
    assert alone == itself != none
    with pytest.raises(
        ConfigError,
        match="--opponent hare=random: there is no policy 'hare': the policies are taggers, runner",
    ):
        said("hare=random")


def test_each_side_acts_for_its_own_rows(chase: Small) -> None:
    class Stands:
        def reset(self, vec: Any) -> None: ...

        def act(self, obs: Any, vec: Any) -> Any:
            return RandomActor(0).act(obs, vec) * 0

    config = chase()
    rows = RunSpec.of(config).rows
    seen: list[Any] = []

    class Watched(Sides):
        def act(self, obs: Any, vec: Any) -> Any:
            seen.append(super().act(obs, vec).reshape(-1, 4))
            return seen[-1].reshape(-1)

    evaluate_generic(
        "tag_grid",
        config.env,
        Watched(RandomActor(0), {"taggers": Stands()}, rows),
        2,
        1,
        num_envs=2,
    )
    actions = np.array(seen)
    assert not actions[:, :, :3].any() and actions[:, :, 3].any()


@pytest.mark.slow
def test_earlier_checkpoints_drive_beside_traffic_of_many_kinds(
    small: Small, tmp_path: Path
) -> None:
    """Every third row is an earlier policy's, and IDM drives some cars of both; an evaluation,
    whose rows are others, is of the policy that learns.
    """
    env = {"num_agents": 24, "max_steps": 6, "traffic_idm": 0.3, "traffic_kinds": "hasty late"}
    train = {"horizon": 8, "minibatch_size": 128, "total_timesteps": 200}

    def drive(name: str, **tables: Any) -> TrainConfig:
        common = {"env": env, "vec": {"num_envs": 2}, "train": train, "log": {"name": name}}
        return small("drive", **common).merged(tables)

    with Trainer(drive("first")) as trainer:
        trainer.train()
        first = trainer.folder
    rows: dict[str, list[str]] = {"driver": [], "earlier": []}
    for row in range(24):
        rows["earlier" if row % 3 == 0 else "driver"].append(str(row))
    entries = tuple(f"{name}={','.join(numbers)}" for name, numbers in rows.items())
    opponent = {"earlier": {"opponent": str(first)}}
    with Trainer(drive("second", policy={"map": entries}, policies=opponent)) as trainer:
        metrics = trainer.train()
        second = trainer.folder
    assert "losses/driver/policy" in metrics
    assert not any(name.startswith("losses/earlier") for name in metrics)
    found = []
    for words in ([], ["--suite", "traffic", "--against", str(first)]):
        path = tmp_path / "found.json"
        flags_of_env = ["--scenes", "generated:2", "--env.max-steps", "6"]
        run_evaluation(parse([str(second), *words, *flags_of_env, "--json", str(path)]))
        found.append(json.loads(path.read_text()))
    assert found[0]["total"]["agents"] > 2
    assert [row["traffic"] for row in found[1]["rows"]][-1] == str(first)
    with pytest.raises(ConfigError, match="--opponent earlier=random: an evaluation of drive has"):
        run_evaluation(parse([str(second), "--opponent", "earlier=random", *flags_of_env]))
