// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The page of `puffer-train play`: the user plays one agent with keys or buttons, and then sees how
// the policy does in the same place.

const SPEEDS = [
    ["1", "as it is"],
    ["0.5", "half as fast"],
    ["0.25", "a quarter"],
];

class PlayPage {
    constructor(root) {
        this.root = root;
        root.className = "page play";
        this.held = new Set();
        this.state = "waiting"; // or ready, playing, over, gone
        this.dark = false;
        this.build();
        this.stage = new Stage(this.canvas);
        gestures(this.stage, {
            tapped: (x, y) => this.choose(this.stage.agentAt(x, y, 1)),
            moved: () => {
                this.following = false;
            },
            changed: () => this.paint(),
        });
        document.addEventListener("keydown", (event) => this.pressed(event));
        document.addEventListener("keyup", (event) => this.hold(event.key, false));
        window.addEventListener("blur", () => this.release());
        document.addEventListener("visibilitychange", () => this.say({pause: document.hidden}));
        new ResizeObserver(() => this.paint()).observe(this.canvas);
        this.theme.apply();
        this.connect();
    }

    build() {
        this.theme = themeSwitch(this.root, (dark) => {
            this.dark = dark;
            this.paint();
            if (this.scene) this.showLegend();
        });
        this.heading = element("h1", {}, "play");
        this.canvas = element("canvas", {
            class: "stage",
            "aria-label": "the episode, seen from above",
        });
        this.startButton = button("start", "play the chosen agent (enter)", () => this.start(), {
            class: "start",
        });
        this.againButton = button(
            "again",
            "the same episode from its start",
            () => this.begin(this.seed),
            {class: "again"},
        );
        this.nextButton = button("next", "another episode", () => this.begin(this.seed + 1), {
            class: "next",
        });
        this.agentChoice = element("select", {class: "agent", "aria-label": "who you play"});
        this.agentChoice.addEventListener("change", () =>
            this.choose(this.scene.agents[Number(this.agentChoice.value)]),
        );
        this.speed = element(
            "select",
            {class: "speed", "aria-label": "speed"},
            ...SPEEDS.map(([value, words]) => element("option", {value}, words)),
        );
        this.speed.addEventListener("change", () => this.say({speed: Number(this.speed.value)}));
        this.words = element("p", {class: "words", role: "status"}, "connecting");
        this.gauge = element("output", {class: "gauge"});
        this.numbers = element("output", {class: "now"});
        this.legend = new Legend(() => this.paint());
        this.keysPlace = element("div", {class: "keys"});
        this.scorePlace = element("div", {class: "score"});
        this.root.append(
            element("header", {}, this.heading, this.theme.node),
            element(
                "div",
                {class: "bar"},
                this.agentChoice,
                this.startButton,
                this.againButton,
                this.nextButton,
                this.speed,
            ),
            this.words,
            element("div", {class: "view"}, this.canvas, this.gauge),
            this.numbers,
            this.keysPlace,
            this.legend.node,
            this.scorePlace,
        );
    }

    // ---- the server

    connect() {
        this.socket = new WebSocket(new URL("socket", location.href.replace(/^http/, "ws")));
        this.socket.addEventListener("message", (event) => this.heard(JSON.parse(event.data)));
        this.socket.addEventListener("close", () => {
            this.state = "gone";
            const lost = "the command has ended, or the connection was lost";
            this.words.textContent = this.trouble || `No connection: ${lost}. Reload this page.`;
            this.show();
        });
    }

