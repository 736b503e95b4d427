// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Colours of roles and axes on a light and a dark background. The colours themselves are in
// constants.js, which Python writes.

const INK = LIGHT.ink,
    PAPER = LIGHT.paper;

// Return hue, saturation and lightness of "#rrggbb", each from 0 to 1, and its distance from grey.
function hsl(colour) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
    const most = Math.max(r, g, b),
        least = Math.min(r, g, b),
        span = most - least,
        light = (most + least) / 2;
    if (span === 0) return [0, 0, light, 0];
    const hue =
        most === r
            ? ((g - b) / span + 6) % 6
            : most === g
              ? (b - r) / span + 2
              : (r - g) / span + 4;
    return [hue / 6, span / (1 - Math.abs(2 * light - 1)), light, span];
}

// Return a colour as it is shown: on a dark background greys are inverted and colours are made
// light enough to be visible.
function themeColour(colour, dark) {
    const original = colour || INK;
    if (!dark) return original;
    const [hue, saturation, light, span] = hsl(original);
    if (span < 0.12) return `hsl(${360 * hue} ${30 * saturation}% ${8 + 85 * (1 - light)}%)`;
    return `hsl(${360 * hue} ${100 * saturation}% ${100 * Math.max(light, 0.58)}%)`;
}

// Return the look of an axis of uPlot.
function axisLook(dark) {
    const {soft, edge} = dark ? DARK : LIGHT;
    return {
        stroke: soft,
        grid: {stroke: edge, width: 1},
        ticks: {show: false},
        font: "11px system-ui, sans-serif",
    };
}
