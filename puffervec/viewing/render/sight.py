# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What the agents of the first env are given: the fields of their rows, and the pictures among
them. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from puffervec.contract.drawing import State
from puffervec.core.spec import Field, GroupSpec
from puffervec.errors import ConfigError
from puffervec.viewing.render.episode import Episode

if TYPE_CHECKING:
    from puffervec.vec.vector_env import VectorEnv

Picture = NDArray[np.uint8]  # (height, width) or (height, width, 3)


def rows_of(vec: VectorEnv) -> dict[str, Any]:
    """Return what all rows observe by field, (rows, ...) each; by "group/field" where there are
    several groups. Views.
    """
    groups, found = vec.spec.groups, dict[str, Any]()
    for group in groups:
        prefix = "" if len(groups) == 1 else f"{group.name}/"
        fields = fields_of(group, vec.halves[0].groups[group.name].observations)
        found |= {prefix + name: part for name, part in fields.items()}
    return found


def fields_of(group: GroupSpec, observations: Any) -> dict[str, Any]:
    """Return the fields of observation rows by name, (rows, *shape) each: views."""
    if isinstance(observations, Mapping):
        return dict(observations)
    if len(group.fields) == 1:
        return {group.fields[0].name: observations}
    flat, found = observations.reshape(len(observations), -1), {}
    for part in group.fields:
        first = part.offset // part.dtype.itemsize
        found[part.name] = flat[:, first : first + part.size].reshape(len(flat), *part.shape)
    return found


def pictures_of(episode: Episode, vec: VectorEnv, state: State) -> dict[int, Picture]:
    """Return by row the picture that its agent is given: what the drawing says, else the first
        field that is one.

    Raises: ConfigError: the drawing failed, or gave something that is no picture.
    """
    make, names = episode.drawing.pictures, episode.drawing.agents
    if make is None:
        return _plain(vec)
    given = episode.guarded(lambda: dict(make(rows_of(vec), state)))
    rows = {name: row for row, name in enumerate(names) if name}
    for name, picture in given.items():
        if name not in rows or not is_picture(picture):
            raise ConfigError(
                f"{vec.env.name}: its drawing gave {_told(picture)} as the picture of {name!r}: "
                "give, by names of agents, uint8 of (height, width) or (height, width, 3)"
            )
    return {rows[name]: picture for name, picture in given.items()}


def is_picture(what: Any) -> bool:
    """Whether something is an array that can be shown."""
    if not (isinstance(what, np.ndarray) and what.dtype == np.uint8 and what.size):
        return False
    return what.ndim == 2 or (what.ndim == 3 and what.shape[2] == 3)


def _told(what: Any) -> str:
    return f"{what.dtype} {what.shape}" if isinstance(what, np.ndarray) else repr(what)


def _plain(vec: VectorEnv) -> dict[int, Picture]:
    """Fields that are pictures as they are: with one channel or three, which stand first or last."""
    found, first = dict[int, Picture](), 0
    for group in vec.spec.groups:
        view = vec.halves[0].groups[group.name]
        field = next((field for field in group.fields if _shown(field)), None)
        if field is not None:
            part = fields_of(group, view.observations)[field.name]
            for row in np.flatnonzero(view.masks).tolist():
                found[first + row] = _upright(part[row])
        first += group.agents
    return found


def _shown(field: Field) -> bool:
    if field.dtype != np.uint8 or not field.keeps_shape or len(field.shape) > 3:
        return False
    return len(field.shape) == 2 or bool({1, 3} & {field.shape[0], field.shape[2]})


def _upright(picture: NDArray[np.uint8]) -> Picture:
    if picture.ndim == 2:
        return picture
    if picture.shape[2] not in (1, 3):
        picture = picture.transpose(1, 2, 0)
    return picture[:, :, 0] if picture.shape[2] == 1 else picture
