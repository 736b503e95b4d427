// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The page of a replay: the list of episodes, the canvas with its controls, and facts about the
// selected agent.

const KEYS = [
    ["space", "play, pause"],
    ["← →", "a step back, on"],
    ["shift ← →", "ten steps"],
    ["home, end", "first, last step"],
    ["[ ]", "slower, faster"],
    ["n p", "next, previous agent"],
    ["f", "follow the agent"],
    ["o", "show what it observes"],
    ["a", "show ways, goals and logs of all"],
    ["e", "next event"],
    ["+ - 0", "zoom in, out, show all"],
    ["t", "light, dark"],
    ["esc", "choose nobody"],
];

function numberWords({name, whole, digits, values}, step) {
    return `${name} ${formatNumber(values[step], digits)}${whole === null ? "" : ` of ${whole}`}`;
}

// Parse the fragment of an address such as "#episode=2&step=31&agent=car+4", and leave out what is
// not a number.
function momentOf(fragment) {
    const given = new URLSearchParams(fragment.slice(1)),
        found = {agent: given.get("agent") || ""};
    const whole = (name) =>
        /^\d{1,6}$/.test(given.get(name) || "") ? Number(given.get(name)) : undefined;
    const episode = whole("episode"),
        step = whole("step");
    return {
        ...found,
        ...(episode > 0 ? {episode: episode - 1} : {}),
        ...(step === undefined ? {} : {step}),
    };
}

class ReplayPage {
    // root: the element to fill. data: {title, replays: [...]}. keys: element whose key presses
    // count. linked: the page shows only this replay, so that its address can name the current
    // moment.
    constructor(root, data, keys, linked = false) {
        this.root = root;
        this.data = data;
        this.linked = linked;
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
        if (linked) window.addEventListener("hashchange", () => this.goTo(momentOf(location.hash)));
        this.goTo(linked ? momentOf(location.hash) : {});
    }

    // ---- elements of the page

    build() {
        this.theme = themeSwitch(this.root, (dark) => this.setDark(dark));
        this.canvas = element("canvas", {
            class: "stage",
            "aria-label": "the episode, seen from above",
        });
        this.legend = new Legend(() => this.changed());
        this.root.classList.add("replay");
        this.root.append(
            element("header", {}, element("h1", {}, this.data.title), this.theme.node),
            this.sceneList(),
            element("section", {class: "theatre"}, this.canvas, this.controls()),
            this.legend.node,
            this.panel(),
        );
    }

    sceneList() {
        this.sceneButtons = this.data.replays.map((replay, number) => {
            const happened = Object.entries(replay.events)
                .map(([name, count]) => `${count} × ${name}`)
                .join(", ");
            const score =
                replay.score === null ? "" : `${replay.measure} ${formatNumber(replay.score, 2)}`;
            const words = [
                score,
                `${replay.agents} agent${replay.agents === 1 ? "" : "s"}`,
                happened,
            ]
                .filter(Boolean)
                .join(" · ");
            return element(
                "button",
                {type: "button", onclick: () => this.show(number)},
                element("b", {}, replay.title || `episode ${number + 1}`),
                element("small", {}, words),
            );
        });
        const items = this.sceneButtons.map((node) => element("li", {}, node));
        return element(
            "nav",
            {class: "scenes", "aria-label": "episodes, the lowest score first"},
            element("ol", {}, ...items),
        );
    }

    controls() {
        this.playButton = button("▶", "play or pause (space)", () => this.player.toggle(), {
            class: "play",
        });
        this.scrub = element("input", {
            type: "range",
            min: "0",
            value: "0",
            class: "scrub",
            "aria-label": "step",
        });
        this.scrub.addEventListener("input", () => this.jump(Number(this.scrub.value)));
        this.marks = element("div", {class: "marks"});
        this.stepText = element(this.linked ? "a" : "output", {
            class: "step",
            title: this.linked ? "a link to this moment" : false,
        });
        this.speedText = element("output", {class: "speed"});
        this.numbersPlace = element("div", {class: "numbers"});
        this.followButton = button(
            "follow",
            "follow the agent (f)",
            () => this.follow(!this.following),
            {class: "follow"},
        );
        this.sightButton = button("sees", "show what the agent observes (o)", () =>
            this.toggle("sight"),
        );
        this.allButton = button("all ways", "show ways, goals and logs of all (a)", () =>
            this.toggle("all"),
        );
        return element(
            "div",
            {class: "controls"},
            element("div", {class: "line"}, this.scrub, this.marks),
            element(
                "div",
                {class: "buttons"},
                this.playButton,
                button("◀", "a step back (←)", () => this.player.move(-1)),
                button("▶|", "a step on (→)", () => this.player.move(1)),
                button("−", "slower ([)", () => this.player.faster(-1)),
                this.speedText,
                button("+", "faster (])", () => this.player.faster(1)),
                this.followButton,
                this.sightButton,
                this.allButton,
                button("whole", "show all (0)", () => this.whole()),
                this.stepText,
            ),
            this.numbersPlace,
        );
    }

