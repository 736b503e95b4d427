// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Decoder of what puffervec/viewing/web/columns.py packs.

// Return the decompressed bytes of zlib data in base64.
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

// A stream of whole numbers, read one after the other.
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

    // Read numbers that were stored as differences from those `stride` places before.
    differences(count, stride = 1) {
        const values = Int32Array.from(this.take(count));
        for (let i = stride; i < count; i++) values[i] += values[i - stride];
        return values;
    }

    // Read a column of numbers times 10 ** exponent, NaN for missing ones. The first argument is
    // [runs] or [runs, number].
    column([runs, alike], count, exponent) {
        const values = new Float64Array(count).fill(NaN);
        const stored = alike === undefined ? this.differences(count) : null;
        for (const [start, end] of runs) {
            for (let i = start; i < end; i++)
                values[i] = scaled(stored ? stored[i] : alike, exponent);
        }
        return values;
    }
}

// Return number * 10 ** exponent without the rounding noise of a power below 1.
function scaled(number, exponent) {
    return exponent < 0 ? number / 10 ** -exponent : number * 10 ** exponent;
}
