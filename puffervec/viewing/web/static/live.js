// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// An episode that is under way, as the stage paints it: the last moment and the one before, and times from 0 to 1 between them.

class LiveThing {
    constructor({s, n, name, of, text}, kind) {
        Object.assign(this, {name: name || "", of: of || "", text: text || "", kind, trail: 0, styles: [s, s], before: n, now: n});
    }

    there() {
        return true;
    }

    number(i, step) {
        return (step > 0 ? this.now : this.before)[i];
    }

    at(time) {
        return this.now.map((now, i) => {
            let change = now - this.before[i];
            if (this.kind === "box" && i === 4) change -= 2 * Math.PI * Math.round(change / (2 * Math.PI));
            return now - (1 - time) * change;
        });
    }
}

class LiveScene {
    constructor(told) {
        Object.assign(this, {view: told.view, fps: told.fps, count: 2, step: 0, roles: [], styles: [], events: [], things: []});
        Object.assign(this, {step_s: told.step_s, unit: told.unit, close: told.close, used: new Set()});
        this.learn(told);
        this.still = told.still.map(({s, n, name, of, text}) => ({...this.styles[s], numbers: n, name: name || "", of: of || "", text: text || ""}));
        this.agents = told.agents.map((name) => ({name, thing: null}));
        for (const shape of this.still) this.used.add(shape.role);
    }

    // Take in styles, roles and events that are new.
    learn({styles, roles, events}) {
        this.roles.push(...roles.map(([name, colour]) => ({name, colour})));
        this.styles.push(...styles.map(([kind, role, flags]) => ({kind, role, flags})));
        for (const told of events) {
            this.events.push({...eventFrom(told, this.roles), at: told[0]});
            this.used.add(told[1]);
        }
    }

    // Go on to a moment.
    show(moment) {
        this.learn(moment);
        const before = new Map(this.things.map((thing) => [thing.key, thing])), counts = new Map();
        this.things = moment.shapes.map((told) => {
            const {kind} = this.styles[told.s], what = [kind, told.n.length, told.name || `${told.of} ${told.s}`, told.text].join("\n");
            counts.set(what, (counts.get(what) || 0) + 1);
            const thing = new LiveThing(told, kind), key = `${what}\n${counts.get(what)}`, old = before.get(key);
            thing.key = key;
            this.used.add(this.styles[told.s].role);
            if (old) thing.before = old.now;
            return thing;
        });
        this.step = moment.step;
        for (const event of this.events) event.step = event.at - this.step + 1;
        const named = new Map(this.things.filter((thing) => thing.name).map((thing) => [thing.name, thing]));
        for (const agent of this.agents) agent.thing = named.get(agent.name) || null;
    }

    seenBy() {
        return null;
    }
}
