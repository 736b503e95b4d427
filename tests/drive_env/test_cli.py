# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-scenes`: what each verb does, what it prints, and its exit codes.

Also of drive_env/render/still.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.cli import main
from drive_env.render.picture import caption_of, legend_of_agents
from drive_env.render.still import tracks_of
from drive_env.scenes import open_scenes, write_scenes
from drive_env.scenes.bin_scene import same_content
from drive_env.scenes.goals import with_near_goals
from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.reader import read_scene

MakeTree = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tiny_tree: MakeTree, tmp_path: Path) -> Path:
    """A folder of two scenes, one of them in a subfolder, and a broken one."""
    path = tmp_path / "given"
    (path / "deep").mkdir(parents=True)
    for name, tree in (("a", tiny_tree(cars=2)), ("deep/b", tiny_tree(cars=3))):
        (path / f"{name}.json").write_text(json.dumps(tree))
    (path / "broken.json").write_text("{")
    return path


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0 and main(["--help"]) == 0 and main(["convert", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(
        verb in said
        for verb in ("info", "check", "compare", "convert", "generate", "download", "draw")
    )
    assert main(["--version"]) == 0 and capsys.readouterr().out.startswith("puffervec ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["convert", "nowhere", "--out", "x"], "nowhere: no such file or folder"),
        (
            ["convert"],
            "the following arguments are required: PATH, --out (see puffer-scenes convert --help)",
        ),
        (["drive"], "invalid choice: 'drive'"),
        (["info", "nowhere\x1b[2J"], "nowhere\\x1b[2J: no such file or folder"),
        (["generate", "--out", "x", "--count", "0"], "--count is 0; it must be at least 1"),
        (["generate", "--out", "x", "--family", "airport"], "invalid choice: 'airport'"),
        (
            ["download", "womd", "--out", "x"],
            "there is no set 'womd': give owner/name of a dataset on the Hugging Face Hub",
        ),
        (["download", "gpudrive"], "--out is missing"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("puffer-scenes: ") and said in err


def test_info(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(folder)]) == 1, "one of them is broken"
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines] == ["scene", "a.json", "b.json", "total"]
    assert lines[1][1:4] == ["30", "2", "0"] and "broken.json: not JSON" in err
    assert main(["info", "--json", str(folder / "a.json"), str(folder / "deep")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [item["vehicle"] for item in found["scenes"]] == [2, 3] and found["failed"] == {}


def test_check_warns_of_goals_that_nothing_leads_to(
    tmp_path: Path, tiny_tree: MakeTree, capsys: pytest.CaptureFixture[str]
) -> None:
    """Drive a scene with a goal 10.8 km away, which is replaced, and name the object."""
    tree = tiny_tree()
    tree["objects"][1]["goalPosition"]["x"] += 10_800.0
    (tmp_path / "far.json").write_text(json.dumps(tree))
    (tmp_path / "near.json").write_text(json.dumps(tiny_tree()))
    assert main(["check", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.out == "2 of 2 scenes can be driven\n"
    assert (
        "far.json: objects[1]: its goal lies 10" in printed.err and "near.json" not in printed.err
    )
    assert main(["check", "--json", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] == {} and list(found["warnings"]) == [str(tmp_path / "far.json")]


def test_check_names_what_cannot_be_driven(
    folder: Path, tiny_tree: MakeTree, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "still.json").write_text(json.dumps(tiny_tree(frames=1)))
    assert main(["check", str(folder)]) == 1
    out, err = capsys.readouterr()
    assert (
        out == "2 of 4 scenes can be driven\n" and "still.json: the scene has a single frame" in err
    )
    assert main(["check", str(folder / "deep")]) == 0


def test_convert_keeps_folders_and_goes_on(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["convert", str(folder), "--out", str(out)]
    assert main(words) == 1
    said = capsys.readouterr()
    assert said.out.startswith(f"2 scenes converted to {out}, 0 were there already, 1 failed\n")
    assert "simplified: " in said.out and "broken.json: not JSON" in said.err
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*.pvs")) == [
        "a.pvs",
        "deep/b.pvs",
    ]
    assert open_scenes(out / "deep/b.pvs").names == ["b.json"]
    before = (out / "a.pvs").stat().st_mtime_ns
    (folder / "broken.json").unlink()
    assert main(words) == 0 and "0 scenes converted" in capsys.readouterr().out
    assert (out / "a.pvs").stat().st_mtime_ns == before
    os.utime(folder / "a.json", ns=(before + 10**9, before + 10**9))
    assert main(words) == 0 and "1 scenes converted" in capsys.readouterr().out, (
        "the source has changed"
    )
    assert main([*words, "--force"]) == 0 and "2 scenes converted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("format", "layout"), [("json", "v2"), ("bin", "v0"), ("bin", "v1"), ("bin", "v2")]
)
def test_convert_to_all_formats_and_back(
    folder: Path, tmp_path: Path, format: str, layout: str
) -> None:
    (folder / "broken.json").unlink()
    there, back = tmp_path / "there", tmp_path / "back"
    assert (
        main(["convert", str(folder), "--out", str(there), "--to", format, "--layout", layout]) == 0
    )
    assert main(["convert", str(there), "--out", str(back), "--to", "json"]) == 0
    for name in ("a.json", "deep/b.json"):
        one, other = read_scene(folder / name), read_scene(back / name)
        assert one.agent_counts == other.agent_counts and len(one.roads) == len(other.roads)
        if format == "json":
            assert same_content(read_scene(there / name), one) and same_content(other, one)


def test_files_that_would_become_one_keep_their_endings(
    tiny_tree: MakeTree, tmp_path: Path
) -> None:
    scene = scene_from_tree(tiny_tree(), "a", "a.json")
    write_scenes(tmp_path / "x.pvs", [scene])
    (tmp_path / "x.json").write_text(json.dumps(tiny_tree()))
    write_scenes(tmp_path / "two.pvs", [scene, scene_from_tree(tiny_tree(cars=1), "b", "..")])
    out = tmp_path / "out"
    assert (
        main(
            [
                "convert",
                *(str(tmp_path / name) for name in ("x.pvs", "x.json", "two.pvs")),
                "--out",
                str(out),
                "--to",
                "bin",
            ]
        )
        == 0
    )
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert found == ["two/a.bin", "two/scene-1.bin", "x.json.bin", "x.pvs.bin"]


def test_what_has_no_place_in_a_format_is_said(
    tiny_tree: MakeTree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = tiny_tree(cars=3)
    tree["objects"][2]["type"] = "other"
    tree["tl_states"] = {
        "0": {"state": ["stop"], "x": [1.0], "y": [1.0], "z": [0.0], "time_index": [0]}
    }
    (tmp_path / "a.json").write_text(json.dumps(tree))
    assert (
        main(["convert", str(tmp_path / "a.json"), "--out", str(tmp_path / "out"), "--to", "bin"])
        == 0
    )
    said = capsys.readouterr().out
    assert (
        "dropped: 1 objects of other types, in 1 scenes" in said
        and "dropped: 1 traffic lights, in 1 scenes" in said
    )
    assert "simplified: 5 subtypes of roads" in said


def test_generate_makes_the_same_scenes_again(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert main(["generate", "--out", str(tmp_path / name), "--count", "2", "--seed", "7"]) == 0
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("one", "two")
    )
    assert one == two and len(one) == 2


@pytest.mark.slow
def test_draw(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", str(folder / "a.json"), "--out", str(tmp_path / "one.png")]) == 0
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    assert main(["draw", str(folder / "deep"), "--out", str(tmp_path / "many")]) == 0
    assert capsys.readouterr().out.split() == [
        str(tmp_path / "one.png"),
        str(tmp_path / "many" / "b.png"),
    ]
    assert main(["draw", str(folder), "--out", str(tmp_path / "one.png")]) == 2


@pytest.mark.slow
def test_a_log_is_drawn_as_one(
    tiny_tree: MakeTree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also without objects, and under a name that is no formula."""
    tree = tiny_tree(cars=2)
    (tmp_path / "$x^^$.json").write_text(json.dumps({**tree, "objects": []}))
    (tmp_path / "new\nline.json").write_text(json.dumps(tree))
    assert main(["draw", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert (
        len(capsys.readouterr().out.splitlines()) == 2
        and len(list((tmp_path / "out").iterdir())) == 2
    )
    tracks = tracks_of(scene_from_tree(tree, "a", "a.json"), np.zeros(2))
    assert (
        caption_of(tracks)
        == "a log of 30 frames: 2 vehicles that control=moving would drive, 0 other objects"
    )
    labels = [sample.label for sample in legend_of_agents(tracks)]
    assert labels == ["path in the log", "each second", "goal"]


@pytest.mark.slow
def test_every_reason_is_in_json(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(12):
        (folder / f"broken-{number}.json").write_text("{")
    for words in (["convert"], ["draw"]):
        assert main([*words, str(folder), "--json", "--out", str(tmp_path / words[0])]) == 1
        out, err = capsys.readouterr()
        assert len(json.loads(out)["failed"]) == 13 and err == ""
    assert main(["compare", str(folder), str(folder / "a.json"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert (
        len(json.loads(out)["a"]["left_out"]) == 13
        and json.loads(out)["b"]["left_out"] == {}
        and err == ""
    )


def test_a_name_with_an_end_of_line_stays_on_its_line(
    tiny_tree: MakeTree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a\nb.json").write_text(json.dumps(tiny_tree()))
    assert main(["info", str(tmp_path)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "scene",
        "a\\nb.json",
    ]


def test_a_folder_that_cannot_be_written_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert (
        main(["convert", str(folder / "a.json"), "--out", str(tmp_path / "file"), "--to", "json"])
        == 1
    )
    assert f"{tmp_path}/file" in capsys.readouterr().err


@pytest.mark.slow
def test_real_scenes_come_back(real_data: Path, tmp_path: Path) -> None:
    """Each file becomes a .pvs file with the same objects, and that becomes a scene again."""
    assert main(["convert", str(real_data), "--out", str(tmp_path), "--jobs", "1"]) == 0
    for path in sorted(tmp_path.rglob("*.pvs")):
        (stored,) = open_scenes(path)
        file = next((real_data / path.relative_to(tmp_path).parent).glob(f"{path.stem}.*"))
        source = with_near_goals(read_scene(file))
        present = [item for item in source.objects if item.valid.any()]
        again = stored.scene()
        assert [item.type for item in again.objects] == [item.type for item in present]
        assert again.agent_counts == source.agent_counts and again.frame_count == source.frame_count


def test_generate_writes_streets_of_a_family(tmp_path: Path) -> None:
    assert (
        main(
            [
                "generate",
                "--out",
                str(tmp_path),
                "--count",
                "1",
                "--seed",
                "3",
                "--family",
                "dead-end",
            ]
        )
        == 0
    )
    (path,) = tmp_path.glob("*.json")
    assert (
        path.name == "street-dead-end-3-0000.json"
        and read_scene(path).metadata["family"] == "dead-end"
    )
