// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The canvas: a camera on the world, fixed shapes (painted once and then moved) and moving things
// (painted each time).

const LEAST_PX = 2.5; // smallest radius of a circle
const NEW_STEPS = 10; // steps for which an event is shown large
const TEXT_PX = 14;
// Size of the picture of fixed shapes, in canvases: the camera can move a little without
// repainting.
const ROOM = 1.6;

class Stage {
    constructor(canvas) {
        this.canvas = canvas;
        this.brush = canvas.getContext("2d");
        this.ground = document.createElement("canvas");
        this.camera = {x: 0, y: 0, scale: 1};
        this.hidden = new Set();
        this.dark = false;
        this.all = false;
        this.sight = true;
        this.chosen = null;
        this.toX = (x) => this.size[0] / 2 + (x - this.camera.x) * this.camera.scale;
        this.toY = (y) => this.size[1] / 2 - (y - this.camera.y) * this.camera.scale;
        this.measure();
    }

    // Asking the browser for sizes is slow: once per picture is enough.
    measure() {
        this.size = [this.canvas.clientWidth || 1, this.canvas.clientHeight || 1];
    }

    setScene(scene) {
        this.scene = scene;
        this.chosen = null; // An agent belongs to its scene.
        this.painted = null;
        this.fit();
    }

    // Adapt to a new size of the canvas: what is visible stays visible, or all of it if the user
    // has not moved the camera.
    resized() {
        if (this.scene && this.untouched) this.fit();
    }

    // Show the whole view of the drawing.
    fit() {
        this.measure();
        const [left, bottom, right, top] = this.scene.view,
            [width, height] = this.size;
        this.camera = {
            x: (left + right) / 2,
            y: (bottom + top) / 2,
            scale: Math.min(width / (right - left), height / (top - bottom)),
        };
        this.least = this.camera.scale / 4;
        this.untouched = true;
    }

    // Look at one agent, as closely as the drawing sets, or else three times as closely as the
    // whole view.
    near() {
        const {close} = this.scene;
        this.camera.scale = Math.max(
            this.camera.scale,
            close ? Math.min(...this.size) / close : 12 * this.least,
        );
        this.untouched = false;
    }

    screen(x, y) {
        return [this.toX(x), this.toY(y)];
    }

    world(px, py) {
        const [width, height] = this.size,
            {camera} = this;
        return [
            camera.x + (px - width / 2) / camera.scale,
            camera.y - (py - height / 2) / camera.scale,
        ];
    }

    // Zoom around a point of the canvas.
    zoom(factor, px, py) {
        this.untouched = false;
        const [x, y] = this.world(px, py);
        this.camera.scale = Math.min(
            Math.max(this.camera.scale * factor, this.least),
            400 * this.least,
        );
        const [newX, newY] = this.world(px, py);
        this.camera.x += x - newX;
        this.camera.y += y - newY;
    }

    pan(dx, dy) {
        this.untouched = false;
        this.camera.x -= dx / this.camera.scale;
        this.camera.y += dy / this.camera.scale;
    }

    // Return the agent at a point of the canvas, or null.
    agentAt(px, py, time) {
        let best = null,
            least = 16;
        for (const agent of this.scene.agents) {
            const thing = agent.thing;
            if (!thing?.there(Math.floor(time))) continue;
            const [x, y, ...rest] = thing.at(time),
                [sx, sy] = this.screen(x, y);
            const inside = thing.kind === "box" && this.inBox([x, y, ...rest], px, py);
            const away =
                Math.hypot(sx - px, sy - py) -
                ((rest[0] || 0) * this.camera.scale) / 4 -
                (inside ? 1e4 : 0);
            if (away < least) [best, least] = [agent, away];
        }
        return best;
    }

