# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""XML in parts (drive_env/scenes/xml_parts.py), and hostile files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from drive_env.scenes import xml_parts
from drive_env.scenes.check import Checker
from drive_env.scenes.reader import parse_scene, read_scene
from drive_env.scenes.xml_parts import inflate, is_xml, number_of, whole_of
from puffervec.errors import SceneError

LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE commonRoad [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<commonRoad commonRoadVersion="2020a" timeStepSize="0.1"><x>&b;</x></commonRoad>
"""


def test_parts_come_one_by_one_with_their_lines() -> None:
    text = (
        "<?xml version='1.0'?>\n<root a='1'>\n  <one id='x'><in>text</in>\n</one>\n"
        "  <two/>\n</root>"
    )
    root, one, two = xml_parts.xml_parts(text.encode(), "here")
    assert (root.element.tag, root.element.attrib, root.line) == ("root", {"a": "1"}, 2)
    assert len(root.element) == 0
    assert (one.line, one.element.get("id"), one.element.findtext("in")) == (3, "x", "text")
    assert (two.line, two.element.tag) == (5, "two")


def test_a_long_file_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_parts, "CHUNK_BYTES", 64)
    text = "<root>" + "".join(f"<part><n>{n}</n></part>" for n in range(500)) + "</root>"
    parts = xml_parts.xml_parts(text.encode(), "here")
    next(parts)
    for number in range(500):
        assert next(parts).element.findtext("n") == str(number)
    with pytest.raises(StopIteration):
        next(parts)


@pytest.mark.parametrize(
    "text, message",
    [
        (LAUGHS, "line 2: a document type"),
        (
            "<commonRoad commonRoadVersion='2020a' timeStepSize='0.1'>\n<a>\n",
            "line 3, column 1: not XML, or cut off: no element found",
        ),
        ("<commonRoad>\n<a></b></commonRoad>", "line 2, column 6: not XML, or cut off: mismatched"),
        ("<commonRoad>&unknown;</commonRoad>", "line 1"),
        ("<other/>", "line 1: expected an element OpenDRIVE or commonRoad, got 'other'"),
        ("<commonRoad>" + "<a>" * 70, "line 1: elements are nested deeper than 64"),
        ("<?xml version='1.0' encoding='no-such'?><commonRoad/>", "line 1"),
    ],
)
def test_what_is_not_plain_xml_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(SceneError) as error:
        parse_scene(text.encode(), "here", "a.xml")
    assert str(error.value).startswith("here: ") and message in str(error.value)
    assert "\n" not in str(error.value)


def test_parts_and_texts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_parts, "MAX_ELEMENTS", 10)
    with pytest.raises(SceneError, match="line 1: expected at most 10 elements in 'a'"):
        list(xml_parts.xml_parts(b"<r><a>" + b"<b/>" * 11 + b"</a></r>", "here"))
    monkeypatch.setattr(xml_parts, "MAX_TEXT", 100)
    with pytest.raises(SceneError, match="line 1: expected at most 100 characters in 'a'"):
        list(xml_parts.xml_parts(b"<r><a>" + b"x" * 101 + b"</a></r>", "here"))


def test_files_of_gzip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(b"<other/>")
    assert inflate(packed, "here") == b"<other/>"
    for data in (packed[:-9], packed[:12] + b"\xff" + packed[13:]):
        path = tmp_path / "a.xodr.gz"
        path.write_bytes(data)
        with pytest.raises(SceneError, match=r"a.xodr.gz: a file of gzip that is damaged or cut"):
            read_scene(path)
    monkeypatch.setattr(xml_parts, "MAX_XML_BYTES", 1000)
    with pytest.raises(SceneError, match="expected at most 1000 bytes when decompressed"):
        inflate(gzip.compress(bytes(100_000)), "here")


def test_xml_is_told_from_other_formats() -> None:
    for data in (b"<a/>", b"\xef\xbb\xbf<?xml", b"\n <!-- -->"):
        assert is_xml(data)
    for data in (b'{"objects"', b"<\0\0\0\0\0\0\0", b"", b"< a"):
        assert not is_xml(data)


@pytest.mark.parametrize("text", [None, "", "one", "nan", "inf", "1e999"])
def test_numbers_are_finite(text: str | None) -> None:
    with pytest.raises(SceneError, match="^here: key: expected a"):
        number_of(Checker("here"), text, "key")


def test_whole_numbers_have_32_bits() -> None:
    check = Checker("here")
    assert whole_of(check, " -7 ", "key") == -7 and number_of(check, None, "key", 2.5) == 2.5
    for text in ("1.5", "4294967296", "1e300"):
        with pytest.raises(SceneError, match="^here: key: expected a whole number"):
            whole_of(check, text, "key")
