# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A style sheet and a script made from Python's values, which the pages' static files use.

constants.css has the colours of both themes as variables (--paper, --ink, ...). constants.js has
the same colours as LIGHT and DARK, those of curves as PALETTE, and the default smoothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from puffervec.contract.drawing import BLUE, EDGE, INK, PALETTE, PAPER, SKY, SOFT
from puffervec.train.metrics.curves import SMOOTH_PERCENT

STYLE, SCRIPT = "constants.css", "constants.js"  # names that pages include like files
LIGHT = {
    "paper": PAPER,
    "card": "#FFFFFF",
    "ink": INK,
    "soft": SOFT,
    "edge": EDGE,
    "accent": BLUE,
    "bad": "#B3261E",
}
DARK = {
    "paper": "#15171B",
    "card": "#1D2025",
    "ink": "#E4E5E8",
    "soft": "#A0A5AF",
    "edge": "#353941",
    "accent": SKY,
    "bad": "#FF8A80",
}
# A page may show more runs than there are colours that everybody can tell apart.
MORE = (
    "#882255", "#117733", "#332288", "#999933", "#AA4499", "#44AA99", "#A6761D", "#E7298A",
    "#7F7F7F",
)  # fmt: skip


def _rule(selectors: str, scheme: str, colours: Mapping[str, str]) -> str:
    variables = "".join(f"    --{name}: {colour};\n" for name, colour in colours.items())
    return f"{selectors} {{\n{variables}    color-scheme: {scheme};\n}}\n"


def _const(name: str, value: object) -> str:
    return f"const {name} = {json.dumps(value)};\n"


TEXTS = {
    STYLE: _rule(".page,\n.replay", "light", LIGHT)
    + _rule('.page[data-theme="dark"],\n.replay[data-theme="dark"]', "dark", DARK),
    SCRIPT: _const("LIGHT", LIGHT)
    + _const("DARK", DARK)
    + _const("PALETTE", [*PALETTE, *MORE])
    + _const("SMOOTH_PERCENT", SMOOTH_PERCENT),
}
