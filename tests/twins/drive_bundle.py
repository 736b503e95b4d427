# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The twin of csrc/drive/block/bundle.c: which scenes fill an env, in plain Python. Runs in the
tests only.
"""

from __future__ import annotations

from puffervec.testing.reference.philox import below, bits64, uniform

ATTEMPTS = 8
MOST_REPEATS, REPEAT_DRAWS = 3, 0x10000000
ROUNDS, LEAST_BITS, PASS_STEP = 6, 4, 2**32 - 1


def fill(
    sizes: list[int],
    rows: int,
    seed: int,
    episode: int,
    weights: list[float] | None = None,
    taken: int = 0,
) -> list[int]:
    """Return the scenes of a bundle, in slot order.

    Args: sizes: agents per scene; 0 or more than `rows` are never drawn. weights: of the scenes;
        None: all the same. taken: rows that other scenes have already.
    """

    def chosen(scenes: list[int], draw: int) -> int:
        if weights is None:
            return scenes[below(seed, episode, 0, draw, len(scenes))]
        target = (bits64(seed, episode, 0, draw) >> 11) * 2.0**-53 * sum(weights[i] for i in scenes)
        for scene in scenes:
            target -= weights[scene]
            if target < 0:
                return scene
        return scenes[-1]

    order = sorted(
        (i for i, size in enumerate(sizes) if 0 < size <= rows), key=lambda i: (sizes[i], i)
    )

    # waste[n]: the fewest rows that stay empty of n free ones
    waste: list[int] = []
    for n in range(rows + 1):
        waste.append(min((waste[n - sizes[i]] for i in order if sizes[i] <= n), default=n))

    best: list[int] = []
    least = rows + 1
    empty = rows - taken
    for attempt in range(ATTEMPTS):
        free, draw, finishing = empty, attempt << 16, False
        found: list[int] = []
        while any(sizes[i] <= free for i in order):
            scene = chosen(order, draw)
            draw += 1
            if sizes[scene] > free:
                finishing = True
            if finishing:
                fitting = [
                    i for i in order if sizes[i] <= free and waste[free - sizes[i]] == waste[free]
                ]
                scene = chosen(fitting, draw)
                draw += 1
            found.append(scene)
            free -= sizes[scene]
        if free < least:
            best, least = found, free
        if least == waste[empty]:
            break
    return best


def order_of_pass(seed: int, number: int, count: int, chosen_set: int = 0) -> list[int]:
    """Return the numbers 0 to count - 1 in the order of a pass: a permutation of 4^bits numbers,
    walked until one is less.
    """
    bits = LEAST_BITS
    while 4**bits < count:
        bits += 1

    def sent(value: int) -> int:
        left, right = divmod(value, 2**bits)
        for turn in range(ROUNDS):
            left, right = (
                right,
                left ^ (bits64(seed, number, PASS_STEP - chosen_set, turn << 16 | right) % 2**bits),
            )
        return left << bits | right

    found = []
    for place in range(count):
        value = sent(place)
        while value >= count:
            value = sent(value)
        found.append(value)
    return found


def repeated(
    slots: list[tuple[int, bool, int]], share: float, seed: int, episode: int
) -> list[tuple[int, int]]:
    """Return the scenes of a bundle that the next one, number `episode`, has again, each with how
    often it was drawn again.

    Args: slots: of the bundle: scene, whether an agent failed in its last whole episode, how often
        it was drawn again.
    """
    return [
        (scene, repeats + 1)
        for slot, (scene, failed, repeats) in enumerate(slots)
        if failed
        and repeats < MOST_REPEATS
        and uniform(seed, episode, 0, REPEAT_DRAWS + slot) < share
    ]


def fill_in_turn(sizes: list[int], rows: int, seed: int, drawn: int) -> list[int]:
    """Return the scenes of a bundle under scene_draws=passes, before which `drawn` scenes were
    drawn.
    """
    order = sorted(
        (i for i, size in enumerate(sizes) if 0 < size <= rows), key=lambda i: (sizes[i], i)
    )
    found: list[int] = []
    free = rows
    while True:
        number, place = divmod(drawn + len(found), len(order))
        scene = order[order_of_pass(seed, number, len(order))[place]]
        if sizes[scene] > free:
            return found
        free -= sizes[scene]
        found.append(scene)


def draw_of_sets(sets: list[list[int]], weights: list[float], seed: int, drawn: int) -> int:
    """Return the scene that is drawn after `drawn` others. sets: the scenes of each that can be
    drawn, none of them empty.
    """
    shares = [weight / sum(weights[number:]) for number, weight in enumerate(weights)]
    counts = [0] * len(sets)  # draws of each set so far
    for draw in range(drawn + 1):
        left = draw
        for number, share in enumerate(shares):
            last = number == len(sets) - 1
            if last or int((left + 1) * share) > int(left * share):
                break
            left -= int(left * share)
        counts[number] += 1
    which, place = divmod(counts[number] - 1, len(sets[number]))
    return sets[number][order_of_pass(seed, which, len(sets[number]), number)[place]]
