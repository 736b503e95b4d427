// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Curves of runs, a chart for each metric, drawn by uPlot; and how the time of a run was spent.

const CHART_PX = 190;
// Colours that keep apart for the colour-blind (Okabe and Ito 2008).
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#2b2e33"];

function colourOf(number) {
    return COLOURS[number % COLOURS.length];
}

// A number for people: 12,345,678 or 0.01235.
function shortly(number) {
    if (number === null || number === undefined || !Number.isFinite(number)) return "-";
    if (Number.isInteger(number) || Math.abs(number) >= 1e4) return Math.round(number).toLocaleString("en");
    return String(Number(number.toPrecision(4)));
}

// A number on an axis: 2M, 500k, 0.25.
function onAxis(number) {
    const size = Math.abs(number);
    for (const [unit, sign] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
        if (size >= unit) return `${Number((number / unit).toPrecision(4))}${sign}`;
    }
    return String(Number(number.toPrecision(4)));
}

// Seconds for people: 45 s, 12 min, 3.5 h.
function duration(seconds) {
    if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "-";
    if (seconds < 120) return `${Math.round(seconds)} s`;
    return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// Means of the points at most half of `share` of the whole length away, as far to the left as to the right: towards the ends the
// window gets narrower, so that the ends stay where they are. xs: rising. As puffervec/train/metrics/curves.py.
function smoothed(xs, ys, share) {
    const count = xs.length;
    if (share <= 0 || count < 3) return ys;
    const sums = [0], width = share * (xs[count - 1] - xs[0]), found = [];
    for (const y of ys) sums.push(sums[sums.length - 1] + y);
    let first = 0, end = 0;
    for (let i = 0; i < count; i++) {
        const half = Math.min(width / 2, xs[i] - xs[0], xs[count - 1] - xs[i]);
        while (first > 0 && xs[first - 1] >= xs[i] - half) first--;
        while (xs[first] < xs[i] - half) first++;
        if (end < i) end = i;
        while (end < count && xs[end] <= xs[i] + half) end++;
        while (end > i + 1 && xs[end - 1] > xs[i] + half) end--;
        found.push((sums[end] - sums[first]) / (end - first));
    }
    return found;
}

// The points of a curve, [xs, ys], without what is not known, or has no logarithm where one is drawn.
function pointsOf(curves, key, options) {
    const values = curves.keys[key] || [], xs = [], ys = [];
    const along = options.x === "minutes" ? curves.elapsed_s : curves.step;
    values.forEach((value, i) => {
        if (value === null || along[i] === null || (options.log && value <= 0)) return;
        if (xs.length && along[i] <= xs[xs.length - 1] && options.x === "minutes") return;
        xs.push(options.x === "minutes" ? along[i] / 60 : along[i]);
        ys.push(value);
    });
    return [xs, ys];
}

class Charts {
    constructor(holder) {
        this.holder = holder;
        this.plots = [];
        this.observer = new ResizeObserver(() => this.fit());
        this.observer.observe(holder);
    }

    // runs: [{name, env, colour, curves: {step, elapsed_s, keys}}, ...]. metrics: what is known of keys. options: {keys, x, smooth (%),
    // log, dark}.
    show(runs, metrics, options) {
        for (const plot of this.plots) plot.destroy();
        this.plots = [];
        const envs = [...new Set(runs.map((run) => run.env))];
        const cards = [];
        for (const env of envs) {
            const mine = runs.filter((run) => run.env === env);
            for (const key of options.keys) {
                const there = mine.filter((run) => pointsOf(run.curves, key, options)[0].length);
                if (there.length) cards.push([this.card(key, metrics[key], envs.length > 1 ? env : "", there, options), key, there]);
            }
        }
        this.holder.replaceChildren(...cards.map(([card]) => card));
        for (const [card, key, there] of cards) this.plots.push(this.plot(card.querySelector(".plot"), key, there, options));
    }

    card(key, metric, env, runs, options) {
        const items = runs.map((run) => {
            const swatch = element("i", {class: "swatch"}), [, ys] = pointsOf(run.curves, key, options);
            swatch.style.background = shown(run.colour, options.dark);
            return element("li", {}, swatch, element("span", {}, run.name), element("b", {}, shortly(ys[ys.length - 1])));
        });
        const unit = metric && metric.unit ? element("small", {}, ` ${metric.unit}`) : "";
        return element("section", {class: "chart", "data-key": key, title: metric ? metric.meaning : ""},
            element("h3", {}, key, unit, env ? element("small", {}, ` in ${env}`) : ""), element("div", {class: "plot"}), element("ul", {}, ...items));
    }

    plot(place, key, runs, options) {
        const {dark, log} = options, share = options.smooth / 100, tables = [], series = [{}];
        for (const run of runs) {
            const [xs, ys] = pointsOf(run.curves, key, options), stroke = shown(run.colour, dark);
            if (share > 0) {
                tables.push([xs, ys]);
                series.push({stroke, alpha: 0.28, width: 1, spanGaps: true, points: {show: false}});
            }
            tables.push([xs, smoothed(xs, ys, share)]);
            series.push({stroke, width: 1.8, spanGaps: true, points: {show: xs.length === 1}});
        }
        const ink = dark ? "#b7bcc6" : "#4a4f57", grid = {stroke: dark ? "#30343c" : "#e4e3de", width: 1};
        const axis = {stroke: ink, grid, ticks: {show: false}, font: "11px system-ui, sans-serif", values: (u, marks) => marks.map((n) => (n === null ? "" : onAxis(n)))};
        const settings = {
            width: Math.max(place.clientWidth, 120),
            height: CHART_PX,
            legend: {show: false},
            cursor: {drag: {x: true, y: false}, points: {show: false}},
            scales: {x: {time: false}, y: log ? {distr: 3} : {}},
            axes: [{...axis, size: 24}, {...axis, size: 52, space: 26}],
            series,
        };
        return new uPlot(settings, tables.length > 1 ? uPlot.join(tables) : tables[0], place);
    }

    fit() {
        for (const plot of this.plots) {
            const width = Math.max(plot.root.parentElement.clientWidth, 120);
            if (width !== plot.width) plot.setSize({width, height: CHART_PX});
        }
    }
}

// What chooses how curves are drawn. options: {x, smooth, log}. changed: called with those that are new.
function curveControls(options, changed) {
    const along = element("select", {class: "along"}, ...["steps", "minutes"].map((value) => element("option", {value}, value)));
    along.value = options.x;
    along.addEventListener("change", () => changed({x: along.value}));
    const smooth = element("input", {type: "range", min: 0, max: 30, step: 1, value: options.smooth, class: "smooth"});
    const words = element("output", {}, `${options.smooth} %`), log = element("input", {type: "checkbox", class: "log"});
    smooth.addEventListener("input", () => {
        words.textContent = `${smooth.value} %`;
        changed({smooth: Number(smooth.value)});
    });
    log.addEventListener("change", () => changed({log: log.checked}));
    return element("div", {class: "bar"}, element("label", {}, "over", along), element("label", {}, "mean over", smooth, words),
        element("label", {}, log, "logarithmic"));
}

// Bars of how the time of runs was spent. runs: [{name, time: {part: share}}, ...]. meanings: by part.
function timeBars(runs, meanings) {
    const parts = Object.keys(meanings), bars = [];
    for (const run of runs) {
        const pieces = parts.filter((part) => run.time[part] > 0).map((part) => {
            const share = run.time[part], words = `${part} ${(100 * share).toFixed(1)} %`;
            const piece = element("span", {title: `${words}: ${meanings[part]}`}, share > 0.14 ? words : "");
            piece.style.width = `${100 * share}%`;
            piece.style.background = COLOURS[parts.indexOf(part) % COLOURS.length];
            return piece;
        });
        bars.push(element("h3", {}, run.name), element("div", {class: "shares"}, ...pieces));
        bars.push(element("p", {class: "soft split"}, parts.map((part) => `${part} ${(100 * (run.time[part] || 0)).toFixed(1)} %`).join(", ")));
    }
    const legend = parts.map((part, number) => {
        const swatch = element("i", {class: "swatch"});
        swatch.style.background = COLOURS[number % COLOURS.length];
        return element("span", {}, swatch, `${part}: ${meanings[part]}`);
    });
    return [...bars, element("div", {class: "legend soft"}, ...legend)];
}
