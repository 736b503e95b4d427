// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The page of `puffer-train watch`. It polls the server for news, but only while the page is
// visible.

const POLL_MS = 2000;
const MOST_CHOSEN = 60; // metrics, the same limit as the server's

class WatchPage {
    constructor(root) {
        this.root = root;
        root.className = "page";
        this.state = {runs: [], folders: [], metrics: {}, time: {}, jobs: []};
        this.hidden = new Set(); // numbers of runs
        this.curves = new Map(); // by number of a run
        this.chosen = null; // metrics; null: the default ones
        this.options = {x: "steps", smooth: SMOOTH_PERCENT, log: false, dark: false};
        this.acting = null; // number of the run whose policy is shown
        this.report = null;
        this.shownJob = null; // number of the job whose replay is shown
        this.wanted = null; // the last request of the user
        this.pressed = false; // a pointer is down: elements replaced now would lose its click
        this.stale = false; // there are news that the page does not show yet
        this.theme = themeSwitch(root, (dark) => {
            this.options.dark = dark;
            if (this.charts) this.draw();
        });
        root.append(
            this.head(),
            ...this.policySection(),
            ...this.curvesSection(),
            ...this.timeSection(),
            ...this.filesSection(),
        );
        this.charts = new Charts(this.chartsPlace);
        this.theme.apply();
        document.addEventListener("visibilitychange", () => this.poll());
        for (const name of ["pointerdown", "pointerup", "pointercancel"])
            document.addEventListener(name, () => (this.pressed = name === "pointerdown"), true);
        this.poll();
    }

    // ---- elements of the page

    head() {
        this.runsPlace = element("div", {class: "wide runs"});
        this.trouble = element("p", {class: "bad", role: "status"});
        return element(
            "div",
            {},
            element("header", {}, element("h1", {}, "Runs"), this.theme.node),
            this.trouble,
            this.runsPlace,
        );
    }

    curvesSection() {
        this.chartsPlace = element("div", {class: "charts"});
        this.chooserPlace = element("div", {class: "chooser"});
        this.search = element("input", {
            type: "search",
            placeholder: "find a metric",
            "aria-label": "find a metric",
        });
        this.search.addEventListener("input", () => this.showChooser());
        const usual = button("usual ones", "show what is usually looked at", () =>
            this.choose(null),
        );
        const none = button("none", "show no metric", () => this.choose([]));
        return [
            element("h2", {}, "Curves"),
            curveControls(this.options, (options) => this.change(options)),
            element(
                "details",
                {class: "choose"},
                element("summary", {}, "Choose metrics"),
                element("div", {class: "bar"}, this.search, usual, none),
                this.chooserPlace,
            ),
            this.chartsPlace,
        ];
    }

    timeSection() {
        this.timePlace = element("div", {class: "time"});
        return [element("h2", {}, "Where the time went"), this.timePlace];
    }

    policySection() {
        this.runChoice = element("select", {"aria-label": "run"});
        this.runChoice.addEventListener("change", () => this.act(Number(this.runChoice.value)));
        this.replayButton = button(
            "replay",
            "play the newest checkpoint now",
            () => this.ask("replay", ""),
            {class: "ask-replay"},
        );
        this.evalButton = button(
            "evaluate",
            "evaluate the newest checkpoint, part by part",
            () => this.ask("eval", ""),
            {class: "ask-eval"},
        );
        this.jobsText = element("div", {class: "soft jobs", role: "status"});
        this.jobsTrouble = element("p", {class: "bad"});
        this.newerPlace = element("p", {class: "newer"});
        this.replayPlace = element("div", {class: "replays"});
        this.reportPlace = element("div", {class: "report"});
        return [
            element("h2", {}, "What the policy does"),
            element(
                "p",
                {class: "soft"},
                "The newest checkpoint plays from time to time on idle cores. Your requests go " +
                    "first and take a share of one core, next to the training.",
            ),
            element("div", {class: "bar"}, this.runChoice, this.replayButton, this.evalButton),
            this.jobsText,
            this.jobsTrouble,
            this.newerPlace,
            this.replayPlace,
            this.reportPlace,
        ];
    }

    filesSection() {
        this.filesPlace = element("div", {});
        return [element("h2", {}, "Files"), this.filesPlace];
    }

