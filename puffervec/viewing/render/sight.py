# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The observations of the first env's agents: the fields of their rows and the pictures among them.

Runs in the learner.
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
    """Return views of the observations of all rows by field, (rows, ...) each.

    If there are several groups, names are "group/field".
    """
    groups, parts = vec.spec.groups, dict[str, Any]()
    for group in groups:
        prefix = "" if len(groups) == 1 else f"{group.name}/"
        fields = fields_of(group, vec.halves[0].groups[group.name].observations)
        parts |= {prefix + name: part for name, part in fields.items()}
    return parts


def fields_of(group: GroupSpec, observations: Any) -> dict[str, Any]:
    """Return views of the fields of observation rows by name, (rows, *shape) each."""
    if isinstance(observations, Mapping):
        return dict(observations)
    if len(group.fields) == 1:
        return {group.fields[0].name: observations}
    flat, fields = observations.reshape(len(observations), -1), {}
    for part in group.fields:
        first = part.offset // part.dtype.itemsize
        fields[part.name] = flat[:, first : first + part.size].reshape(len(flat), *part.shape)
    return fields


def pictures_of(episode: Episode, vec: VectorEnv, state: State) -> dict[int, Picture]:
    """Return the picture that each agent observes, by row.

    It comes from the drawing's `pictures`, or else is the first field that is a picture.

    Raises:
        ConfigError: the drawing failed, or returned something that is not a picture.
    """
    make, names = episode.drawing.pictures, episode.drawing.agents
    if make is None:
        return _field_pictures(vec)
    by_name = episode.call_drawing(lambda: dict(make(rows_of(vec), state)))
    rows = {name: row for row, name in enumerate(names) if name}
    for name, picture in by_name.items():
        if name not in rows or not is_picture(picture):
            raise ConfigError(
                f"{vec.env.name}: its drawing returned {_describe(picture)} as the picture of "
                f"{name!r}: return, by names of agents, uint8 of (height, width) or "
                "(height, width, 3)"
            )
    return {rows[name]: picture for name, picture in by_name.items()}


def is_picture(value: Any) -> bool:
    """Return whether a value is an array that can be shown as a picture."""
    if not (isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.size):
        return False
    return value.ndim == 2 or (value.ndim == 3 and value.shape[2] == 3)


def _describe(value: Any) -> str:
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else repr(value)


def _field_pictures(vec: VectorEnv) -> dict[int, Picture]:
    """Return each live row's first field that is a picture, with its channels last."""
    pictures, first = dict[int, Picture](), 0
    for group in vec.spec.groups:
        view = vec.halves[0].groups[group.name]
        field = next((field for field in group.fields if _is_picture_field(field)), None)
        if field is not None:
            part = fields_of(group, view.observations)[field.name]
            for row in np.flatnonzero(view.masks).tolist():
                pictures[first + row] = _channels_last(part[row])
        first += group.agents
    return pictures


def _is_picture_field(field: Field) -> bool:
    if field.dtype != np.uint8 or not field.keeps_shape or len(field.shape) > 3:
        return False
    return len(field.shape) == 2 or bool({1, 3} & {field.shape[0], field.shape[2]})


def _channels_last(picture: NDArray[np.uint8]) -> Picture:
    """Return a picture as (height, width) or (height, width, 3)."""
    if picture.ndim == 2:
        return picture
    if picture.shape[2] not in (1, 3):
        picture = picture.transpose(1, 2, 0)
    return picture[:, :, 0] if picture.shape[2] == 1 else picture
