// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The page of `puffer-train report`: how a run was trained, what it learned, and how well it does.

class ReportPage {
    constructor(root, data) {
        this.data = data;
        this.root = root;
        root.className = "page";
        this.options = {
            keys: Object.keys(data.metrics).filter((key) => data.metrics[key].usual),
            x: "steps",
            smooth: SMOOTH_PERCENT,
            log: false,
            dark: false,
        };
        const theme = themeSwitch(root, (dark) => this.setDark(dark));
        this.chartsPlace = element("div", {class: "charts"});
        this.timePlace = element("div", {class: "time"});
        const head = element(
            "header",
            {},
            element("h1", {}, `${data.env}: ${data.name}`),
            theme.node,
        );
        root.append(
            head,
            this.headline(),
            this.summary(),
            ...this.evaluation(),
            ...this.replays(theme),
            ...this.curves(),
            ...this.settings(),
        );
        this.charts = new Charts(this.chartsPlace);
        theme.apply();
    }

    // Return the result of the evaluation as a line, next to those of the baselines on the same
    // episodes.
    headline() {
        const {score, total, rows, tables} = this.data.evaluation,
            measure = score || "return";
        const parts = total ? [total] : rows,
            first = Object.keys(rows[0] || {})[0],
            others = (tables?.comparison || []).slice(parts.length);
        const sentence = (row, name) =>
            element(
                "div",
                {},
                `${name}: `,
                element("b", {}, `${measure} ${cellText(row, measure)}`),
            );
        const known = (row) => row[measure] !== undefined;
        const who = (row) =>
            total
                ? `${this.data.name}, ${row[first]}`
                : rows.length > 1
                  ? row[first]
                  : this.data.name;
        return element(
            "section",
            {class: "headline"},
            ...parts.filter(known).map((row) => sentence(row, who(row))),
            ...others.filter(known).map((row) => sentence(row, row.driver)),
        );
    }

    summary() {
        const {last, starts, evaluation, date} = this.data,
            start = starts[starts.length - 1] || {},
            versions = start.versions || {};
        const commit = start.git
            ? `${start.git.commit}${start.git.changed ? ", with changes" : ""}`
            : "";
        const steps = shortNumber(last.step),
            updates = shortNumber(last.update);
        const facts = [
            ["trained", `${steps} agent-steps in ${duration(last.elapsed_s)}, ${updates} updates`],
            [
                "evaluated",
                `checkpoint ${checkpointWords(evaluation.checkpoint)}, seed ${evaluation.seed}`,
            ],
            [
                "versions",
                Object.entries(versions)
                    .map(([name, version]) => `${name} ${version}`)
                    .join(", "),
            ],
            ["command", start.command],
            [
                "started",
                start.started &&
                    `${start.started}${starts.length > 1 ? `, ${starts.length} starts` : ""}`,
            ],
            ["device", start.device],
            [
                "machine",
                [start.cpu, start.usable_cores && `${start.usable_cores} cores`, start.platform]
                    .filter(Boolean)
                    .join(", "),
            ],
            [
                "seeds",
                start.seeds &&
                    Object.entries(start.seeds)
                        .map(([name, seed]) => `${name} ${seed}`)
                        .join(", "),
            ],
            ["commit", commit],
            ["written", date],
        ];
        return factList(facts.filter(([, words]) => words));
    }

    evaluation() {
        const {evaluation, metrics} = this.data,
            {shown, rows, meanings} = evaluation;
        const columns = shown.length ? shown : columnsOf(rows),
            entries = new Map(columns.map((name) => [name, meanings[name]]));
        for (const key of this.options.keys) entries.set(key, metrics[key].meaning);
        const words = [...entries].filter(([, meaning]) => meaning);
        const definitions = element(
            "details",
            {class: "definitions", open: true},
            element("summary", {}, "What the numbers are"),
            factList(words),
        );
        return [
            element("h2", {}, "Evaluation"),
            element("div", {class: "report"}, ...reportTables(evaluation)),
            definitions,
        ];
    }

    replays(theme) {
        const {replays} = this.data;
        if (!replays.length) return [];
        const place = element("div", {tabindex: 0, "aria-label": "replays"});
        queueMicrotask(() => {
            const replay = new ReplayPage(place, {title: "", replays}, place);
            theme.node.addEventListener("click", () => replay.theme.next());
        });
        return [element("h2", {}, "Replays"), place];
    }

    curves() {
        const bar = curveControls(this.options, (options) => {
            Object.assign(this.options, options);
            this.draw();
        });
        return [
            element("h2", {}, "Curves"),
            bar,
            this.chartsPlace,
            element("h2", {}, "Where the time went"),
            this.timePlace,
        ];
    }

    settings() {
        const tables = Object.entries(this.data.settings).filter(
            ([, table]) => table && typeof table === "object",
        );
        const node = tables.map(([name, table]) => {
            const rows = Object.entries(table).map(([key, value]) => [
                key,
                typeof value === "string" ? value : JSON.stringify(value),
            ]);
            return element(
                "details",
                {},
                element("summary", {}, name),
                element("div", {class: "settings"}, factList(rows)),
            );
        });
        return [element("h2", {}, "Settings"), ...node];
    }

    setDark(dark) {
        this.options.dark = dark;
        if (this.charts) this.draw();
    }

    draw() {
        const {name, env, curves, metrics, time, meanings} = this.data;
        this.charts.show([{name, env, look: lookOf(0), curves}], metrics, this.options);
        this.timePlace.replaceChildren(...timeBars([{name, time}], meanings));
    }
}

function factList(rows) {
    return element(
        "dl",
        {class: "facts"},
        ...rows.flatMap(([name, words]) => [element("dt", {}, name), element("dd", {}, words)]),
    );
}

new ReportPage(
    document.getElementById("app"),
    JSON.parse(document.getElementById("data").textContent),
);