    panel() {
        this.agentChoice = element("select", {class: "agent", "aria-label": "agent"});
        this.agentChoice.addEventListener("change", () =>
            this.choose(this.scene.agents[Number(this.agentChoice.value)] || null),
        );
        this.facts = element("dl", {class: "facts"});
        this.pictures = new Pictures(() => this.showPicture());
        this.curvesPlace = element("div", {class: "curves"});
        this.eventList = element("ol", {class: "events"});
        const keys = KEYS.flatMap(([key, what]) => [
            element("dt", {}, key),
            element("dd", {}, what),
        ]);
        return element(
            "aside",
            {class: "panel"},
            this.agentChoice,
            this.facts,
            this.pictures.node,
            element("details", {open: true}, element("summary", {}, "events"), this.eventList),
            this.curvesPlace,
            element(
                "details",
                {},
                element("summary", {}, "keys"),
                element("dl", {class: "keys"}, ...keys),
            ),
        );
    }

    // ---- episodes

    // Show an episode. step, agent: the moment to start at and the name of the agent to select;
    // without one the page selects the agent with the lowest return and shows it as closely as the
    // drawing sets.
    async show(number, {step = 0, agent = ""} = {}) {
        this.player.pause();
        this.number = number;
        const replay = this.data.replays[number];
        replay.scene ||= Scene.from(replay.data);
        const scene = await replay.scene;
        if (this.number !== number) return;
        this.sceneButtons.forEach((item, i) => {
            item.setAttribute("aria-current", i === number);
        });
        this.scene = scene;
        this.stage.hidden = new Set();
        this.stage.setScene(scene);
        this.pictures.setScene(replay.pictures);
        this.scrub.max = scene.count - 1;
        const options = scene.agents.map((agent, i) =>
            element("option", {value: i}, labelOf(agent)),
        );
        this.agentChoice.replaceChildren(
            element("option", {value: -1}, "choose an agent"),
            ...options,
        );
        this.showEvents();
        this.legend.show(this.stage);
        this.makeNumbers();
        this.stepText.style.minWidth = `${this.stepWords(scene.count - 1).length}ch`;
        this.player.setScene(scene.count, scene.fps);
        this.player.seek(step);
        this.choose(scene.agentOf(agent) || scene.first);
        this.follow(scene.close > 0);
        this.root.dataset.ready = number;
    }

    // Go to a moment as `momentOf` returns it; what it does not set stays the same.
    goTo({episode = this.number || 0, step, agent}) {
        const number = Math.min(episode, this.data.replays.length - 1);
        if (number !== this.number) return this.show(number, {step, agent});
        if (!this.scene) return undefined;
        if (step !== undefined) this.jump(step);
        const named = this.scene.agentOf(agent);
        if (named && named !== this.stage.chosen) this.choose(named);
        return undefined;
    }

    fragment() {
        const {chosen} = this.stage,
            {step} = this.player,
            agent = chosen ? {agent: labelOf(chosen)} : {};
        return `#${new URLSearchParams({episode: this.number + 1, step, ...agent})}`;
    }

    // Write the current moment to the address after a pause: browsers limit how often it may
    // change.
    nameMoment() {
        this.stepText.setAttribute("href", this.fragment());
        clearTimeout(this.naming);
        this.naming = setTimeout(() => {
            if (!this.player.playing) history.replaceState(null, "", this.fragment());
        }, 200);
    }

    showEvents() {
        const {scene} = this,
            last = Math.max(scene.count - 1, 1);
        const marks = [],
            items = [];
        for (const event of scene.events) {
            const words = `${timeOf(event.step, scene.step_s)}: ${sentenceOf(event)}`;
            const go = () => this.jumpTo(event),
                swatch = element("i", {});
            const mark = button("", words, go, {class: "mark", tabindex: -1});
            mark.style.left = `${(100 * event.step) / last}%`;
            mark.style.background = swatch.style.background = this.colourOf(event.role);
            marks.push(mark);
            items.push(
                element(
                    "li",
                    {},
                    element(
                        "button",
                        {type: "button", title: `step ${event.step}`, onclick: go},
                        swatch,
                        words,
                    ),
                ),
            );
        }
        this.marks.replaceChildren(...marks);
        this.eventList.replaceChildren(...items);
        this.eventList.parentElement.hidden = !items.length;
    }

