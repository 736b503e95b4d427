// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What the chosen agent is given as a picture, on a canvas of its own. puffervec/viewing/web/pictures.py writes it.

class Pictures {
    // arrived: called when the pictures of an agent are there.
    constructor(arrived) {
        this.arrived = arrived;
        this.canvas = element("canvas", {role: "img", "aria-label": "what the agent is given as a picture"});
        this.words = element("figcaption", {});
        this.made = element("figure", {class: "given", hidden: true}, this.canvas, this.words);
    }

    // told: of the episode; null: there are no pictures.
    setScene(told) {
        this.told = told;
        this.known = new Map();  // by row
        if (told) [this.canvas.width, this.canvas.height] = [told.width, told.height];
    }

    // Show what an agent is given at a step. agent: null for nobody.
    show(agent, step) {
        this.made.hidden = !(agent && this.told);
        if (this.made.hidden) return;
        const told = this.told.rows[agent.row], {row} = agent;
        let words = "", at = -1;
        if (told) {
            if (!this.known.has(row)) this.read(row, told);
            at = told.steps.findLastIndex((one) => one <= step && step < one + told.every);
            if (at >= 0 && told.every > 1) words = `its picture of step ${told.steps[at]}: not all are kept`;
            else words = at < 0 ? "no picture at this step" : `its picture, ${this.told.width} × ${this.told.height}`;
        } else words = this.told.all ? "no picture" : "its pictures are not kept: the file would be too large";
        this.words.textContent = words;
        const pixels = at < 0 ? null : this.known.get(row);
        this.canvas.hidden = !pixels;
        if (pixels) this.paint(pixels, at);
    }

    async read(row, {data}) {
        const {known} = this;
        known.set(row, null);
        known.set(row, await inflated(data));
        if (known === this.known) this.arrived();
    }

    paint(bytes, at) {
        const {width, height} = this.told, size = width * height, start = 1 + 3 * (bytes[0] + 1) + at * size;
        const image = new ImageData(width, height);
        for (let i = 0; i < size; i++) {
            const colour = 1 + 3 * bytes[start + i];
            for (let part = 0; part < 3; part++) image.data[4 * i + part] = bytes[colour + part];
            image.data[4 * i + 3] = 255;
        }
        this.canvas.getContext("2d").putImageData(image, 0, 0);
    }
}
