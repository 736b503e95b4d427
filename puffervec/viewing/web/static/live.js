// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// A running episode, as the stage paints it: the last two moments, and times from 0 to 1 between
// them.

class LiveThing {
    constructor({s, n, name, of, text}, kind) {
        Object.assign(this, {
            name: name || "",
            of: of || "",
            text: text || "",
            kind,
            trail: 0,
            styles: [s, s],
            before: n,
            now: n,
        });
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
            if (this.kind === "box" && i === 4)
                change -= 2 * Math.PI * Math.round(change / (2 * Math.PI));
            return now - (1 - time) * change;
        });
    }
}

class LiveScene {
    constructor(data) {
        Object.assign(this, {
            view: data.view,
            fps: data.fps,
            count: 2,
            step: 0,
            roles: [],
            styles: [],
            events: [],
            things: [],
        });
        Object.assign(this, {
            step_s: data.step_s,
            unit: data.unit,
            close: data.close,
            used: new Set(),
        });
        this.learn(data);
        this.still = data.still.map(({s, n, name, of, text}) => ({
            ...this.styles[s],
            numbers: n,
            name: name || "",
            of: of || "",
            text: text || "",
        }));
        this.agents = data.agents.map((name) => ({name, thing: null}));
        for (const shape of this.still) this.used.add(shape.role);
    }

    // Add new styles, roles and events.
    learn({styles, roles, events}) {
        this.roles.push(...roles.map(([name, colour]) => ({name, colour})));
        this.styles.push(...styles.map(([kind, role, flags]) => ({kind, role, flags})));
        for (const data of events) {
            this.events.push({...eventFrom(data, this.roles), at: data[0]});
            this.used.add(data[1]);
        }
    }

    // Continue with a moment.
    show(moment) {
        this.learn(moment);
        const before = new Map(this.things.map((thing) => [thing.key, thing])),
            counts = new Map();
        this.things = moment.shapes.map((data) => {
            const {kind} = this.styles[data.s],
                what = [kind, data.n.length, data.name || `${data.of} ${data.s}`, data.text].join(
                    "\n",
                );
            counts.set(what, (counts.get(what) || 0) + 1);
            const thing = new LiveThing(data, kind),
                key = `${what}\n${counts.get(what)}`,
                old = before.get(key);
            thing.key = key;
            this.used.add(this.styles[data.s].role);
            if (old) thing.before = old.now;
            return thing;
        });
        this.step = moment.step;
        for (const event of this.events) event.step = event.at - this.step + 1;
        const named = new Map(
            this.things.filter((thing) => thing.name).map((thing) => [thing.name, thing]),
        );
        for (const agent of this.agents) agent.thing = named.get(agent.name) || null;
    }

    seenBy() {
        return null;
    }
}
