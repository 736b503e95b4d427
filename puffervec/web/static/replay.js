// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The page of a replay: the list of episodes, the canvas with its controls, and what there is to say of the chosen agent.

const KEYS = [
    ["space", "play, pause"], ["← →", "a step back, on"], ["shift ← →", "ten steps"], ["home, end", "first, last step"],
    ["[ ]", "slower, faster"], ["n p", "next, previous agent"], ["f", "follow the agent"], ["o", "show what it observes"],
    ["a", "show ways, goals and logs of all"], ["e", "next event"], ["+ - 0", "zoom in, out, show all"], ["t", "light, dark"],
    ["esc", "choose nobody"],
];

class ReplayPage {
    // root: the element to fill. data: {title, replays: [...]}. keys: whose key presses count.
    constructor(root, data, keys) {
        this.root = root;
        this.data = data;
        this.following = false;
        this.build();
        this.stage = new Stage(this.canvas);
        this.player = new Player(() => this.changed());
        this.curves = new Curves(this.curvesPlace, (step) => this.jump(step));
        gestures(this.stage, {
            tapped: (x, y) => this.choose(this.stage.agentAt(x, y, this.player.time)),
            moved: () => this.follow(false),
            changed: () => this.changed(),
        });
        keys.addEventListener("keydown", (event) => this.pressed(event));
        new ResizeObserver(() => this.resized()).observe(this.canvas);
        this.theme.apply();
        this.show(0);
    }

    // ---- what the page is made of

    build() {
        this.theme = themeSwitch(this.root, (dark) => this.setDark(dark));
        this.canvas = element("canvas", {class: "stage", "aria-label": "the episode, seen from above"});
        this.root.classList.add("replay");
        this.root.append(
            element("header", {}, element("h1", {}, this.data.title), this.theme.made),
            this.sceneList(),
            element("section", {class: "theatre"}, this.canvas, this.controls(), this.legendPlace = element("div", {class: "legend"})),
            this.panel(),
        );
    }

    sceneList() {
        this.sceneButtons = this.data.replays.map((replay, number) => {
            const happened = Object.entries(replay.events).map(([name, count]) => `${count} ${name}`).join(", ");
            const score = replay.score === null ? "" : `${replay.measure} ${said(replay.score, 2)}`;
            const words = [score, `${replay.agents} agent${replay.agents === 1 ? "" : "s"}`, happened].filter(Boolean).join(" · ");
            return element("button", {type: "button", onclick: () => this.show(number)},
                element("b", {}, replay.title || `episode ${number + 1}`), element("small", {}, words));
        });
        const items = this.sceneButtons.map((made) => element("li", {}, made));
        return element("nav", {class: "scenes", "aria-label": "episodes, the lowest score first"}, element("ol", {}, ...items));
    }

    controls() {
        this.playButton = button("▶", "play or pause (space)", () => this.player.toggle(), {class: "play"});
        this.scrub = element("input", {type: "range", min: "0", value: "0", class: "scrub", "aria-label": "step"});
        this.scrub.addEventListener("input", () => this.jump(Number(this.scrub.value)));
        this.marks = element("div", {class: "marks"});
        this.stepText = element("output", {class: "step"});
        this.speedText = element("output", {class: "speed"});
        this.numbersText = element("output", {class: "numbers"});
        return element("div", {class: "controls"},
            element("div", {class: "line"}, this.scrub, this.marks),
            element("div", {class: "buttons"},
                this.playButton,
                button("◀", "a step back (←)", () => this.player.move(-1)),
                button("▶|", "a step on (→)", () => this.player.move(1)),
                button("−", "slower ([)", () => this.player.faster(-1)), this.speedText,
                button("+", "faster (])", () => this.player.faster(1)),
                this.followButton = button("follow", "follow the agent (f)", () => this.follow(!this.following), {class: "follow"}),
                this.sightButton = button("sees", "show what the agent observes (o)", () => this.toggle("sight")),
                this.allButton = button("all ways", "show ways, goals and logs of all (a)", () => this.toggle("all")),
                button("whole", "show all (0)", () => this.whole()),
                this.stepText, this.numbersText));
    }

