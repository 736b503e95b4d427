# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Web pages in one file: data, styles and scripts of this package, joined as text.

They use no network. A page may run only its own scripts: its content security policy lists their
hashes. Data is included as JSON, and the scripts insert its words as text, because a scene may be
called `<script>`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from puffervec.viewing.web import constants
from puffervec.viewing.web.replay import Replay

# The order matters: each part may use those before it.
PARTS = (
    "decode",
    "scene",
    "colours",
    "dom",
    "stage",
    "player",
    "curves",
    "gestures",
    "legend",
    "pictures",
    "replay",
)
REPLAY_SCRIPTS = (
    "vendor/uPlot.js",
    constants.SCRIPT,
    *(f"static/{name}.js" for name in PARTS),
)
REPLAY_STYLES = ("vendor/uPlot.css", constants.STYLE, "static/replay.css")


def replay_page(replays: Sequence[Replay], title: str) -> str:
    """Return a page that plays episodes, those with the lowest scores first."""
    ranked = sorted(
        replays, key=lambda replay: float("inf") if replay.score is None else replay.score
    )
    data = {"title": title, "replays": [replay.to_json() for replay in ranked]}
    return page(title, [*REPLAY_SCRIPTS, "static/start_replay.js"], REPLAY_STYLES, data)


def page(title: str, scripts: Sequence[str], styles: Sequence[str], data: Mapping[str, Any]) -> str:
    """Return a page with an empty `<main id="app">`, which the last script fills.

    Args:
        title: title of the page.
        scripts, styles: names for `source`.
        data: data that scripts read from the element `data` as JSON.
    """
    script, style = (
        "(() => {\n" + "\n".join(map(source, scripts)) + "\n})();",
        "\n".join(map(source, styles)),
    )
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src "
        "data:; base-uri 'none'; form-action 'none'"
    )
    return document(
        title,
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n',
        f'<script type="application/json" id="data">{json_in_html(data)}</script>\n'
        f"<script>{script}</script>\n",
    )


def document(title: str, head: str, scripts: str = "") -> str:
    """Return an HTML document with an empty `<main id="app">`.

    Args:
        title: title of the page.
        head: elements for the end of the head, as HTML.
        scripts: elements that follow the main element, as HTML.
    """
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
{head}<link rel="icon" href="data:,">
</head>
<body>
<main id="app"></main>
{scripts}</body>
</html>
"""


def json_in_html(data: Any) -> str:
    """Return JSON for a script element; `<` is escaped so that no tag begins or ends in it."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


@cache
def source(name: str) -> str:
    """Return the text of a script or style: one of `constants`, or a file of this package."""
    text = constants.TEXTS.get(name)
    return text or (files("puffervec.viewing.web") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
