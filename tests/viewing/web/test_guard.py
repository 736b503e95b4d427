# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from puffervec.errors import ConfigError
from puffervec.viewing.web.guard import check_host, leads_out, new_token, refusal

OURS = {"Host": "127.0.0.1:8000"}


def test_tokens_are_long_and_differ() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100 and {len(token) for token in tokens} == {43}  # 256 bits


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "localhost", "example.org", ""])
def test_other_addresses_are_refused(host: str) -> None:
    assert check_host("127.0.0.1") == "127.0.0.1" and check_host("::1") == "::1"
    with pytest.raises(ConfigError, match="only to this machine: use 127.0.0.1 or ::1") as error:
        check_host(host)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/other/state",
        "/tok",
        "/token2/",
        "//token/",
        "/%74oken/",
        "http://127.0.0.1:8000/token/",
    ],
)
def test_a_missing_or_wrong_token(path: str) -> None:
    assert "token" in str(refusal("token", path, OURS))


def test_what_is_ours_is_allowed() -> None:
    for name in ("127.0.0.1:8000", "localhost:1", "[::1]:65535", "LOCALHOST:8000", "127.0.0.1"):
        assert refusal("token", "/token/a/b.c?run=1&key=%2e%2e", {"Host": name}) is None
        assert (
            refusal("token", "/token/", {"Host": name, "Origin": f"http://{name}"}, socket=True)
            is None
        )


@pytest.mark.parametrize(
    "name",
    [
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "127.0.0.2:8000",
        "",
        "localhost:80:80",
        "a@localhost",
    ],
)
def test_other_hosts(name: str) -> None:
    assert refusal("token", "/token/", {"Host": name}) == "the host is another machine's name"
    assert refusal("token", "/token/", {}) == "the host is another machine's name"


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://127.0.0.1:8000",
        "http://127.0.0.1:8001",
        "",
        "http://localhost:8000",
    ],
)
def test_other_origins(origin: str) -> None:
    assert (
        refusal("token", "/token/", {**OURS, "Origin": origin})
        == "the request is from a page of another origin"
    )


def test_a_websocket_must_say_where_it_comes_from() -> None:
    assert refusal("token", "/token/socket", OURS) is None
    assert (
        refusal("token", "/token/socket", OURS, socket=True)
        == "the request is from a page of another origin"
    )


@pytest.mark.parametrize(
    "path",
    ["/..", "/a/../b", "/%2e%2e/b", "/a/.%2E/b", "/a%2f..%2fb", "/%252e%252e/b", "/a/./b",
     "/a\\..\\b", "/a%5c..", "/a%00b", "/%" + "25" * 9 + "2e",
     "/%25252541"],
)  # fmt: skip
def test_paths_that_lead_out(path: str) -> None:
    assert leads_out(path)
    assert refusal("token", "/token" + path, OURS) == "the path leads out of the folder"


@pytest.mark.parametrize("path", ["/", "/a..b/c", "/...", "/a/b.c", "/%41%20b", "/%252541"])
def test_paths_that_do_not(path: str) -> None:
    assert not leads_out(path)