    // Return whether a point of the canvas lies in a box.
    inBox([x, y, width, height, angle], px, py) {
        const [wx, wy] = this.world(px, py),
            dx = wx - x,
            dy = wy - y,
            cos = Math.cos(angle),
            sin = Math.sin(angle);
        return (
            Math.abs(dx * cos + dy * sin) <= width / 2 &&
            Math.abs(dy * cos - dx * sin) <= height / 2
        );
    }

    colour(role) {
        return this.palette[role];
    }

    // Paint a moment. time: in steps.
    paint(time) {
        this.measure();
        this.palette = this.scene.roles.map(({colour}) => themeColour(colour, this.dark));
        const ratio = window.devicePixelRatio || 1,
            [width, height] = this.size;
        if (
            this.canvas.width !== Math.round(width * ratio) ||
            this.canvas.height !== Math.round(height * ratio)
        ) {
            this.canvas.width = Math.round(width * ratio);
            this.canvas.height = Math.round(height * ratio);
            this.painted = null;
        }
        this.paintGround(ratio);
        const brush = this.brush,
            step = Math.floor(time);
        brush.setTransform(ratio, 0, 0, ratio, 0, 0);
        this.paintBelongings();
        this.paintTrails(step);
        if (this.chosen?.thing) this.paintWay(this.chosen.thing, time, 2.5, 0.9);
        this.paintThings(time, step, true);
        this.paintEvents(step, false);
        this.paintThings(time, step, false);
        this.paintEvents(step, true);
        if (this.chosen) this.paintChosen(time, step);
        if (this.scene.unit) this.paintScaleBar();
    }

    // ---- fixed shapes

    paintGround(ratio) {
        const {camera, canvas, ground} = this;
        const key = [
            camera.scale,
            ratio,
            canvas.width,
            canvas.height,
            this.dark,
            this.all,
            [...this.hidden].join(),
        ].join();
        const most = (((ROOM - 1) / 2) * Math.min(...this.size)) / camera.scale;
        const near =
            this.painted &&
            Math.max(Math.abs(camera.x - this.painted.x), Math.abs(camera.y - this.painted.y)) <
                most;
        if (!near || this.painted.key !== key) {
            ground.width = Math.round(canvas.width * ROOM);
            ground.height = Math.round(canvas.height * ROOM);
            this.painted = {key, x: camera.x, y: camera.y};
            this.paintStill(ground.getContext("2d"), camera.scale * ratio);
        }
        const dx = (this.painted.x - camera.x) * camera.scale * ratio,
            dy = (camera.y - this.painted.y) * camera.scale * ratio;
        const left = (canvas.width - ground.width) / 2 + dx,
            top = (canvas.height - ground.height) / 2 + dy;
        this.brush.setTransform(1, 0, 0, 1, 0, 0);
        this.brush.drawImage(ground, Math.round(left), Math.round(top));
    }

    paintStill(brush, scale) {
        brush.fillStyle = themeColour(PAPER, this.dark);
        brush.fillRect(0, 0, brush.canvas.width, brush.canvas.height);
        const {x, y} = this.painted;
        const toX = (wx) => brush.canvas.width / 2 + (wx - x) * scale,
            toY = (wy) => brush.canvas.height / 2 - (wy - y) * scale;
        for (const shape of this.scene.still) {
            if ((this.all || !shape.of) && !this.hidden.has(shape.role))
                this.paintShape(brush, shape, shape.numbers, toX, toY, scale);
        }
        if (!this.all) return;
        for (const {thing} of this.scene.agents)
            if (thing) this.paintPath(brush, thing, 0, this.scene.count - 1, 1, 0.5, toX, toY);
    }

    // ---- moving things

    // Paint the fixed shapes that belong to the selected agent.
    paintBelongings() {
        if (!this.chosen?.name) return;
        for (const shape of this.scene.still) {
            if (shape.of === this.chosen.name && !this.hidden.has(shape.role))
                this.paintHere(shape, shape.numbers);
        }
    }

