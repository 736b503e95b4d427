# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The trained driver that comes with the package (drive_env/trained/driver): what it weighs, that
it drives, and that its card states what the commands print. scripts/ship_driver.py writes it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

import puffervec
from drive_env.config import EVALUATED_ON, sets_of
from drive_env.env import DRIVER_NAME, TRAINED
from drive_env.evaluate.evaluate import baseline, evaluate
from puffervec.commands import cli
from puffervec.commands.eval import EvalRequest, run_evaluation
from puffervec.commands.players import PlayerRequest, find_player, with_named_policy
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train.config.target import trained_policy
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run.find import find_checkpoint
from puffervec.train.run.rundir import config_from_tables

FOLDER = TRAINED / DRIVER_NAME
CARD: dict[str, Any] = json.loads((FOLDER / "card.json").read_text())
SOME = {"scenes": "generated:4"}
TOLERANCE = 0.02  # Of rates; other CPUs sum in another order, and a car may then take another way.


def test_it_is_small_and_whole() -> None:
    manifest = ckpt.read(FOLDER).manifest
    assert set(manifest["files"]) == {"default.safetensors"}
    names = {path.name for path in FOLDER.iterdir()}
    assert names == {"manifest.json", "default.safetensors", "README.md", "card.json"}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2_000_000


def test_it_has_seen_generated_scenes_alone() -> None:
    config = config_from_tables(ckpt.read_manifest(FOLDER)["config"], learns=False)
    assert {name.partition(":")[0] for name, _ in sets_of(config.env.scenes)} <= set(EVALUATED_ON)
    assert config.train.kl_to == "" and config.env.scenes == CARD["scenes"]
    assert os.sep not in json.dumps(config.tables()["env"])


@pytest.mark.slow
def test_it_drives(cache: Path) -> None:
    """Better than cars that stop, and than those that keep their speed."""
    policy = puffervec.load_policy("driver", settings=SOME)
    assert policy.checkpoint == FOLDER
    score = evaluate(policy, policy.config.env).total.rate("score")
    for name in ("stop", "constant-velocity"):
        assert score > 0.1 + evaluate(baseline(name), policy.config.env).total.rate("score")
    assert score > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("scenes", CARD["scores"])
def test_the_card_states_what_the_command_prints(scenes: str, tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    assert cli.main(["eval", "driver", "--scenes", scenes, "--json", str(out)]) == 0
    found, stated = json.loads(out.read_text()), CARD["scores"][scenes]
    assert found["policy"] == "driver" and len(found["rows"]) == stated["scenes"]
    assert found["total"]["agents"] == stated["agents"]
    for name in ("score", "goal", "collision", "offroad", "comfortable", "lawful"):
        assert found["total"][name] == pytest.approx(stated[name], abs=TOLERANCE), name
        assert f"{stated[name]:.3f}" in (FOLDER / "README.md").read_text()


@pytest.mark.slow
def test_its_name_stands_for_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trained_policy("driver") == find_checkpoint("driver", Path("runs")) == FOLDER
    scenes = ("--scenes", SOME["scenes"])
    run_evaluation(EvalRequest("drive", baseline="stop,driver", env_flags=scenes))
    assert "driver: score" in capsys.readouterr().out
    against = EvalRequest(
        "driver", suite="traffic", against=("driver",), episodes=1, env_flags=scenes
    )
    run_evaluation(against, parts=False)
    assert "driver on generated:4" in capsys.readouterr().out
    (tmp_path / "driver").mkdir()  # A folder of that name has precedence.
    with pytest.raises(CheckpointError, match="driver has no complete checkpoint"):
        find_checkpoint("driver", Path("runs"))
    with pytest.raises(CheckpointError, match="chauffeur does not exist"):
        find_checkpoint("chauffeur", Path("runs"))


@pytest.mark.slow
def test_an_env_is_played_with_a_named_policy(cache: Path) -> None:
    request = PlayerRequest("drive", code=(None, "driver"), env_flags=("--scenes", SOME["scenes"]))
    named = with_named_policy(request)
    assert (named.target, named.of_env, named.code) == ("driver", "drive", (None, None))
    player = find_player(named, lambda config: config)
    assert player.label == "driver" and player.config.env.scenes == SOME["scenes"]
    own_code = dataclasses.replace(request, code=(None, "my_nets:Net"))
    assert with_named_policy(own_code) == own_code
    other = with_named_policy(dataclasses.replace(request, target="cartpole"))
    with pytest.raises(ConfigError, match="--policy driver acts in drive, not in cartpole"):
        find_player(other, lambda config: config)
