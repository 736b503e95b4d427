# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/system/arguments.py: what the parser of both commands adds to argparse."""

from __future__ import annotations

import pytest

from puffervec.errors import ConfigError
from puffervec.system.arguments import Parser


@pytest.fixture
def parser() -> Parser:
    parser = Parser(prog="tool")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--rate", type=float)
    return parser


def test_negative_numbers_are_values(parser: Parser) -> None:
    for text in ("-1", "-1e-3", "-.5", "-inf"):
        assert parser.parse_args(["--rate", text]).rate == float(text)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--seed x", "--seed: invalid int value: 'x' (see tool --help)"),
        ("--seed", "--seed: expected one argument (see tool --help)"),
        ("--see 3", "unrecognized arguments: --see 3 (see tool --help)"),
    ],
)
def test_errors_are_exceptions_that_name_the_flag(line: str, said: str, parser: Parser) -> None:
    with pytest.raises(ConfigError) as caught:
        parser.parse_args(line.split())
    assert str(caught.value) == said
