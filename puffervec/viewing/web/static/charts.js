// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Curves of runs, one chart per metric, drawn by uPlot, and bars of how runs spent their time.

const CHART_PX = 190;
// Px of line, px of gap; for more runs than there are colours.
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
const HOVER = new Set(["mousemove", "mouseleave"]); // events of the pointer that charts share
const MOST_MARKED = 30; // points of a line that has a mark at each

// Return the look of a run's curves by its number; the first 64 looks differ.
function lookOf(number) {
    return {
        colour: PALETTE[number % PALETTE.length],
        dash: DASHES[Math.floor(number / PALETTE.length) % DASHES.length],
    };
}

function swatchOf({colour, dash}, dark) {
    const node = element("i", {class: "swatch"}),
        ink = themeColour(colour, dark);
    let at = 0;
    const stops = dash.map((px, i) => {
        const start = at;
        at += px;
        return `${i % 2 ? "transparent" : ink} ${start}px ${at}px`;
    });
    node.style.background = stops.length
        ? `repeating-linear-gradient(90deg, ${stops.join(", ")})`
        : ink;
    return node;
}

// Format a number for people: 12,345,678 or 0.01235.
function shortNumber(number) {
    if (number === null || number === undefined || !Number.isFinite(number)) return "-";
    if (Number.isInteger(number) || Math.abs(number) >= 1e4)
        return Math.round(number).toLocaleString("en");
    return String(Number(number.toPrecision(4)));
}

// Format a number on an axis: 2M, 500k, 0.25.
function onAxis(number) {
    const size = Math.abs(number);
    for (const [unit, sign] of [
        [1e9, "G"],
        [1e6, "M"],
        [1e3, "k"],
    ]) {
        if (size >= unit) return `${Number((number / unit).toPrecision(4))}${sign}`;
    }
    return String(Number(number.toPrecision(4)));
}

// Return the steps in a checkpoint's name, 000000001000, or 000000001000-1 if the step was saved
// again.
function checkpointWords(name) {
    if (name === null) return "-";
    const [steps, again] = name.split("-");
    return shortNumber(Number(steps)) + (again ? `-${again}` : "");
}

