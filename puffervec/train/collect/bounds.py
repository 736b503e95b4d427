# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Find observations outside the bounds that an env declares, by which policies scale them.

Runs in the learner.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from puffervec.core.spec import GroupSpec
from puffervec.train.collect.storage import Storage
from puffervec.train.policies.leaves import group_views

SLACK = 0.01  # Share of a range. bf16 rows of C envs are rounded by up to 0.4 %.


def outside_bounds(group: GroupSpec, storage: Storage) -> str:
    """Describe the part of a rollout's observations farthest outside its Box; "" if none is.

    Only steps with an agent count. Blocks on the device.

    Args:
        group: The group of the storage's rows.
    """
    farthest, message = 0.0, ""
    seen, obs = storage.masks[1:] != 0, {key: part[1:] for key, part in storage.obs.items()}
    if not bool(seen.any()):
        return ""
    for view in group_views(group):
        space = view.leaf.space
        if not isinstance(space, spaces.Box) or view.leaf.dtype == np.bool_:
            continue
        values = view(obs)[seen]
        least, most = (end.double().cpu().numpy() + 0.0 for end in (values.amin(0), values.amax(0)))
        low, high = (
            np.reshape(np.asarray(bound, np.float64), -1) for bound in (space.low, space.high)
        )
        with np.errstate(invalid="ignore"):  # inf - inf: such bounds allow every value.
            width = np.where(np.isfinite(high - low), high - low, 1.0)
            excess = np.nan_to_num(
                np.maximum(low - least, most - high) / np.maximum(width, 1e-12), neginf=0.0
            )
        worst = int(excess.argmax())
        if excess[worst] > max(SLACK, farthest):
            farthest = float(excess[worst])
            name = "".join(f" {key!r}" for key in view.leaf.path)
            message = (
                f"observations lie outside their Box:{name} element {worst} ranges from "
                f"{least[worst]:g} to {most[worst]:g}, its bounds are {low[worst]:g} and "
                f"{high[worst]:g}, by which it is scaled: correct the space, or train with "
                "--policy.normalize false"
            )
    return message
