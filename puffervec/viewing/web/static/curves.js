// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Curves of one agent over the steps of an episode, drawn by uPlot; a line marks the current
// moment.

const CURVE_PX = 84;

class Curves {
    // seek(step): called when a curve is clicked.
    constructor(holder, seek) {
        this.holder = holder;
        this.seek = seek;
        this.plots = [];
    }

    // Show series: [{name, values}, ...], with NaN for missing values. dark: on a dark background.
    show(series, dark) {
        for (const {plot} of this.plots) plot.destroy();
        this.holder.replaceChildren();
        this.plots = series
            .filter(({values}) => values.some(Number.isFinite))
            .map((one) => this.plotOf(one, dark));
        this.mark(this.time || 0);
    }

    plotOf({name, values}, dark) {
        const axis = axisLook(dark);
        const settings = {
            width: Math.max(this.holder.clientWidth, 160),
            height: CURVE_PX,
            legend: {show: false},
            cursor: {drag: {x: false, y: false}, points: {show: false}, y: false},
            scales: {x: {time: false}},
            axes: [
                {...axis, size: 20},
                {...axis, size: 48, space: 24},
            ],
            series: [{}, {stroke: (dark ? DARK : LIGHT).accent, width: 1.5, points: {show: false}}],
        };
        const data = [
            Array.from(values, (_, step) => step),
            Array.from(values, (one) => (Number.isFinite(one) ? one : null)),
        ];
        const place = element("div", {class: "curve"}, element("h4", {}, name));
        this.holder.append(place);
        const plot = new uPlot(settings, data, place),
            now = element("div", {class: "now"});
        plot.over.append(now);
        plot.over.addEventListener("click", () =>
            this.seek(Math.round(plot.posToVal(plot.cursor.left, "x"))),
        );
        return {plot, now};
    }

    mark(time) {
        this.time = time;
        for (const {plot, now} of this.plots)
            now.style.transform = `translateX(${plot.valToPos(time, "x")}px)`;
    }

    fit() {
        for (const {plot} of this.plots)
            plot.setSize({width: Math.max(this.holder.clientWidth, 160), height: CURVE_PX});
    }
}