    // ---- news

    async poll() {
        clearTimeout(this.timer);
        if (document.hidden) return;
        if (!this.polling) {
            this.polling = true;
            try {
                await this.update();
                this.trouble.textContent = "";
            } catch (error) {
                this.trouble.textContent = `No answer (${error.message}): has the command ended?`;
            }
            this.polling = false;
        }
        this.timer = setTimeout(() => this.poll(), POLL_MS);
    }

    async update() {
        const looked = this.acting === null ? "" : `?run=${this.acting}`;
        const state = await (await asked(`state${looked}`)).json(),
            before = JSON.stringify(this.state);
        this.state = state;
        const fresh = await this.fetchCurves();
        this.stale ||= fresh || JSON.stringify(state) !== before;
        if (this.pressed) return;
        if (this.stale) this.showState();
        else this.showReplays();
        if (this.stale) this.draw();
        this.stale = false;
        this.root.dataset.ready = Number(this.root.dataset.ready || 0) + 1;
    }

    // Fetch the curves of runs that have new lines or whose chosen metrics changed; return whether
    // there were any.
    async fetchCurves() {
        const keys = this.keys(),
            wanted = this.shownRuns().filter(({id, version}) => {
                const known = this.curves.get(id);
                return !known || known.version !== version || known.asked !== keys.join("\n");
            });
        for (const {id, version} of wanted) {
            const query = new URLSearchParams([["run", id], ...keys.map((key) => ["key", key])]);
            const found = await (await asked(`curves?${query}`)).json();
            this.curves.set(id, {...found, version, asked: keys.join("\n")});
        }
        return wanted.length > 0;
    }

    shownRuns() {
        return this.state.runs.filter((run) => !this.hidden.has(run.id));
    }

    keys() {
        const known = Object.keys(this.state.metrics);
        const wanted =
            this.chosen === null
                ? known.filter((key) => this.state.metrics[key].usual)
                : known.filter((key) => this.chosen.includes(key));
        return wanted.slice(0, MOST_CHOSEN);
    }

    change(options) {
        Object.assign(this.options, options);
        this.draw();
    }

    async choose(keys) {
        this.chosen = keys;
        this.showChooser();
        await this.fetchCurves();
        this.draw();
    }

    // ---- showing

    showState() {
        const {runs} = this.state;
        if (this.acting === null || !runs[this.acting])
            this.acting = runs.length ? runs.length - 1 : null;
        this.showRuns();
        this.showChooser();
        this.showTime();
        this.showFiles();
        this.showJobs();
    }

    draw() {
        const runs = this.shownRuns()
            .filter((run) => this.curves.has(run.id))
            .map((run) => {
                return {
                    name: run.name,
                    env: run.env,
                    look: lookOf(run.id),
                    curves: this.curves.get(run.id),
                };
            });
        this.charts.show(runs, this.state.metrics, {...this.options, keys: this.keys()});
        this.showTime();
        this.showRuns();
    }

