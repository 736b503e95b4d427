// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Reads what puffervec/viewing/web/columns.py has packed.

// Return the bytes of zlib data that is given as base64.
async function inflated(base64) {
    const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Return the head and the stream of numbers of packed data.
async function unpacked(base64) {
    const bytes = await inflated(base64);
    const size = new DataView(bytes.buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
    return [head, new NumberStream(bytes.subarray(4 + size))];
}

// Whole numbers, taken one after the other.
class NumberStream {
    constructor(bytes) {
        const count = bytes.length / 4;
        this.numbers = new Int32Array(count);
        for (let i = 0; i < count; i++) {
            const low = bytes[i] | (bytes[count + i] << 8);
            this.numbers[i] = low | (bytes[2 * count + i] << 16) | (bytes[3 * count + i] << 24);
        }
        this.at = 0;
    }

    take(count) {
        this.at += count;
        return this.numbers.subarray(this.at - count, this.at);
    }

    // Numbers that were stored as differences from those `stride` places before.
    differences(count, stride = 1) {
        const found = Int32Array.from(this.take(count));
        for (let i = stride; i < count; i++) found[i] += found[i - stride];
        return found;
    }

    // A column of numbers times 10 ** exponent, NaN where there is nothing. told: [runs], or [runs, number].
    column([runs, alike], count, exponent) {
        const found = new Float64Array(count).fill(NaN);
        const stored = alike === undefined ? this.differences(count) : null;
        for (const [start, end] of runs) {
            for (let i = start; i < end; i++) found[i] = scaled(stored ? stored[i] : alike, exponent);
        }
        return found;
    }
}

// Return number * 10 ** exponent without the noise of a power below 1.
function scaled(number, exponent) {
    return exponent < 0 ? number / 10 ** -exponent : number * 10 ** exponent;
}