    say(words) {
        if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(words));
    }

    heard({scene, moment, you, result, trouble}) {
        if (trouble) this.trouble = trouble;
        if (scene) this.setScene(scene);
        if (moment) this.setMoment(moment);
        if (you) {
            this.showGauge(you.facts);
            this.showScore(you, null);
        }
        if (result) {
            this.state = "over";
            this.release();
            const played = "The policy has played the same agent in the same episode.";
            this.words.textContent = `${this.happened} It is over. ${played}`.trim();
            this.showScore(result.you, result.policy);
            this.show();
        }
    }

    setScene(data) {
        this.scene = new LiveScene(data);
        this.seed = data.seed;
        this.data = data;
        this.state = "ready";
        this.happened = ""; // the last thing that happened to the user's agent
        this.known = 0; // number of events that were processed
        this.shownRoles = 0;
        this.following = true;
        this.stage.setScene(this.scene);
        this.heading.textContent = [data.env, data.title, `seed ${data.seed}`]
            .filter(Boolean)
            .join(", ");
        this.agentChoice.replaceChildren(
            ...data.agents.map((name, i) => element("option", {value: i}, name)),
        );
        const keys = Object.entries(data.keys).map(([key, what]) => this.keyButton(key, what));
        this.keysPlace.replaceChildren(...keys);
        this.scorePlace.replaceChildren();
        this.words.textContent = "Choose whom you play, then press start or enter.";
        this.wanted = data.agents.includes(this.wanted) ? this.wanted : data.agents[0];
    }

    keyButton(key, what) {
        const node = button(`${KEY_NAMES[key] || key}  ${what}`, what, () => {}, {
            class: "key",
            "data-key": key,
        });
        node.addEventListener("pointerdown", (event) => {
            event.preventDefault();
            this.hold(key, true);
        });
        for (const name of ["pointerup", "pointercancel", "pointerleave"])
            node.addEventListener(name, () => this.hold(key, false));
        return node;
    }

    setMoment(moment) {
        this.scene.show(moment);
        this.say({seen: moment.step});
        this.arrived = performance.now();
        if (moment.step === 0) {
            this.facts = moment.facts;
            this.choose(this.scene.agents.find(({name}) => name === this.wanted) || null);
        }
        this.tellEvents();
        if (this.scene.used.size !== this.shownRoles) this.showLegend();
        const words = Object.entries(moment.numbers).map(
            ([name, number]) => `${name} ${Number(number.toPrecision(4))}`,
        );
        const time = this.scene.step_s ? [timeOf(moment.step, this.scene.step_s)] : [];
        this.numbers.textContent = [`step ${moment.step}`, ...time, ...words].join(", ");
        if (!this.painting) this.paintOn();
        this.show();
    }

    // Show what has just happened to the user's agent.
    tellEvents() {
        const {events} = this.scene,
            fresh = events.slice(this.known),
            you = this.wanted;
        this.known = events.length;
        if (this.state !== "playing") return;
        for (const event of fresh.filter(({of, other}) => you === of || you === other)) {
            const words = sentenceOf(event, you);
            this.happened = `${words[0].toUpperCase()}${words.slice(1)}.`;
            this.words.textContent = this.happened;
        }
    }

    showLegend() {
        this.stage.dark = this.dark;
        this.shownRoles = this.scene.used.size;
        this.legend.show(this.stage);
    }

    // Show the numbers of the user's agent, the first of them large: in drive the speed.
    showGauge(facts) {
        const words = Object.entries(facts || {})
            .slice(0, 3)
            .map(([name, number]) => [name, formatNumber(number, 1)]);
        this.gauge.replaceChildren(
            ...words.map(([name, number]) =>
                element("span", {}, element("b", {}, number), ` ${name}`),
            ),
        );
    }

    // ---- playing

    begin(seed) {
        this.say({begin: seed});
    }

    start() {
        if (this.state !== "ready" || !this.stage.chosen) return;
        this.state = "playing";
        this.wanted = this.stage.chosen.name;
        this.words.textContent = `You play ${this.wanted}.`;
        this.say({speed: Number(this.speed.value)});
        this.say({start: this.wanted});
        this.canvas.scrollIntoView({block: "nearest"});
        this.show();
    }

    choose(agent) {
        if (!agent || this.state === "playing" || this.state === "over") return;
        this.stage.chosen = agent;
        this.wanted = agent.name;
        this.agentChoice.value = this.scene.agents.indexOf(agent);
        this.following = true;
        if (this.scene.close) this.stage.near();
        this.showGauge(this.facts?.[agent.name]);
        this.paint();
        this.show();
    }

    pressed(event) {
        if (
            event.ctrlKey ||
            event.metaKey ||
            event.altKey ||
            event.target instanceof HTMLSelectElement
        )
            return;
        if (event.key === "Enter" && !(event.target instanceof HTMLButtonElement)) {
            if (this.state === "over") this.begin(this.seed);
            else this.start();
        }
        if (event.key === "t") this.theme.next();
        if (this.data && event.key in this.data.keys && this.state === "playing") {
            event.preventDefault();
            if (!event.repeat) this.hold(event.key, true);
        }
    }

    hold(key, on) {
        if (!this.data || !(key in this.data.keys) || this.held.has(key) === on) return;
        if (on) this.held.add(key);
        else this.held.delete(key);
        this.say({keys: [...this.held]});
        this.show();
    }

    release() {
        for (const key of [...this.held]) this.hold(key, false);
    }

    // ---- showing

    show() {
        const ready = this.state === "ready";
        this.startButton.disabled = !ready || !this.stage.chosen;
        this.againButton.disabled = this.nextButton.disabled =
            this.state === "gone" || this.state === "waiting";
        this.agentChoice.disabled = !ready;
        for (const node of this.keysPlace.children)
            node.setAttribute("aria-pressed", this.held.has(node.dataset.key));
        this.root.dataset.state = this.state;
    }

    showScore(you, policy) {
        const names = [
            ...new Set([...Object.keys(you.facts), ...Object.keys(policy ? policy.facts : {})]),
        ];
        const rows = [
            ["return", (one) => one.return],
            ["steps", (one) => one.steps],
            ...names.map((name) => [name, (one) => one.facts[name]]),
        ];
        const cell = (one, value) =>
            element(
                "td",
                {class: "number"},
                one && value(one) !== undefined ? String(Number(value(one).toPrecision(4))) : "-",
            );
        const lines = rows.map(([name, value]) =>
            element(
                "tr",
                {"data-row": name},
                element("th", {scope: "row"}, name),
                cell(you, value),
                policy ? cell(policy, value) : null,
            ),
        );
        const head = element(
            "tr",
            {},
            element("th"),
            element("th", {class: "number"}, "you"),
            policy ? element("th", {class: "number"}, "policy") : null,
        );
        this.scorePlace.replaceChildren(
            element(
                "div",
                {class: "wide"},
                element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)),
            ),
        );
    }

    // Paint until the last moment is reached.
    paintOn() {
        this.painting = requestAnimationFrame(() => {
            this.painting = null;
            this.paint();
            if (this.share() < 1) this.paintOn();
        });
    }

    share() {
        const step_s = 1 / (this.scene.fps * Number(this.speed.value));
        return this.state === "playing"
            ? Math.min((performance.now() - this.arrived) / 1000 / step_s, 1)
            : 1;
    }

    paint() {
        if (!this.scene || !this.stage) return;
        this.stage.dark = this.dark;
        const time = this.share(),
            chosen = this.stage.chosen;
        if (this.following && chosen?.thing && this.scene.agents.length > 1) {
            [this.stage.camera.x, this.stage.camera.y] = chosen.thing.at(time);
        }
        this.stage.paint(time);
    }
}

const KEY_NAMES = {ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", " ": "space"};

new PlayPage(document.getElementById("app"));
