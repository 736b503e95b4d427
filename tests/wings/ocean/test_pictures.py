# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean/pictures.py: an env that is compiled with the user's raylib draws itself.

The raylib of these tests has no window: its pixels show what was drawn last.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import puffervec
from puffervec.errors import CallOrderError, ClosedError, ConfigError
from puffervec.gym import NativeEnvView
from tests.wings.ocean import dice

HEADER = """
#pragma once
#include <stdbool.h>
typedef struct Color { unsigned char r, g, b, a; } Color;
typedef struct Image { void* data; int width, height, mipmaps, format; } Image;
typedef struct Model { int meshCount; } Model;
#define RED (Color){255, 0, 0, 255}
enum { KEY_A = 65, FLAG_WINDOW_HIDDEN = 0x80, PIXELFORMAT_UNCOMPRESSED_R8G8B8 = 4 };
void SetConfigFlags(unsigned int flags);
bool IsWindowReady(void);
void InitWindow(int width, int height, const char* title);
bool IsKeyDown(int key);
void BeginDrawing(void);
void EndDrawing(void);
void DrawText(const char* text, int x, int y, int size, Color color);
const char* TextFormat(const char* format, ...);
Image LoadImageFromScreen(void);
void ImageFormat(Image* image, int format);
void UnloadImage(Image image);
"""
SOURCE = """
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "raylib.h"
static int flags, width, height, drawn;
void SetConfigFlags(unsigned int more) { flags |= (int)more; }
bool IsWindowReady(void) { return width > 0; }
void InitWindow(int w, int h, const char* title) {
    if (strcmp(getenv("DISPLAY"), ":0") != 0) return;
    width = w;
    height = h;
}
bool IsKeyDown(int key) { return false; }
void BeginDrawing(void) {}
void EndDrawing(void) {}
void DrawText(const char* text, int x, int y, int size, Color color) { drawn = atoi(text); }
const char* TextFormat(const char* format, ...) {
    static char text[100];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}
Image LoadImageFromScreen(void) {
    unsigned char* pixels = malloc(4 * width * height);
    for (int i = 0; i < width * height; i++) {
        pixels[4 * i] = drawn;
        pixels[4 * i + 1] = flags;
        pixels[4 * i + 2] = 7;
        pixels[4 * i + 3] = 255;
    }
    return (Image){pixels, width, height, 1, 7};
}
void ImageFormat(Image* image, int format) {
    unsigned char* pixels = image->data;
    for (int i = 0; i < image->width * image->height; i++)
        for (int c = 0; c < 3; c++)
            pixels[3 * i + c] = pixels[4 * i + c];
    image->format = format;
}
void UnloadImage(Image image) { free(image.data); }
"""


@pytest.fixture(autouse=True)
def raylib(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder of a raylib."""
    folder = tmp_path / "raylib"
    for name in ("include", "lib"):
        (folder / name).mkdir(parents=True)
    (folder / "include" / "raylib.h").write_text(HEADER)
    (folder / "raylib.c").write_text(SOURCE)
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", f"-I{folder}/include"]
    library = folder / "lib" / "libraylib.so"
    # By this name each test loads its own.
    files = [str(folder / "raylib.c"), "-o", str(library), f"-Wl,-soname,{library}"]
    subprocess.run([*command, *files], check=True, timeout=120)
    monkeypatch.setenv("PUFFERVEC_OCEAN_RAYLIB", str(folder))
    monkeypatch.setenv("PUFFERVEC_OCEAN_FLAGS", "-O1")
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path_factory.getbasetemp() / "ocean_cache"))
    monkeypatch.setenv("DISPLAY", ":0")
    return folder


def view(folder: Path, *changes: tuple[str, str]) -> NativeEnvView:
    """Return the game in `folder` with changes to its header, as one env."""
    header = folder / "dice.h"
    code = header.read_text()
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    header.write_text(code)
    return NativeEnvView(f"ocean:{folder}", render_mode="rgb_array")


@pytest.mark.slow
@pytest.mark.parametrize("generation", [4, 5])
def test_pictures_are_the_pixels_of_a_hidden_window(tmp_path: Path, generation: int) -> None:
    env = view(dice.write(tmp_path, generation), ("InitWindow(100, 100", "InitWindow(60, 40"))
    with pytest.raises(CallOrderError):
        env.render()
    env.reset(seed=0)
    for tick in range(3):
        picture = env.render()
        assert picture is not None and picture.dtype == np.uint8
        assert picture.shape == (40, 60, 3)
        assert (picture == [tick, 0x80, 7]).all()
        env.step([1, 1])
    env.close()
    with pytest.raises(ClosedError):
        env.render()


@pytest.mark.slow
def test_drawing_changes_no_episode(tmp_path: Path) -> None:
    """Though it calls rand(), which the env plays with."""
    env = view(dice.write(tmp_path, 4), ("BeginDrawing();", "BeginDrawing(); rand();"))
    shown = []
    for draws in (False, True):
        rows = [env.reset(seed=3)[0]]
        for _ in range(3):
            if draws:
                env.render()
            rows.append(env.step([1, 1])[0])
        shown.append(np.stack(rows))
    env.close()
    np.testing.assert_array_equal(shown[0], shown[1])


@pytest.mark.slow  # Three compilations.
def test_a_raylib_that_comes_goes_and_changes_is_noticed(
    tmp_path: Path, raylib: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a process, where the files of the env stay as they are."""
    folder = dice.write(tmp_path, 4)
    monkeypatch.delenv("PUFFERVEC_OCEAN_RAYLIB")
    plain = puffervec.ocean(folder)
    monkeypatch.setenv("PUFFERVEC_OCEAN_RAYLIB", str(raylib))
    drawn = puffervec.ocean(folder)
    assert plain.recorder is None and drawn.recorder is not None
    assert puffervec.ocean(folder) is drawn
    (raylib / "include" / "raylib.h").write_text(HEADER + "#define MORE")
    assert puffervec.ocean(folder).shared_library != drawn.shared_library
    monkeypatch.delenv("PUFFERVEC_OCEAN_RAYLIB")
    assert puffervec.ocean(folder) is plain


@pytest.mark.slow
def test_what_goes_wrong_is_one_error(
    tmp_path: Path, raylib: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = view(dice.write(tmp_path, 5), ("EndDrawing();", "exit(0);"))
    env.reset(seed=0)
    monkeypatch.setenv("DISPLAY", ":7")
    with pytest.raises(ConfigError, match="opens no window"):
        env.render()
    monkeypatch.setenv("DISPLAY", ":0")
    with pytest.raises(ConfigError, match=r"dice\.h:\d+: exit\(0\)"):
        env.render()
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(ConfigError, match="there is no display"):
        env.render()
    env.close()
    monkeypatch.setenv("PUFFERVEC_OCEAN_RAYLIB", str(raylib / "lib"))
    with pytest.raises(ConfigError, match=r"lib: it must be a folder with include/raylib\.h"):
        view(dice.write(tmp_path / "other", 5))
    monkeypatch.delenv("PUFFERVEC_OCEAN_RAYLIB")
    with pytest.raises(ConfigError, match="render_mode"):
        view(dice.write(tmp_path / "without", 5))