    panel() {
        this.agentChoice = element("select", {class: "agent", "aria-label": "agent"});
        this.agentChoice.addEventListener("change", () => this.choose(this.scene.agents[Number(this.agentChoice.value)] || null));
        this.facts = element("dl", {class: "facts"});
        this.pictures = new Pictures(() => this.showPicture());
        this.curvesPlace = element("div", {class: "curves"});
        this.eventList = element("ol", {class: "events"});
        const keys = KEYS.flatMap(([key, what]) => [element("dt", {}, key), element("dd", {}, what)]);
        return element("aside", {class: "panel"},
            this.agentChoice, this.facts, this.pictures.made, this.curvesPlace,
            element("details", {open: true}, element("summary", {}, "events"), this.eventList),
            element("details", {}, element("summary", {}, "keys"), element("dl", {class: "keys"}, ...keys)));
    }

    // ---- an episode

    async show(number) {
        this.player.pause();
        this.number = number;
        const replay = this.data.replays[number];
        const scene = await (replay.scene ||= Scene.from(replay.data));
        if (this.number !== number) return;
        this.sceneButtons.forEach((made, i) => made.setAttribute("aria-current", i === number));
        this.scene = scene;
        this.stage.hidden = new Set();
        this.stage.setScene(scene);
        this.pictures.setScene(replay.pictures);
        this.scrub.max = scene.count - 1;
        const options = scene.agents.map((agent, i) => element("option", {value: i}, agent.name || `row ${agent.row}`));
        this.agentChoice.replaceChildren(element("option", {value: -1}, "choose an agent"), ...options);
        this.showEvents();
        this.showLegend();
        this.choose(scene.agents.length === 1 ? scene.agents[0] : null);
        this.player.setScene(scene.count, scene.fps);
        this.root.dataset.ready = number;
    }

    showEvents() {
        const last = Math.max(this.scene.count - 1, 1);
        const marks = [], items = [];
        for (const event of this.scene.events) {
            const words = `step ${event.step}: ${event.role || "event"}${event.of ? `, ${event.of}` : ""}`;
            const go = () => this.jumpTo(event);
            const mark = button("", words, go, {class: "mark", tabindex: -1});
            mark.style.left = `${(100 * event.step) / last}%`;
            mark.style.background = this.colourOf(event.role);
            marks.push(mark);
            items.push(element("li", {}, element("button", {type: "button", onclick: go}, words)));
        }
        this.marks.replaceChildren(...marks);
        this.eventList.replaceChildren(...items);
    }

    colourOf(name) {
        const role = this.scene.roles.find((one) => one.name === name);
        return shown(role && role.colour, this.stage.dark);
    }

    showLegend() {
        this.legendPlace.replaceChildren(...this.scene.roles.flatMap(({name, colour}, role) => {
            if (!colour || !this.scene.used.has(role)) return [];
            const swatch = element("i", {});
            swatch.style.background = shown(colour, this.stage.dark);
            const made = element("button", {type: "button", "aria-pressed": !this.stage.hidden.has(role), title: "show or hide"}, swatch, name);
            made.addEventListener("click", () => this.toggleRole(role));
            return [made];
        }));
    }

    toggleRole(role) {
        if (!this.stage.hidden.delete(role)) this.stage.hidden.add(role);
        this.showLegend();
        this.changed();
    }

    jumpTo(event) {
        this.jump(event.step);
        const agent = this.scene.byName.get(event.of);
        if (agent) this.choose(agent);
    }

    // ---- who is looked at

    choose(agent) {
        this.stage.chosen = agent;
        this.agentChoice.value = agent ? this.scene.agents.indexOf(agent) : -1;
        if (!agent) this.following = false;
        this.curves.show(agent ? agent.series : [], this.stage.dark);
        this.changed();
    }

    next(by) {
        const {agents} = this.scene, count = agents.length, step = this.player.step;
        let at = agents.indexOf(this.stage.chosen);
        if (at < 0 && by < 0) at = 0;
        for (let tried = 0; tried < count; tried++) {
            at = (at + by + count) % count;
            if (!agents[at].thing || agents[at].thing.there(step)) break;
        }
        if (count) this.choose(agents[at]);
    }

