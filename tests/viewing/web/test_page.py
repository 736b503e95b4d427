# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

from puffervec.viewing.web import page
from puffervec.viewing.web.replay import Replay

HOSTILE = "</title></script><script>alert(1)</script><!--\u2028 & \" '"


class Reader(HTMLParser):
    """Elements of a page with their attributes, and the text of each kind."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        self.elements.append(("after", {}))
        self.texts.setdefault("after", []).append("")

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.texts[self.elements[-1][0]][-1] += data


def test_a_page_runs_its_own_scripts_alone_and_asks_for_nothing() -> None:
    text = page.replay_page([Replay("one", 3, 1, b"data")], "a run")
    found = Reader(text)
    policy = next(
        attrs["content"] or "" for tag, attrs in found.elements if attrs.get("http-equiv")
    )
    data, script = found.texts["script"]
    for kind, content in (("script", script), ("style", found.texts["style"][0])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert not [
        attrs
        for _, attrs in found.elements
        if "src" in attrs or (attrs.get("href") or "data:").partition(":")[0] != "data"
    ]
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|WebSocket|innerHTML|outerHTML|insertAdjacentHTML|eval"
        r"|document\.write)\b",
        script,
    )
    assert json.loads(data)["replays"][0]["data"] == base64.b64encode(b"data").decode()


def test_hostile_names_stay_text() -> None:
    found = Reader(page.replay_page([Replay(HOSTILE, 3, 1, b"")], HOSTILE))
    assert [tag for tag, _ in found.elements].count("script") == 2
    assert found.texts["title"][0].strip() == HOSTILE
    assert json.loads(found.texts["script"][0])["replays"][0]["title"] == HOSTILE


def test_the_lowest_score_comes_first() -> None:
    replays = [Replay(str(score), 3, 1, b"", score=score) for score in (0.5, None, -1.0, 0.0)]
    data = json.loads(Reader(page.replay_page(replays, "")).texts["script"][0])
    assert [replay["score"] for replay in data["replays"]] == [-1.0, 0.0, 0.5, None]
