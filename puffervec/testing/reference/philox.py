# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The random numbers of C envs (csrc/contract/rng.h) in plain Python: Philox-4x32-10 and its draws.

Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11, section
3.3 and figure 3.
"""

from __future__ import annotations

WORD = 0xFFFFFFFF


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the four 32-bit words of a counter and a key after ten rounds."""
    left_0, right_0, left_1, right_1 = counter
    key_0, key_1 = key
    for _ in range(10):
        product_0, product_1 = 0xD2511F53 * left_0, 0xCD9E8D57 * left_1
        left_0, right_0, left_1, right_1 = (
            (product_1 >> 32) ^ right_0 ^ key_0,
            product_1 & WORD,
            (product_0 >> 32) ^ right_1 ^ key_1,
            product_0 & WORD,
        )
        key_0, key_1 = (key_0 + 0x9E3779B9) & WORD, (key_1 + 0xBB67AE85) & WORD
    return left_0, right_0, left_1, right_1


def bits64(env_seed: int, episode: int, step: int, draw: int) -> int:
    """Return the 64 random bits of a draw."""
    out = philox((episode & WORD, episode >> 32, step, draw), (env_seed & WORD, env_seed >> 32))
    return out[1] << 32 | out[0]


def uniform(env_seed: int, episode: int, step: int, draw: int) -> float:
    """Return a random multiple of 2**-24 in [0, 1)."""
    return (bits64(env_seed, episode, step, draw) >> 40) / 2**24


def below(env_seed: int, episode: int, step: int, draw: int, n: int) -> int:
    """Return a random integer in [0, n)."""
    return (bits64(env_seed, episode, step, draw) >> 32) * n >> 32