// Format seconds for people: 45 s, 12 min, 3.5 h.
function duration(seconds) {
    if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "-";
    if (seconds < 120) return `${Math.round(seconds)} s`;
    return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// Return running means over windows of `share` of the whole length, which are as long to the left
// as to the right: they get narrower towards the ends, so that the ends do not move. xs: rising.
// A page smooths anew whenever its slider moves, also without a server; a test compares the result
// with that of puffervec/train/metrics/curves.py.
function smoothed(xs, ys, share) {
    const count = xs.length;
    if (share <= 0 || count < 3) return ys;
    const sums = [0],
        width = share * (xs[count - 1] - xs[0]),
        means = [];
    for (const y of ys) sums.push(sums[sums.length - 1] + y);
    let first = 0,
        end = 0;
    for (let i = 0; i < count; i++) {
        const half = Math.min(width / 2, xs[i] - xs[0], xs[count - 1] - xs[i]);
        while (first > 0 && xs[first - 1] >= xs[i] - half) first--;
        while (xs[first] < xs[i] - half) first++;
        if (end < i) end = i;
        while (end < count && xs[end] <= xs[i] + half) end++;
        while (end > i + 1 && xs[end - 1] > xs[i] + half) end--;
        means.push((sums[end] - sums[first]) / (end - first));
    }
    return means;
}

// Return the points of a curve, [xs, ys], without unknown values and, on a logarithmic axis,
// without values that have no logarithm.
function pointsOf(curves, key, options) {
    const values = curves.keys[key] || [],
        xs = [],
        ys = [];
    const along = options.x === "minutes" ? curves.elapsed_s : curves.step;
    values.forEach((value, i) => {
        if (value === null || along[i] === null || (options.log && value <= 0)) return;
        if (xs.length && along[i] <= xs[xs.length - 1] && options.x === "minutes") return;
        xs.push(options.x === "minutes" ? along[i] / 60 : along[i]);
        ys.push(value);
    });
    return [xs, ys];
}

// Return the index of the value nearest to x in a column with gaps, null outside the column's
// range.
function nearest(column, at) {
    let left = at,
        right = at;
    while (left >= 0 && column[left] == null) left--;
    while (right < column.length && column[right] == null) right++;
    if (left < 0 || right >= column.length) return null;
    return at - left <= right - at ? left : right;
}

class Charts {
    constructor(holder) {
        this.holder = holder;
        this.charts = new Map(); // by env and metric: {card, plot, looks}
        this.zoomed = null; // the visible part of the x axis, [from, to]; null: all of it
        this.zoomOut = button(
            "zoom out",
            "show the whole curves; a double click does so too",
            () => this.zoom(null),
            {class: "zoom-out"},
        );
        this.zoomOut.hidden = true;
        holder.before(this.zoomOut);
        this.observer = new ResizeObserver(() => this.fit());
        this.observer.observe(holder);
    }

    // runs: [{name, env, look, curves: {step, elapsed_s, keys}}, ...]. metrics: descriptions by
    // key. options: {keys, x, smooth (%), log, dark}. Charts that look the same as before keep
    // their place, zoom and cursor, and get new numbers.
    show(runs, metrics, options) {
        if (options.x !== this.along) this.zoom(null);
        this.along = options.x;
        const envs = [...new Set(runs.map((run) => run.env))],
            before = this.charts,
            fresh = [];
        this.charts = new Map();
        for (const env of envs) {
            const mine = runs.filter((run) => run.env === env);
            for (const key of options.keys) {
                const there = mine.filter((run) => pointsOf(run.curves, key, options)[0].length),
                    id = `${env}\n${key}`;
                if (!there.length) continue;
                const looks = JSON.stringify([
                    options.x,
                    options.smooth,
                    options.log,
                    options.dark,
                    envs.length,
                    there.map(({name, look}) => [name, look]),
                ]);
                const old = before.get(id),
                    reused = old && old.looks === looks ? old : null;
                const chart = reused || {
                    looks,
                    card: this.card(key, metrics[key], envs.length > 1 ? env : "", there, options),
                };
                this.charts.set(id, chart);
                if (reused) before.delete(id);
                fresh.push([chart, key, there]);
            }
        }
        for (const {plot} of before.values()) plot.destroy();
        const cards = fresh.map(([{card}]) => card);
        if (
            cards.length !== this.holder.children.length ||
            cards.some((card, i) => card !== this.holder.children[i])
        )
            this.holder.replaceChildren(...cards);
        for (const [chart, key, there] of fresh) {
            const data = this.dataOf(key, there, options);
            chart.last = there.map((run) => pointsOf(run.curves, key, options)[1].pop());
            if (chart.plot) {
                chart.plot.setData(data, this.zoomed === null);
                this.scale(chart.plot);
            } else chart.plot = this.plot(chart, data, there, options);
            this.tell(chart, options);
        }
    }

    // Show a part of the x axis in all charts, or all of it.
    zoom(range) {
        this.zoomed = range;
        this.zoomOut.hidden = range === null;
        for (const {plot} of this.charts.values()) this.scale(plot);
    }

    scale(plot) {
        const [xs] = plot.data,
            [min, max] = this.zoomed || [xs[0], xs[xs.length - 1]];
        if (this.zoomed || xs.length > 1) plot.setScale("x", {min, max});
    }

    card(key, metric, env, runs, options) {
        const items = runs.map((run) =>
            element(
                "li",
                {},
                swatchOf(run.look, options.dark),
                element("span", {}, run.name),
                element("b", {}),
            ),
        );
        const unit = metric?.unit ? element("small", {}, ` ${metric.unit}`) : "";
        return element(
            "section",
            {class: "chart", "data-key": key, title: metric ? metric.meaning : ""},
            element("h3", {}, key, unit, env ? element("small", {}, ` in ${env}`) : ""),
            element("div", {class: "plot"}),
            element("p", {class: "soft at"}),
            element("ul", {}, ...items),
        );
    }

    // Return a column of x and, for each run, the raw values if they are smoothed, and the line.
    dataOf(key, runs, options) {
        const share = options.smooth / 100,
            tables = [];
        for (const run of runs) {
            const [xs, ys] = pointsOf(run.curves, key, options);
            if (share > 0) tables.push([xs, ys]);
            tables.push([xs, smoothed(xs, ys, share)]);
        }
        return tables.length > 1 ? uPlot.join(tables) : tables[0];
    }

    // Show the values of the lines below a chart: at the pointer, or the newest ones if there is no
    // pointer.
    tell({card, plot, last}, options) {
        const {idx, left} = plot.cursor,
            over = left >= 0 && idx !== null && idx !== undefined,
            per = (plot.series.length - 1) / last.length;
        card.querySelector(".at").textContent = over
            ? `at ${onAxis(plot.data[0][idx])} ${options.x}`
            : "newest";
        card.querySelectorAll("li b").forEach((place, i) => {
            const column = plot.data[(i + 1) * per],
                at = over ? nearest(column, idx) : null;
            place.textContent = over
                ? shortNumber(at === null ? null : column[at])
                : shortNumber(last[i]);
        });
    }

    plot(chart, data, runs, options) {
        const {dark, log} = options,
            place = chart.card.querySelector(".plot"),
            series = [{}];
        for (const {look} of runs) {
            const stroke = themeColour(look.colour, dark),
                line = {stroke, dash: look.dash, spanGaps: true};
            if (options.smooth > 0)
                series.push({...line, dash: [], alpha: 0.28, width: 1, points: {show: false}});
            const known = data[series.length].filter((y) => y !== null && y !== undefined);
            series.push({...line, width: 1.8, points: {show: known.length <= MOST_MARKED}});
        }
        const axis = {
            ...axisLook(dark),
            values: (_u, marks) => marks.map((n) => (n === null ? "" : onAxis(n))),
        };
        const hover = (type) => HOVER.has(type),
            per = options.smooth > 0 ? 2 : 1; // series per run; the last one is its line
        const bind = {
            mouseup: (u, _target, handler) => (event) => {
                const {left, width} = u.select,
                    range =
                        width > 0 ? [left, left + width].map((px) => u.posToVal(px, "x")) : null;
                handler(event);
                if (range) this.zoom(range);
            },
            dblclick: () => () => this.zoom(null),
        };
        const settings = {
            width: Math.max(place.clientWidth, 120),
            height: CHART_PX,
            legend: {show: false},
            cursor: {
                drag: {x: true, y: false},
                y: false,
                bind,
                points: {size: 5},
                dataIdx: (u, i, at) => (i === 0 ? at : i % per ? null : nearest(u.data[i], at)),
                sync: {key: "curves", scales: ["x", null], filters: {pub: hover, sub: hover}},
            },
            scales: {
                x: {
                    time: false,
                    ...(this.zoomed ? {min: this.zoomed[0], max: this.zoomed[1]} : {}),
                },
                y: log ? {distr: 3} : {},
            },
            axes: [
                {...axis, size: 24},
                {...axis, size: 52, space: 26},
            ],
            series,
            hooks: {setCursor: [() => chart.plot && this.tell(chart, options)]},
        };
        return new uPlot(settings, data, place);
    }

    fit() {
        for (const {plot} of this.charts.values()) {
            const width = Math.max(plot.root.parentElement.clientWidth, 120);
            if (width !== plot.width) plot.setSize({width, height: CHART_PX});
        }
    }
}

// Build the controls of how curves are drawn. options: {x, smooth, log}. changed: called with the
// new ones.
function curveControls(options, changed) {
    const along = element(
        "select",
        {class: "along"},
        ...["steps", "minutes"].map((value) => element("option", {value}, value)),
    );
    along.value = options.x;
    along.addEventListener("change", () => changed({x: along.value}));
    const smooth = element("input", {
        type: "range",
        min: 0,
        max: 30,
        step: 1,
        value: options.smooth,
        class: "smooth",
    });
    const words = element("output", {}, `${options.smooth} %`),
        log = element("input", {type: "checkbox", class: "log"});
    smooth.addEventListener("input", () => {
        words.textContent = `${smooth.value} %`;
        changed({smooth: Number(smooth.value)});
    });
    log.addEventListener("change", () => changed({log: log.checked}));
    return element(
        "div",
        {class: "bar"},
        element("label", {}, "over", along),
        element("label", {}, "mean over", smooth, words),
        element("label", {}, log, "logarithmic"),
    );
}

// Build bars of how runs spent their time. runs: [{name, time: {part: share}}, ...]. meanings: by
// part.
function timeBars(runs, meanings) {
    const parts = Object.keys(meanings),
        bars = [];
    for (const run of runs) {
        const pieces = parts
            .filter((part) => run.time[part] > 0)
            .map((part) => {
                const share = run.time[part],
                    words = `${part} ${(100 * share).toFixed(1)} %`;
                const piece = element(
                    "span",
                    {title: `${words}: ${meanings[part]}`},
                    share > 0.14 ? words : "",
                );
                piece.style.width = `${100 * share}%`;
                piece.style.background = PALETTE[parts.indexOf(part) % PALETTE.length];
                return piece;
            });
        bars.push(element("h3", {}, run.name), element("div", {class: "shares"}, ...pieces));
        bars.push(
            element(
                "p",
                {class: "soft split"},
                parts
                    .map((part) => `${part} ${(100 * (run.time[part] || 0)).toFixed(1)} %`)
                    .join(", "),
            ),
        );
    }
    const legend = parts.map((part, number) => {
        const swatch = element("i", {class: "swatch"});
        swatch.style.background = PALETTE[number % PALETTE.length];
        return element("span", {}, swatch, `${part}: ${meanings[part]}`);
    });
    return [...bars, element("div", {class: "legend soft"}, ...legend)];
}