    colourOf(name) {
        const role = this.scene.roles.find((one) => one.name === name);
        return themeColour(role?.colour, this.stage.dark);
    }

    jumpTo(event) {
        this.jump(event.step);
        const {chosen} = this.stage,
            parties = [event.of, event.other]
                .map((name) => this.scene.byName.get(name))
                .filter(Boolean);
        const agent = parties.includes(chosen) ? chosen : parties[0];
        if (agent) this.choose(agent);
    }

    // ---- the selected agent

    choose(agent) {
        this.stage.chosen = agent;
        this.agentChoice.value = agent ? this.scene.agents.indexOf(agent) : -1;
        if (!agent) this.following = false;
        this.curves.show(agent ? agent.series : [], this.stage.dark);
        this.changed();
    }

    next(by) {
        const {agents} = this.scene,
            count = agents.length,
            step = this.player.step;
        let at = agents.indexOf(this.stage.chosen);
        if (at < 0 && by < 0) at = 0;
        for (let tried = 0; tried < count; tried++) {
            at = (at + by + count) % count;
            if (!agents[at].thing || agents[at].thing.there(step)) break;
        }
        if (count) this.choose(agents[at]);
    }

    follow(on) {
        this.following = Boolean(on && this.stage.chosen?.thing);
        if (this.following) this.stage.near();
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
        this.legend.show(this.stage);
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
        const {time, step, playing, speed} = this.player,
            {stage} = this;
        const thing = stage.chosen?.thing;
        if (this.following && thing?.there(step)) [stage.camera.x, stage.camera.y] = thing.at(time);
        stage.paint(time);
        this.curves.mark(time);
        this.speedText.textContent = `${SPEEDS[speed]}×`;
        this.playButton.textContent = playing ? "❚❚" : "▶";
        for (const [node, on] of [
            [this.followButton, this.following],
            [this.sightButton, stage.sight],
            [this.allButton, stage.all],
        ]) {
            node.setAttribute("aria-pressed", on);
        }
        const key = [this.number, step, stage.chosen?.row].join();
        if (key === this.shownKey) return; // Between two steps only the canvas changes.
        this.shownKey = key;
        this.scrub.value = step;
        this.stepText.textContent = this.stepWords(step);
        if (this.linked) this.nameMoment();
        this.showNumbers(step);
        this.showFacts(step);
        this.showPicture();
    }

    stepWords(step) {
        const {step_s, count} = this.scene;
        return `${step_s ? `${timeOf(step, step_s)}, ` : ""}step ${step} of ${count - 1}`;
    }

    // Each number has room for its longest value, so that later values do not move the canvas.
    makeNumbers() {
        this.numbersPlace.replaceChildren(
            ...this.scene.numbers.map((one) => {
                const node = element("output", {}),
                    lengths = Array.from(one.values, (_, step) => numberWords(one, step).length);
                node.style.minWidth = `${Math.max(...lengths)}ch`;
                return node;
            }),
        );
    }

    showNumbers(step) {
        this.scene.numbers.forEach((one, i) => {
            this.numbersPlace.children[i].textContent = numberWords(one, step);
        });
    }

    showFacts(step) {
        const agent = this.stage.chosen,
            rows = [];
        if (agent) {
            const {thing} = agent;
            if (thing)
                rows.push([
                    "at",
                    thing.there(step)
                        ? thing
                              .at(step)
                              .slice(0, 2)
                              .map((one) => formatNumber(one, 2))
                              .join(", ")
                        : "gone",
                ]);
            for (const {name, digits, values, words} of agent.series) {
                rows.push([name, words?.[values[step]] || formatNumber(values[step], digits)]);
            }
            const seen = this.scene.seenBy(agent, step);
            if (seen) rows.push(["sees", `${seen.length} things`]);
            else if (!this.scene.allSeen)
                rows.push(["sees", "not recorded: the file would be too large"]);
        }
        this.facts.replaceChildren(
            ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
        );
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
        const steps = event.shiftKey ? 10 : 1,
            [width, height] = this.stage.size;
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
        if (events.length)
            this.jumpTo(events.find((one) => one.step > this.player.step) || events[0]);
    }

    zoom(factor, width, height) {
        this.stage.zoom(factor, width / 2, height / 2);
        this.changed();
    }
}
