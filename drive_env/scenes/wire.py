# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Creates protobuf classes from a table of messages, without a compiler for .proto files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Numbers of FieldDescriptorProto.Type and Label.
_SCALARS = {"double": 1, "float": 2, "int64": 3, "int32": 5, "bool": 8, "string": 9, "bytes": 12}
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3


def message_class(schema: Mapping[str, str], package: str, name: str) -> Any:
    """Return protobuf's class for a message.

    Args:
        schema: for each message, its fields as "NUMBER TYPE NAME", separated by commas. TYPE is a
            scalar type of proto2 or the name of a message; [] after it marks a repeated field, and
            [packed] one that is written packed. Enumerations are declared as integers.
        package: a unique name for this schema.
        name: name of the message.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package)
    for message_name, fields in schema.items():
        message = file.message_type.add(name=message_name)
        for text in fields.split(", "):
            number, kind, field = text.split()
            kind, bracket, options = kind.partition("[")
            label = _REPEATED if bracket else _OPTIONAL
            added = message.field.add(name=field, number=int(number), label=label)
            if options == "packed]":
                added.options.packed = True
            added.type = _SCALARS.get(kind, _MESSAGE)
            if added.type == _MESSAGE:
                added.type_name = f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
