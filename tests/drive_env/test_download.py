# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Sets of scenes, fetched from a server on this machine that answers as the Hugging Face Hub does;
and strangers' archives.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from drive_env.cli import main
from drive_env.download import SETS, fetch, unpack
from drive_env.scenes.reader import scene_files
from puffervec.errors import SceneError

MakeTree = Callable[..., dict[str, Any]]
REPOSITORY = "somebody/scenes"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Serves files as a dataset repository. asked: (name, range) of each file; cut: bytes after
    which the next answer ends.
    """

    daemon_threads = False  # server_close waits for all answers

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.files, self.asked, self.cut = files, [], 0  # type: ignore[var-annotated]


class _Answer(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = self.path.partition("?")[0]
        files = self.server.files
        if path.startswith(f"/api/datasets/{REPOSITORY}/tree/"):
            return self._send(json.dumps([
                {"type": "file", "path": name, "size": len(data),
                 "oid": hashlib.sha1(data).hexdigest()}
                for name, data in files.items()
            ]).encode(), body)  # fmt: skip
        if path.startswith(f"/api/datasets/{REPOSITORY}"):
            siblings = [{"rfilename": name} for name in files]
            return self._send(
                json.dumps({"id": REPOSITORY, "sha": COMMIT, "siblings": siblings}).encode(), body
            )
        name = path.removeprefix(f"/datasets/{REPOSITORY}/resolve/{COMMIT}/")
        if name not in files:
            return self._send(b"", body, status=404)
        if body:
            self.server.asked.append((name, self.headers.get("Range")))
        self._send(files[name], body, etag=hashlib.sha1(files[name]).hexdigest())

    def _send(self, data: bytes, body: bool, status: int = 200, etag: str = "") -> None:
        wanted = self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted and etag else 0
        self.send_response(206 if start else status)
        self.send_header("Content-Length", str(len(data) - start))
        self.send_header(
            "Connection", "close"
        )  # else a thread waits for what the client may still ask
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if etag:
            self.send_header("ETag", f'"{etag}"')
            self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            cut, self.server.cut = (self.server.cut, 0) if etag else (0, self.server.cut)
            self.wfile.write(data[start : start + cut] if cut else data[start:])


@pytest.fixture
def hub(tiny_tree: MakeTree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A server with three scenes, an archive of two more, and a text."""
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
    scene = json.dumps(tiny_tree()).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ("data/processed/d.json", "data/processed/e.json", "readme.txt"):
            archive.writestr(name, scene)
    files = {f"training/{name}.json": scene + b" " * index for index, name in enumerate("abc")}
    server = Hub({**files, "training.zip": packed.getvalue(), "README.md": b"# Scenes"})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def endpoint_of(hub: Hub) -> str:
    return f"http://127.0.0.1:{hub.server_address[1]}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of huggingface_hub and what it imports
