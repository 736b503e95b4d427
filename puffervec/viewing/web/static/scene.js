// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// An episode: fixed shapes, moving things, and the numbers of agents by step. Written by
// puffervec/viewing/web/replay.py.

const OUTLINE = 1,
    FADED = 2,
    FRONT = 4; // flags of a style
const ANGLE = -3; // power of ten of a stored angle

// The power of ten of each number of a shape.
function exponents(kind, count, place) {
    return Array.from({length: count}, (_, i) => (kind === "box" && i === 4 ? ANGLE : place));
}

// Return the number of decimals to show of a series: none for whole numbers, at most three.
function digitsOf(values, exponent) {
    return values.every((one) => Number.isNaN(one) || Number.isInteger(one))
        ? 0
        : Math.min(Math.max(-exponent, 0), 3);
}

// Return the label of an agent: its name, or its row if it has none.
function labelOf(agent) {
    return agent.name || `row ${agent.row}`;
}

// Describe an event in words. you: the name of the agent that is called "you" in them.
function sentenceOf({role, of, did, other, how}, you = "") {
    const named = (name) => (name && name === you ? "you" : name);
    if (!did) return [role || "event", of, how].filter(Boolean).join(", ");
    const more = how
        .split(", ")
        .map((part) => (you && part.startsWith(`${you} `) ? `you${part.slice(you.length)}` : part))
        .join(", ");
    const words = [named(of), did, named(other)].filter(Boolean).join(" ");
    return more ? `${words}: ${more}` : words;
}

function eventFrom([step, role, x, y, of, did, other, how], roles) {
    return {step, role: roles[role].name, x, y, of, did, other, how};
}

// Format a step in seconds if the env has a clock, else as its number.
function timeOf(step, step_s) {
    return step_s
        ? `${(step * step_s).toFixed(Math.max(0, Math.ceil(-Math.log10(step_s) - 1e-6)))} s`
        : `step ${step}`;
}

// A thing that is drawn in some of the steps.
class Thing {
    constructor(data, stream, scene) {
        this.name = data.name || "";
        this.of = data.of || "";
        this.text = data.text || "";
        this.trail = data.trail;
        this.styles = new Int16Array(scene.count).fill(-1);
        for (const [start, end, style] of data.in) this.styles.fill(style, start, end);
        this.kind = scene.styles[data.in[0][2]].kind;
        const powers = exponents(this.kind, data.v.length, scene.place);
        this.columns = data.v.map((number, i) => {
            if (number !== null) return scaled(number, powers[i]);
            return Float64Array.from(stream.differences(scene.count), (one) =>
                scaled(one, powers[i]),
            );
        });
    }

    there(step) {
        return this.styles[step] >= 0;
    }

    // Return a number at a step.
    number(i, step) {
        const column = this.columns[i];
        return typeof column === "number" ? column : column[step];
    }

    // Return all numbers at a time between two steps.
    at(time) {
        const step = Math.floor(time),
            share = time - step;
        const goesOn = share > 0 && step + 1 < this.styles.length && this.there(step + 1);
        return this.columns.map((column, i) => {
            if (typeof column === "number") return column;
            const now = column[step];
            if (!goesOn) return now;
            let change = column[step + 1] - now;
            if (this.kind === "box" && i === 4)
                change -= 2 * Math.PI * Math.round(change / (2 * Math.PI));
            return now + share * change;
        });
    }
}

class Scene {
    static async from(base64) {
        const [head, stream] = await unpacked(base64);
        return new Scene(head, stream);
    }

    constructor(head, stream) {
        Object.assign(this, {view: head.view, fps: head.fps, count: head.count, place: head.place});
        Object.assign(this, {step_s: head.step_s, unit: head.unit, close: head.close});
        this.roles = head.roles.map(([name, colour]) => ({name, colour}));
        this.styles = head.styles.map(([kind, role, flags]) => ({kind, role, flags}));
        this.still = head.still.map((data) => this.stillShape(data, stream));
        this.things = head.things.map((data) => new Thing(data, stream, this));
        const named = new Map(
            this.things.filter((thing) => thing.name).map((thing) => [thing.name, thing]),
        );
        this.agents = head.agents.map(({row, name}) => ({
            row,
            name,
            thing: named.get(name),
            series: [],
            seen: null,
        }));
        this.first = this.agents.find(({row}) => row === head.first) || null;
        for (const {name, e, rows, words} of head.series) {
            rows.forEach((data, i) => {
                const values = stream.column(data, this.count, e);
                if (values.some(Number.isFinite))
                    this.agents[i].series.push({name, values, words, digits: digitsOf(values, e)});
            });
        }
        this.numbers = head.numbers.map(({name, e, whole, column}) => {
            const values = stream.column(column, this.count, e);
            return {name, whole, values, digits: digitsOf(values, e)};
        });
        this.readSeen(head.seen, stream);
        this.events = head.events.map((data) => eventFrom(data, this.roles));
        this.used = new Set([...this.still, ...this.seenThings].map((shape) => shape.role));
        for (const thing of this.things)
            for (const style of thing.styles)
                if (style >= 0) this.used.add(this.styles[style].role);
        for (const [, role] of head.events) this.used.add(role);
        this.byName = new Map(
            this.agents.filter((agent) => agent.name).map((agent) => [agent.name, agent]),
        );
    }

    stillShape({s, n, name, of, text}, stream) {
        const {kind, role, flags} = this.styles[s],
            powers = exponents(kind, n, this.place);
        const numbers = Array.from(stream.differences(n, 2), (one, i) => scaled(one, powers[i]));
        return {kind, role, flags, numbers, name: name || "", of: of || "", text: text || ""};
    }

    // Read what agents see: a list of distinct things, and for each agent and step their places in
    // it.
    readSeen(data, stream) {
        this.seenThings = [];
        this.allSeen = data === null || data.all;
        if (data === null) return;
        for (const {s, n, count} of data.kinds) {
            const {kind, role, flags} = this.styles[s],
                powers = exponents(kind, n, this.place);
            const columns = Array.from({length: n}, () => stream.differences(count));
            for (let i = 0; i < count; i++) {
                const numbers = columns.map((column, k) =>
                    scaled(data.coarser * column[i], powers[k]),
                );
                this.seenThings.push({kind, role, flags, numbers});
            }
        }
        const byRow = new Map(this.agents.map((agent) => [agent.row, agent]));
        for (const row of data.rows) {
            const counts = Array.from(stream.take(this.count));
            byRow.get(row).seen = counts.map((count) => stream.differences(count));
        }
    }

    // Return the agent with this label, or null.
    agentOf(label) {
        return this.agents.find((agent) => labelOf(agent) === label) || null;
    }

    // Return what an agent sees at a step, null if it was not recorded.
    seenBy(agent, step) {
        return agent.seen && Array.from(agent.seen[step], (place) => this.seenThings[place]);
    }
}
