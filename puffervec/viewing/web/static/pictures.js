// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The picture that the selected agent observes, on a separate canvas. Written by
// puffervec/viewing/web/pictures.py.

class Pictures {
    // arrived: called when the pictures of an agent are decoded.
    constructor(arrived) {
        this.arrived = arrived;
        this.canvas = element("canvas", {
            role: "img",
            "aria-label": "the picture that the agent observes",
        });
        this.words = element("figcaption", {});
        this.node = element("figure", {class: "given", hidden: true}, this.canvas, this.words);
    }

    // pictures: pictures of the episode; null: there are none.
    setScene(pictures) {
        this.pictures = pictures;
        this.known = new Map(); // by row
        if (pictures) [this.canvas.width, this.canvas.height] = [pictures.width, pictures.height];
    }

    // Show what an agent observes at a step. agent: null for none.
    show(agent, step) {
        this.node.hidden = !(agent && this.pictures);
        if (this.node.hidden) return;
        const pictures = this.pictures.rows[agent.row],
            {row} = agent;
        let words = "",
            at = -1;
        if (pictures) {
            if (!this.known.has(row)) this.read(row, pictures);
            at = pictures.steps.findLastIndex((one) => one <= step && step < one + pictures.every);
            if (at >= 0 && pictures.every > 1)
                words = `its picture of step ${pictures.steps[at]}: not all were recorded`;
            else
                words =
                    at < 0
                        ? "no picture at this step"
                        : `its picture, ${this.pictures.width} × ${this.pictures.height}`;
        } else
            words = this.pictures.all
                ? "no picture"
                : "its pictures were not recorded: the file would be too large";
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
        const {width, height} = this.pictures,
            size = width * height,
            start = 1 + 3 * (bytes[0] + 1) + at * size;
        const image = new ImageData(width, height);
        for (let i = 0; i < size; i++) {
            const colour = 1 + 3 * bytes[start + i];
            for (let part = 0; part < 3; part++) image.data[4 * i + part] = bytes[colour + part];
            image.data[4 * i + 3] = 255;
        }
        this.canvas.getContext("2d").putImageData(image, 0, 0);
    }
}