    showRuns() {
        const {runs, folders} = this.state;
        if (!runs.length) {
            const where = folders.join(", "),
                words = `There is no run in ${where} yet: runs appear here when they begin.`;
            this.runsPlace.replaceChildren(
                element("p", {class: "soft none"}, folders.length ? words : ""),
            );
            return;
        }
        const there = (name) => runs.some((run) => run[name] !== null);
        const columns = [
            ["env", (run) => run.env],
            [
                "state",
                (run) =>
                    run.error ||
                    run.remark ||
                    (run.training ? "training" : run.step === null ? "no metrics yet" : "ended"),
            ],
            ...["score", "return"]
                .filter(there)
                .map((name) => [name, (run) => shortNumber(run[name])]),
            ["agent-steps", (run) => shortNumber(run.step)],
            ["steps/s", (run) => shortNumber(run.per_s)],
            ["trained for", (run) => duration(run.elapsed_s)],
            ["left", (run) => (run.training ? duration(run.left_s) : "-")],
            ["checkpoint", (run) => checkpointWords(run.checkpoint)],
        ];
        const kind = (name, run) =>
            !["env", "state"].includes(name)
                ? "number"
                : run && name === "state" && run.error
                  ? "bad"
                  : "";
        const rows = runs.map((run) => {
            const box = element("input", {type: "checkbox"}),
                swatch = swatchOf(lookOf(run.id), this.options.dark);
            box.checked = !this.hidden.has(run.id);
            box.addEventListener("change", () => this.toggle(run.id, box.checked));
            return element(
                "tr",
                {"data-run": run.id},
                element("td", {}, element("label", {}, box, element("span", {}, swatch, run.name))),
                ...columns.map(([name, words]) =>
                    element("td", {class: kind(name, run), "data-column": name}, words(run)),
                ),
            );
        });
        const head = element(
            "tr",
            {},
            ...["run", ...columns.map(([name]) => name)].map((name) =>
                element("th", {class: name === "run" ? "" : kind(name), scope: "col"}, name),
            ),
        );
        this.runsPlace.replaceChildren(
            element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)),
        );
    }

    async toggle(id, on) {
        if (on) this.hidden.delete(id);
        else this.hidden.add(id);
        await this.fetchCurves();
        this.draw();
    }

    showChooser() {
        const sought = this.search.value.trim().toLowerCase();
        const found = Object.entries(this.state.metrics).filter(([key, {meaning}]) =>
            `${key} ${meaning}`.toLowerCase().includes(sought),
        );
        refill(
            this.chooserPlace,
            ...found.map(([key, {meaning}]) => {
                const box = element("input", {type: "checkbox", value: key});
                box.addEventListener("change", () => {
                    const others = this.keys().filter((one) => one !== key);
                    this.choose(box.checked ? [...others, key] : others);
                });
                return element("label", {title: meaning}, box, element("span", {}, key));
            }),
        );
        const keys = this.keys();
        for (const box of this.chooserPlace.querySelectorAll("input"))
            box.checked = keys.includes(box.value);
    }

    showTime() {
        const runs = this.shownRuns().filter((run) => Object.keys(run.time).length);
        this.timePlace.replaceChildren(...timeBars(runs, this.state.time));
    }

    showFiles() {
        refill(
            this.filesPlace,
            ...this.state.runs
                .filter((run) => run.files.length)
                .map((run) => {
                    const links = run.files.map((name) => {
                        const href = `files/${run.id}/${encodeURIComponent(name)}`;
                        return element(
                            "li",
                            {},
                            element("a", {href, target: "_blank", rel: "noopener"}, name),
                        );
                    });
                    return element(
                        "details",
                        {},
                        element("summary", {}, run.name),
                        element("ul", {class: "files"}, ...links),
                    );
                }),
        );
    }

    // ---- evaluations and replays

    act(number) {
        this.acting = number;
        this.report = this.shownJob = this.wanted = null;
        this.reportPlace.replaceChildren();
        this.replayPlace.replaceChildren();
        this.showJobs();
    }

    async ask(kind, part) {
        try {
            this.wanted = {run: this.acting, kind, part};
            const job = await (
                await asked("jobs", {method: "POST", body: JSON.stringify(this.wanted)})
            ).json();
            this.wanted.number = job.number;
            this.state.jobs = [...this.state.jobs.filter(({number}) => number !== job.number), job];
            this.jobsTrouble.textContent = "";
            if (job.number === this.shownJob) this.replayPlace.scrollIntoView({block: "nearest"});
        } catch (error) {
            this.jobsTrouble.textContent = error.message;
        }
        this.showJobs();
    }

    showJobs() {
        const {runs, jobs} = this.state,
            names = runs.map((run) => element("option", {value: run.id}, run.name));
        if (this.runChoice.children.length !== runs.length)
            this.runChoice.replaceChildren(...names);
        if (this.acting !== null) this.runChoice.value = this.acting;
        const mine = jobs.filter((job) => job.run === this.acting),
            busy = mine.filter(({state}) => state === "working" || state === "waiting");
        this.jobsText.replaceChildren(
            ...busy.map((job) => element("div", {class: "job"}, ...this.jobWords(job))),
        );
        const none = this.acting === null || runs[this.acting].checkpoint === null;
        this.replayButton.disabled = this.evalButton.disabled = none;
        if (none)
            this.jobsText.textContent =
                `${this.acting === null ? "There is no run" : "The run has no checkpoint"} yet, ` +
                "so there is nothing to play or evaluate.";
        const failed = mine.filter(({state}) => state === "failed").pop();
        if (failed?.automatic && !busy.length) this.jobsText.textContent = failed.error;
        else if (failed && !failed.automatic) this.jobsTrouble.textContent = failed.error;
        this.showReplays();
        const done = (kind) => mine.filter((job) => job.kind === kind && job.state === "done");
        const report = done("eval").pop();
        if (report && report.number !== this.report) this.showReport(report);
    }

    // Describe what a job is doing, or what it waits for.
    jobWords(job) {
        const {runs, jobs} = this.state,
            what = ({kind, part, checkpoint}) => {
                const name = kind === "eval" ? "evaluation" : "replay",
                    of = part ? ` of ${part}` : "";
                return `${name}${of}, checkpoint ${checkpointWords(checkpoint)}`;
            };
        if (job.state === "working") {
            const words = job.phase ? `${job.phase}, ${Math.round(100 * job.share)} %` : "starting";
            return [
                `${what(job)}: ${words}, ${duration(job.seconds)}`,
                element("progress", {max: 1, value: job.share, "aria-label": words}),
            ];
        }
        const before = jobs.filter(
            (other) =>
                other.state === "working" ||
                (other.state === "waiting" &&
                    (other.automatic - job.automatic || other.number - job.number) < 0),
        );
        const first = before.find(({state}) => state === "working") || before[0],
            more = before.length - 1;
        if (!first) {
            return [`${what(job)}: waits`];
        }
        const whose = first.run !== job.run ? ` of ${runs[first.run].name}` : "",
            others = more > 0 ? `, and ${more} more` : "";
        return [`${what(job)}: waits for the ${what(first)}${whose}${others}`];
    }

    // Show the newest replay of what was last asked for. A replay that the user plays stays until
    // the user pauses it or asks for the other one.
    showReplays() {
        const part = this.wanted && this.wanted.kind === "replay" ? this.wanted.part : "";
        const mine = this.state.jobs.filter(
            (job) => job.run === this.acting && job.kind === "replay" && job.state === "done",
        );
        const newest = mine.filter((job) => job.part === part).pop(),
            frame = this.replayPlace.querySelector("iframe");
        this.newerPlace.replaceChildren();
        if (!newest || newest.number === this.shownJob) return;
        const played = frame && (document.activeElement === frame || frame.matches(":hover"));
        if (!played || (this.wanted && this.wanted.number === newest.number))
            this.showReplay(newest);
        else
            this.newerPlace.append(
                button(
                    `show checkpoint ${checkpointWords(newest.checkpoint)}`,
                    "show the replay of a newer checkpoint",
                    () => this.showReplay(newest),
                ),
            );
    }

    showReplay(job) {
        this.newerPlace.replaceChildren();
        this.shownJob = job.number;
        const part = job.part ? `, ${job.part}` : "",
            words = `checkpoint ${checkpointWords(job.checkpoint)}${part}`;
        const frame = element("iframe", {
            class: "replay",
            src: `jobs/${job.number}`,
            sandbox: "allow-scripts",
            title: "replay",
        });
        const alone = element(
            "a",
            {href: `jobs/${job.number}`, target: "_blank", rel: "noopener"},
            "alone in a tab",
        );
        this.replayPlace.replaceChildren(element("h3", {}, `Replay: ${words} `, alone), frame);
        if (this.wanted && this.wanted.number === job.number)
            this.replayPlace.scrollIntoView({block: "nearest"});
    }

    async showReport(job) {
        this.report = job.number;
        const report = await (await asked(`jobs/${job.number}`)).json();
        const replay = (row) => {
            const part = String(Object.values(row)[0]);
            return button("replay", `play ${part}`, () => this.ask("replay", part));
        };
        const head = element("h3", {}, `Evaluation: checkpoint ${checkpointWords(job.checkpoint)}`);
        this.reportPlace.replaceChildren(
            head,
            ...reportTables(report, report.score ? replay : null),
        );
    }
}

// Fetch an answer of the server. Throws if it refuses.
async function asked(path, settings = {}) {
    const found = await fetch(path, {cache: "no-store", credentials: "omit", ...settings});
    if (!found.ok) throw new Error((await found.text()).trim() || `${found.status}`);
    return found;
}

const watchPage = new WatchPage(document.getElementById("app"));