    paintThings(time, step, faded) {
        const {brush, scene} = this;
        for (const thing of scene.things) {
            if (!thing.there(step)) continue;
            const style = scene.styles[thing.styles[step]];
            if (Boolean(style.flags & FADED) !== faded || this.hidden.has(style.role)) continue;
            const others = thing.of && !this.all && this.chosen && thing.of !== this.chosen.name;
            brush.globalAlpha = others ? 0.25 : 1;
            this.paintHere({...style, text: thing.text}, thing.at(time));
        }
        brush.globalAlpha = 1;
    }

    paintHere(shape, numbers) {
        this.paintShape(this.brush, shape, numbers, this.toX, this.toY, this.camera.scale);
    }

    // Paint one shape. toX, toY: from the world to pixels; scale: pixels per unit.
    paintShape(brush, {kind, role, flags, text}, numbers, toX, toY, scale) {
        const colour = this.colour(role);
        brush.save();
        if (flags & FADED) brush.globalAlpha *= 0.35;
        brush.fillStyle = brush.strokeStyle = colour;
        brush.lineWidth = 1.3;
        brush.beginPath();
        if (kind === "line" || kind === "polygon") {
            const end = kind === "line" ? numbers.length - 1 : numbers.length;
            for (let i = 0; i < end; i += 2) brush.lineTo(toX(numbers[i]), toY(numbers[i + 1]));
            if (kind === "polygon") brush.closePath();
            else brush.lineWidth = Math.max(numbers[end] * scale, 1.2);
            brush.lineJoin = "round";
        } else if (kind === "circle") {
            brush.arc(
                toX(numbers[0]),
                toY(numbers[1]),
                Math.max(numbers[2] * scale, LEAST_PX),
                0,
                2 * Math.PI,
            );
        } else if (kind === "box") {
            brush.translate(toX(numbers[0]), toY(numbers[1]));
            brush.rotate(-numbers[4]);
            brush.rect(
                (-numbers[2] * scale) / 2,
                (-numbers[3] * scale) / 2,
                numbers[2] * scale,
                numbers[3] * scale,
            );
        } else if (kind === "text") {
            this.paintText(brush, text, toX(numbers[0]), toY(numbers[1]), numbers[2] * scale);
        }
        if (kind === "line" || flags & OUTLINE) brush.stroke();
        else {
            brush.fill();
            if (kind === "circle" || kind === "box") this.paintEdge(brush);
        }
        if (flags & FRONT) {
            brush.fillStyle = themeColour(PAPER, this.dark);
            brush.fillRect(
                0.12 * numbers[2] * scale,
                -0.35 * numbers[3] * scale,
                0.16 * numbers[2] * scale,
                0.7 * numbers[3] * scale,
            );
        }
        brush.restore();
    }

    // A pale edge sets overlapping things apart.
    paintEdge(brush) {
        brush.lineWidth = 0.8;
        brush.strokeStyle = themeColour(PAPER, this.dark);
        brush.stroke();
    }

    paintText(brush, text, x, y, height) {
        brush.font = `${height || TEXT_PX}px system-ui, sans-serif`;
        brush.textAlign = "center";
        brush.textBaseline = "middle";
        brush.fillText(text, x, y);
    }

    // ---- trails, events, the selected agent

    paintTrails(step) {
        for (const thing of this.scene.things) {
            if (
                !thing.trail ||
                !thing.there(step) ||
                this.hidden.has(this.scene.styles[thing.styles[step]].role)
            )
                continue;
            this.paintPath(
                this.brush,
                thing,
                Math.max(0, step - thing.trail),
                step,
                2,
                0.3,
                this.toX,
                this.toY,
            );
        }
    }

    // Paint the path of a thing: strong where it has been, pale where it will be.
    paintWay(thing, time, width, strength) {
        const step = Math.floor(time);
        this.paintPath(this.brush, thing, 0, step, width, strength, this.toX, this.toY);
        this.paintPath(
            this.brush,
            thing,
            step,
            this.scene.count - 1,
            width,
            strength / 3,
            this.toX,
            this.toY,
        );
    }

