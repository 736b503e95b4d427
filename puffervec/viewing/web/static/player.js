// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The clock of a replay: a time in steps that runs, pauses or jumps.

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8];

class Player {
    // changed(time): called with each new time.
    constructor(changed) {
        this.changed = changed;
        this.time = 0;
        this.last = 0;
        this.fps = 10;
        this.speed = SPEEDS.indexOf(1);
        this.playing = false;
        this.stamp = null;
    }

    setScene(count, fps) {
        Object.assign(this, {last: count - 1, fps, time: 0});
        this.changed(0);
    }

    get step() {
        return Math.floor(this.time);
    }

    seek(time) {
        this.time = Math.min(Math.max(time, 0), this.last);
        this.changed(this.time);
    }

    // Move by some whole steps and pause there.
    move(steps) {
        this.pause();
        this.seek((steps < 0 ? Math.ceil(this.time) : this.step) + steps);
    }

    toggle() {
        if (this.playing) this.pause();
        else this.play();
    }

    play() {
        if (this.time >= this.last) this.time = 0;
        this.playing = true;
        this.stamp = null;
        requestAnimationFrame((now) => this.tick(now));
    }

    pause() {
        this.playing = false;
        this.seek(this.step);
    }

    faster(by) {
        this.speed = Math.min(Math.max(this.speed + by, 0), SPEEDS.length - 1);
        this.changed(this.time);
    }

    tick(now) {
        if (!this.playing) return;
        const passed_s = this.stamp === null ? 0 : Math.min((now - this.stamp) / 1000, 0.25);
        this.stamp = now;
        this.time = Math.min(this.time + passed_s * this.fps * SPEEDS[this.speed], this.last);
        if (this.time >= this.last) this.pause();
        else {
            this.changed(this.time);
            requestAnimationFrame((next) => this.tick(next));
        }
    }
}