def test_a_set_is_fetched_once(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["download", REPOSITORY, "--out", str(out), "--endpoint", endpoint_of(hub)]
    assert main(words) == 0
    assert [str(path.relative_to(out)) for path in scene_files(out)] == [
        "data/processed/d.json", "data/processed/e.json", "training/a.json", "training/b.json",
        "training/c.json",
    ]  # fmt: skip
    said = capsys.readouterr().out
    assert (
        "2 scenes unpacked, 0 were there already, 1 other files passed over" in said
        and "5 scene files in" in said
    )
    assert sorted(name for name, _ in hub.asked) == [
        "training.zip",
        "training/a.json",
        "training/b.json",
        "training/c.json",
    ]
    hub.asked.clear()
    (out / "training/b.json").unlink()
    assert main(words) == 0 and "0 scenes unpacked, 2 were there already" in capsys.readouterr().out
    assert [name for name, _ in hub.asked] == ["training/b.json"]


@pytest.mark.filterwarnings("ignore")
def test_a_file_that_was_cut_off_goes_on(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between two attempts
    monkeypatch.setattr(
        "huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 100
    )  # what has not come in whole pieces is lost
    hub.cut = 1000
    fetch(REPOSITORY, tmp_path, match="training/a.json", endpoint=endpoint_of(hub))
    assert (tmp_path / "training/a.json").read_bytes() == hub.files["training/a.json"]
    assert [asked for _, asked in hub.asked][1:] == ["bytes=1000-"]


@pytest.mark.filterwarnings("ignore")
def test_part_of_a_set(hub: Hub, tmp_path: Path) -> None:
    assert (
        fetch(REPOSITORY, tmp_path / "few", match="training/*", limit=2, endpoint=endpoint_of(hub))
        == []
    )
    assert [path.name for path in scene_files(tmp_path / "few")] == ["a.json", "b.json"]
    with pytest.raises(
        SceneError, match=r"none of its 5 files is a scene or an archive that matches"
    ):
        fetch(REPOSITORY, tmp_path / "none", match="*.md", limit=2, endpoint=endpoint_of(hub))


@pytest.mark.filterwarnings("ignore")
def test_a_set_that_is_not_there(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="nobody/nothing: cannot be downloaded: "):
        fetch("nobody/nothing", tmp_path / "out", endpoint=endpoint_of(hub))


def test_sets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["download"]) == 0
    said = capsys.readouterr().out
    assert (
        all(f"({repository})" in said for repository, _ in SETS.values())
        and "no commercial use" in said
    )


# ---- archives ------------------------------------------------------------------------------------

ODD = ["../out.json", "/etc/out.json", "a/../../out.json", "..\\out.json", "a\\..\\out.json"]


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_nothing_leaves_the_folder(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"archive.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as file:
            for name in [*ODD, "fine/a.json", "run.sh"]:
                file.writestr(name, b"{}")
            link = zipfile.ZipInfo("link.json")
            link.external_attr = 0o120777 << 16
            file.writestr(link, "/etc/passwd")
    else:
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as tar:
            for name in [*ODD, "fine/a.json", "run.sh"]:
                member = tarfile.TarInfo(name)
                member.size = 2
                tar.addfile(member, io.BytesIO(b"{}"))
            for name, how in (
                ("link.json", tarfile.SYMTYPE),
                ("hard.json", tarfile.LNKTYPE),
                ("pipe.json", tarfile.FIFOTYPE),
            ):
                member = tarfile.TarInfo(name)
                member.type, member.linkname = how, "/etc/passwd"
                tar.addfile(member)
    folder = tmp_path / "deep" / "folder"
    folder.mkdir(parents=True)
    result = unpack(path, folder)
    assert [str(item.relative_to(folder)) for item in folder.rglob("*") if not item.is_dir()] == [
        "fine/a.json"
    ]
    assert set(ODD) <= set(result.refused) and "link.json" in result.refused
    assert (result.written, result.passed_over) == (1, 1)
    assert sorted(item.name for item in tmp_path.iterdir()) == [path.name, "deep"]
    assert unpack(path, folder).there == 1


def test_links_in_the_way_are_not_followed(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("a.json", b"{}")
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "other").write_text("mine")
    (folder / "a.json").symlink_to(tmp_path / "other")
    with pytest.raises(SceneError, match="a.json: cannot be written or read: .*link"):
        unpack(tmp_path / "a.zip", folder)
    assert (tmp_path / "other").read_text() == "mine"


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_damaged_archive_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo("a.json")
        member.size = 100_000
        tar.addfile(member, io.BytesIO(bytes(100_000)))
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(SceneError, match=r"a\.(zip|tar\.gz): cannot be unpacked: "):
        unpack(path, tmp_path)


def test_members_that_are_too_large_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drive_env.download.MAX_FILE_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("big.json", bytes(100_000))
    assert unpack(tmp_path / "bomb.zip", tmp_path / "out").refused == ("big.json",)