    paintPath(brush, thing, first, last, width, alpha, toX, toY) {
        let on = false;
        brush.beginPath();
        for (let step = first; step <= last; step++) {
            if (!thing.there(step)) {
                on = false;
                continue;
            }
            const x = toX(thing.number(0, step)),
                y = toY(thing.number(1, step));
            if (on) brush.lineTo(x, y);
            else brush.moveTo(x, y);
            on = true;
        }
        const style = thing.styles.find((one) => one >= 0);
        brush.strokeStyle = this.colour(this.scene.styles[style].role);
        brush.lineWidth = width;
        brush.globalAlpha = alpha;
        brush.stroke();
        brush.globalAlpha = 1;
    }

    paintEvents(step, recent) {
        const {brush, scene} = this;
        for (const event of scene.events) {
            const age = step - event.step,
                role = scene.roles.findIndex((one) => one.name === event.role);
            if (age < 0 || age < NEW_STEPS !== recent || this.hidden.has(role)) continue;
            const [x, y] = this.screen(event.x, event.y),
                arm = recent ? 7 : 4;
            for (const [width, colour] of [
                [recent ? 6 : 4, themeColour(PAPER, this.dark)],
                [recent ? 3 : 2, this.colour(role)],
            ]) {
                brush.lineWidth = width;
                brush.strokeStyle = colour;
                brush.beginPath();
                brush.moveTo(x - arm, y - arm);
                brush.lineTo(x + arm, y + arm);
                brush.moveTo(x - arm, y + arm);
                brush.lineTo(x + arm, y - arm);
                brush.stroke();
            }
        }
    }

    paintChosen(time, step) {
        const {brush, chosen} = this;
        if (this.sight)
            for (const shape of this.scene.seenBy(chosen, step) || []) this.paintSeen(shape);
        if (!chosen.thing?.there(step)) return;
        const [x, y, size] = chosen.thing.at(time),
            [px, py] = this.screen(x, y);
        brush.strokeStyle = themeColour(INK, this.dark);
        brush.lineWidth = 2;
        // Share of a radius, or of a length.
        const around = chosen.thing.kind === "circle" ? 1.3 : 0.75;
        brush.beginPath();
        brush.arc(px, py, Math.max(10, around * size * this.camera.scale), 0, 2 * Math.PI);
        brush.stroke();
    }

    // Paint a bar of a round length in the lower left corner, at most a fifth of the canvas wide.
    paintScaleBar() {
        const {
                brush,
                size: [width, height],
            } = this,
            most = width / 5 / this.camera.scale,
            power = 10 ** Math.floor(Math.log10(most));
        const length = Number(
            (power * [5, 2, 1].find((one) => one * power <= most)).toPrecision(1),
        );
        const left = 12.5,
            right = left + length * this.camera.scale,
            y = height - 12.5,
            words = `${length} ${this.scene.unit}`;
        brush.font = "12px system-ui, sans-serif";
        brush.textAlign = "center";
        brush.textBaseline = "bottom";
        for (const [colour, wide] of [
            [PAPER, 5],
            [INK, 1.5],
        ]) {
            brush.strokeStyle = brush.fillStyle = themeColour(colour, this.dark);
            brush.lineWidth = wide;
            brush.beginPath();
            for (const [px, py] of [
                [left, y - 6],
                [left, y],
                [right, y],
                [right, y - 6],
            ])
                brush.lineTo(px, py);
            brush.stroke();
            if (colour === PAPER) brush.strokeText(words, (left + right) / 2, y - 2);
            else brush.fillText(words, (left + right) / 2, y - 2);
        }
    }

    paintSeen(shape) {
        if (this.hidden.has(shape.role)) return;
        const thin = shape.kind === "line" ? [...shape.numbers.slice(0, -1), 0] : shape.numbers;
        this.paintHere({...shape, flags: shape.flags | OUTLINE}, thin);
    }
}
