// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Mouse, pen and fingers on the canvas: drag to pan, wheel or two fingers to zoom, click or tap to
// choose.

const CLICK_PX = 6; // A pointer that moved farther did not click.

// tapped(px, py): a click; moved(): the user moved the camera; changed(): paint again.
function gestures(stage, {tapped, moved, changed}) {
    const pointers = new Map(),
        canvas = stage.canvas;
    let travelled = 0;
    const place = (event) => {
        const box = canvas.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
    };
    const spread = () => {
        const [[ax, ay], [bx, by]] = [...pointers.values()];
        return {apart: Math.hypot(ax - bx, ay - by), x: (ax + bx) / 2, y: (ay + by) / 2};
    };
    canvas.addEventListener("pointerdown", (event) => {
        canvas.setPointerCapture(event.pointerId);
        if (!pointers.size) travelled = 0;
        pointers.set(event.pointerId, place(event));
    });
    canvas.addEventListener("pointermove", (event) => {
        if (!pointers.has(event.pointerId)) return;
        const before = pointers.size === 2 ? spread() : null,
            [oldX, oldY] = pointers.get(event.pointerId),
            [x, y] = place(event);
        pointers.set(event.pointerId, [x, y]);
        travelled += Math.hypot(x - oldX, y - oldY);
        if (travelled <= CLICK_PX) return;
        if (before) {
            const after = spread();
            stage.pan(after.x - before.x, after.y - before.y);
            stage.zoom(after.apart / Math.max(before.apart, 1), after.x, after.y);
        } else if (pointers.size === 1) {
            stage.pan(x - oldX, y - oldY);
        }
        moved();
        changed();
    });
    const gone = (event) => {
        if (!pointers.delete(event.pointerId)) return;
        if (event.type === "pointerup" && travelled <= CLICK_PX && !pointers.size)
            tapped(...place(event));
    };
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, gone);
    canvas.addEventListener(
        "wheel",
        (event) => {
            event.preventDefault();
            stage.zoom(1.0015 ** -event.deltaY, ...place(event));
            changed();
        },
        {passive: false},
    );
}