    follow(on) {
        this.following = Boolean(on && this.stage.chosen && this.stage.chosen.thing);
        if (this.following && this.stage.camera.scale < 4 * this.stage.least * 2) this.stage.zoom(3, 0, 0);
        this.changed();
    }

    toggle(what) {
        this.stage[what] = !this.stage[what];
        this.changed();
    }

    whole() {
        this.following = false;
        this.stage.fit();
        this.changed();
    }

    setDark(dark) {
        if (!this.stage) return;
        this.stage.dark = dark;
        if (!this.scene) return;
        this.showLegend();
        this.showEvents();
        this.choose(this.stage.chosen);
    }

    // ---- time

    jump(step) {
        this.player.playing = false;
        this.player.seek(step);
    }

    // Show the moment of the player's time.
    changed() {
        if (!this.scene) return;
        const {time, step, playing, speed} = this.player, {stage} = this;
        const thing = stage.chosen && stage.chosen.thing;
        if (this.following && thing && thing.there(step)) [stage.camera.x, stage.camera.y] = thing.at(time);
        stage.paint(time);
        this.curves.mark(time);
        this.speedText.textContent = `${SPEEDS[speed]}×`;
        this.playButton.textContent = playing ? "❚❚" : "▶";
        for (const [made, on] of [[this.followButton, this.following], [this.sightButton, stage.sight], [this.allButton, stage.all]]) {
            made.setAttribute("aria-pressed", on);
        }
        const told = [this.number, step, stage.chosen && stage.chosen.row].join();
        if (told === this.told) return;  // Between two steps only the canvas changes.
        this.told = told;
        this.scrub.value = step;
        this.stepText.textContent = `step ${step} of ${this.scene.count - 1}`;
        this.showNumbers(step);
        this.showFacts(step);
        this.showPicture();
    }

    showNumbers(step) {
        const words = this.scene.numbers.map(({name, whole, digits, values}) => {
            return `${name} ${said(values[step], digits)}${whole === null ? "" : ` of ${whole}`}`;
        });
        this.numbersText.textContent = words.join(", ");
    }

    showFacts(step) {
        const agent = this.stage.chosen, rows = [];
        if (agent) {
            const {thing} = agent;
            if (thing) rows.push(["at", thing.there(step) ? thing.at(step).slice(0, 2).map((one) => said(one, 2)).join(", ") : "gone"]);
            for (const {name, digits, values} of agent.series) rows.push([name, said(values[step], digits)]);
            const seen = this.scene.seenBy(agent, step);
            if (seen) rows.push(["sees", `${seen.length} things`]);
            else if (!this.scene.allSeen) rows.push(["sees", "not kept: the file would be too large"]);
        }
        this.facts.replaceChildren(...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
    }

    showPicture() {
        this.pictures.show(this.stage.chosen, this.player.step);
    }

    resized() {
        this.stage.resized();
        this.curves.fit();
        this.changed();
    }

    // ---- keys

    pressed(event) {
        if (!this.scene || event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.target instanceof HTMLSelectElement) return;
        const steps = event.shiftKey ? 10 : 1, [width, height] = this.stage.size;
        const actions = {
            " ": () => this.player.toggle(),
            ArrowLeft: () => this.player.move(-steps),
            ArrowRight: () => this.player.move(steps),
            Home: () => this.jump(0),
            End: () => this.jump(this.player.last),
            "[": () => this.player.faster(-1),
            "]": () => this.player.faster(1),
            n: () => this.next(1),
            p: () => this.next(-1),
            f: () => this.follow(!this.following),
            o: () => this.toggle("sight"),
            a: () => this.toggle("all"),
            e: () => this.nextEvent(),
            "+": () => this.zoom(1.3, width, height),
            "-": () => this.zoom(1 / 1.3, width, height),
            0: () => this.whole(),
            t: () => this.theme.next(),
            Escape: () => this.choose(null),
        };
        const action = actions[event.key];
        if (!action || (event.key === " " && event.target instanceof HTMLButtonElement)) return;
        event.preventDefault();
        action();
    }

    nextEvent() {
        const {events} = this.scene;
        if (events.length) this.jumpTo(events.find((one) => one.step > this.player.step) || events[0]);
    }

    zoom(factor, width, height) {
        this.stage.zoom(factor, width / 2, height / 2);
        this.changed();
    }
}
