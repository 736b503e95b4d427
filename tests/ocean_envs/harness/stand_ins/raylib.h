// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// The names of raylib that the test envs use; they draw nothing.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define PI 3.14159265358979323846f

typedef struct {
    unsigned char r, g, b, a;
} Color;

typedef struct {
    float x, y;
} Vector2;

typedef struct {
    float x, y, width, height;
} Rectangle;

typedef struct {
    unsigned id;
    int width, height;
} Texture2D;

enum { KEY_ESCAPE = 256 };

#define RED ((Color){255, 0, 0, 255})
#define GREEN RED
#define BLUE RED
#define SKYBLUE RED
#define BLACK RED
#define DARKGRAY RED
#define GOLD RED
#define WHITE RED
#define RAYWHITE RED
#define YELLOW RED
#define LIME RED
#define PINK RED
#define ORANGE RED

#define InitWindow(width, height, title) ((void)(width), (void)(height), (void)(title))
#define CloseWindow() ((void)0)
#define SetTargetFPS(fps) ((void)(fps))
#define IsWindowReady() false
#define IsKeyDown(key) ((void)(key), false)
#define BeginDrawing() ((void)0)
#define EndDrawing() ((void)0)
#define ClearBackground(color) ((void)(color))
#define DrawCircle(...) ((void)0)
#define DrawCircleV(...) ((void)0)
#define DrawCircleLines(...) ((void)0)
#define DrawLineEx(from, to, width, color) ((void)(from), (void)(to))
#define DrawRectangle(...) ((void)0)
#define DrawRectangleRec(...) ((void)0)
#define DrawText(...) ((void)0)
#define LoadTexture(path) ((Texture2D){0})
#define UnloadTexture(texture) ((void)(texture))
