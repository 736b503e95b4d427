# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Colours of what drive draws, by role: replays, films and pictures of scenes share them."""

from __future__ import annotations

RED = "#d81e3a"
AREAS = {"crosswalk": "#c3cbd9", "speed bump": "#d9c9a5"}
SIGNS = {"stop sign": "#b3122b", "yield sign": "#c2569c"}
LIGHTS = {
    "red light": RED,
    "yellow light": "#e3c000",
    "green light": "#17936b",
    "light that is off": "#8d929b",
}
# In the order of legends.
GROUND = {
    "road": "#dfe1e4", **AREAS, "lane": "#b9bec6", "white line": "#9aa1ab",
    "yellow line": "#d8b400", "kerb": "#5b6068",
    **LIGHTS, **SIGNS,
}  # fmt: skip
OBJECTS = {"car": "#8d929b", "pedestrian": "#8a5a2b", "cyclist": "#b08d57", "object": "#a9adb5"}
FAILURES = {"collision": RED, "off-road": "#e8750a"}
# Agents of one picture, by number; none looks like a failure.
AGENTS = (
    "#2f6fd6", "#17936b", "#8a4fc7", "#0f93b0", "#c2569c",
    "#5c7f1f", "#3b4fb8", "#b0752a", "#1f8f8f", "#7a5ad9",
)  # fmt: skip
