// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for raylib.h: its types and constants, and functions that draw nothing, so that an env
// whose header can draw compiles without raylib. Files, texts and collisions are real, since envs
// play with them; a window is always about to close, nothing is pressed, and time stands still.
//
// With OCEAN_RAYLIB, the quoted path of the user's raylib.h, the env gets that one instead;
// OCEAN_RAYMATH and OCEAN_RLGL do the same for raymath.h and rlgl.h
// (puffervec/wings/ocean/compiling.py).
#pragma once

#include "host.h"

#ifdef OCEAN_RAYLIB
#include OCEAN_RAYLIB
#else

#ifndef PI
#define PI 3.14159265358979323846f
#endif
#define DEG2RAD (PI / 180.0f)
#define RAD2DEG (180.0f / PI)
#define RL_MALLOC(bytes) malloc(bytes)
#define RL_CALLOC(count, bytes) calloc(count, bytes)
#define RL_REALLOC(pointer, bytes) realloc(pointer, bytes)
#define RL_FREE(pointer) free(pointer)
#define CLITERAL(type) (type)
#define RAYLIB_VERSION "5.5"

// ---- types ----

typedef struct Vector2 {
    float x, y;
} Vector2;

typedef struct Vector3 {
    float x, y, z;
} Vector3;

typedef struct Vector4 {
    float x, y, z, w;
} Vector4;

typedef Vector4 Quaternion;

typedef struct Matrix {
    float m0, m4, m8, m12, m1, m5, m9, m13, m2, m6, m10, m14, m3, m7, m11, m15;
} Matrix;

typedef struct Color {
    unsigned char r, g, b, a;
} Color;

typedef struct Rectangle {
    float x, y, width, height;
} Rectangle;

typedef struct Image {
    void* data;
    int width, height, mipmaps, format;
} Image;

typedef struct Texture {
    unsigned int id;
    int width, height, mipmaps, format;
} Texture, Texture2D, TextureCubemap;

typedef struct RenderTexture {
    unsigned int id;
    Texture texture, depth;
} RenderTexture, RenderTexture2D;

typedef struct NPatchInfo {
    Rectangle source;
    int left, top, right, bottom, layout;
} NPatchInfo;

typedef struct GlyphInfo {
    int value, offsetX, offsetY, advanceX;
    Image image;
} GlyphInfo;

typedef struct Font {
    int baseSize, glyphCount, glyphPadding;
    Texture2D texture;
    Rectangle* recs;
    GlyphInfo* glyphs;
} Font;

typedef struct Camera3D {
    Vector3 position, target, up;
    float fovy;
    int projection;
} Camera3D, Camera;

typedef struct Camera2D {
    Vector2 offset, target;
    float rotation, zoom;
} Camera2D;

typedef struct Mesh {
    int vertexCount, triangleCount;
    float *vertices, *texcoords, *texcoords2, *normals, *tangents;
    unsigned char* colors;
    unsigned short* indices;
    float *animVertices, *animNormals;
    unsigned char* boneIds;
    float* boneWeights;
    Matrix* boneMatrices;
    int boneCount;
    unsigned int vaoId;
    unsigned int* vboId;
} Mesh;

typedef struct Shader {
    unsigned int id;
    int* locs;
} Shader;

typedef struct MaterialMap {
    Texture2D texture;
    Color color;
    float value;
} MaterialMap;

typedef struct Material {
    Shader shader;
    MaterialMap* maps;
    float params[4];
} Material;

typedef struct Transform {
    Vector3 translation;
    Quaternion rotation;
    Vector3 scale;
} Transform;

typedef struct BoneInfo {
    char name[32];
    int parent;
} BoneInfo;

typedef struct Model {
    Matrix transform;
    int meshCount, materialCount;
    Mesh* meshes;
    Material* materials;
    int* meshMaterial;
    int boneCount;
    BoneInfo* bones;
    Transform* bindPose;
} Model;

typedef struct ModelAnimation {
    int boneCount, frameCount;
    BoneInfo* bones;
    Transform** framePoses;
    char name[32];
} ModelAnimation;

typedef struct Ray {
    Vector3 position, direction;
} Ray;

typedef struct RayCollision {
    bool hit;
    float distance;
    Vector3 point, normal;
} RayCollision;

typedef struct BoundingBox {
    Vector3 min, max;
} BoundingBox;

typedef struct Wave {
    unsigned int frameCount, sampleRate, sampleSize, channels;
    void* data;
} Wave;

typedef struct AudioStream {
    void *buffer, *processor;
    unsigned int sampleRate, sampleSize, channels;
} AudioStream;

typedef struct Sound {
    AudioStream stream;
    unsigned int frameCount;
} Sound;

typedef struct Music {
    AudioStream stream;
    unsigned int frameCount;
    bool looping;
    int ctxType;
    void* ctxData;
} Music;

typedef struct FilePathList {
    unsigned int capacity, count;
    char** paths;
} FilePathList;

typedef void (*TraceLogCallback)(int level, const char* text, va_list arguments);

// ---- constants ----

#define LIGHTGRAY CLITERAL(Color){200, 200, 200, 255}
#define GRAY CLITERAL(Color){130, 130, 130, 255}
#define DARKGRAY CLITERAL(Color){80, 80, 80, 255}
#define YELLOW CLITERAL(Color){253, 249, 0, 255}
#define GOLD CLITERAL(Color){255, 203, 0, 255}
#define ORANGE CLITERAL(Color){255, 161, 0, 255}
#define PINK CLITERAL(Color){255, 109, 194, 255}
#define RED CLITERAL(Color){230, 41, 55, 255}
#define MAROON CLITERAL(Color){190, 33, 55, 255}
#define GREEN CLITERAL(Color){0, 228, 48, 255}
#define LIME CLITERAL(Color){0, 158, 47, 255}
#define DARKGREEN CLITERAL(Color){0, 117, 44, 255}
#define SKYBLUE CLITERAL(Color){102, 191, 255, 255}
#define BLUE CLITERAL(Color){0, 121, 241, 255}
#define DARKBLUE CLITERAL(Color){0, 82, 172, 255}
#define PURPLE CLITERAL(Color){200, 122, 255, 255}
#define VIOLET CLITERAL(Color){135, 60, 190, 255}
#define DARKPURPLE CLITERAL(Color){112, 31, 126, 255}
#define BEIGE CLITERAL(Color){211, 176, 131, 255}
#define BROWN CLITERAL(Color){127, 106, 79, 255}
#define DARKBROWN CLITERAL(Color){76, 63, 47, 255}
#define WHITE CLITERAL(Color){255, 255, 255, 255}
#define BLACK CLITERAL(Color){0, 0, 0, 255}
#define BLANK CLITERAL(Color){0, 0, 0, 0}
#define MAGENTA CLITERAL(Color){255, 0, 255, 255}
#define RAYWHITE CLITERAL(Color){245, 245, 245, 255}

// clang-format off
typedef enum {
    FLAG_VSYNC_HINT = 0x40, FLAG_FULLSCREEN_MODE = 0x2, FLAG_WINDOW_RESIZABLE = 0x4,
    FLAG_WINDOW_UNDECORATED = 0x8, FLAG_WINDOW_HIDDEN = 0x80, FLAG_WINDOW_MINIMIZED = 0x200,
    FLAG_WINDOW_MAXIMIZED = 0x400, FLAG_WINDOW_UNFOCUSED = 0x800, FLAG_WINDOW_TOPMOST = 0x1000,
    FLAG_WINDOW_ALWAYS_RUN = 0x100, FLAG_WINDOW_TRANSPARENT = 0x10, FLAG_WINDOW_HIGHDPI = 0x2000,
    FLAG_WINDOW_MOUSE_PASSTHROUGH = 0x4000, FLAG_BORDERLESS_WINDOWED_MODE = 0x8000,
    FLAG_MSAA_4X_HINT = 0x20, FLAG_INTERLACED_HINT = 0x10000
} ConfigFlags;
typedef enum {
    LOG_ALL, LOG_TRACE, LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR, LOG_FATAL, LOG_NONE
} TraceLogLevel;
typedef enum {
    KEY_NULL = 0, KEY_APOSTROPHE = 39, KEY_COMMA = 44, KEY_MINUS = 45, KEY_PERIOD = 46,
    KEY_SLASH = 47, KEY_ZERO = 48, KEY_ONE, KEY_TWO, KEY_THREE, KEY_FOUR, KEY_FIVE, KEY_SIX,
    KEY_SEVEN, KEY_EIGHT, KEY_NINE, KEY_SEMICOLON = 59, KEY_EQUAL = 61,
    KEY_A = 65, KEY_B, KEY_C, KEY_D, KEY_E, KEY_F, KEY_G, KEY_H, KEY_I, KEY_J, KEY_K, KEY_L, KEY_M,
    KEY_N, KEY_O, KEY_P, KEY_Q, KEY_R, KEY_S, KEY_T, KEY_U, KEY_V, KEY_W, KEY_X, KEY_Y, KEY_Z,
    KEY_LEFT_BRACKET = 91, KEY_BACKSLASH = 92, KEY_RIGHT_BRACKET = 93, KEY_GRAVE = 96,
    KEY_SPACE = 32, KEY_ESCAPE = 256, KEY_ENTER, KEY_TAB, KEY_BACKSPACE, KEY_INSERT, KEY_DELETE,
    KEY_RIGHT, KEY_LEFT, KEY_DOWN, KEY_UP, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME, KEY_END,
    KEY_CAPS_LOCK = 280, KEY_SCROLL_LOCK, KEY_NUM_LOCK, KEY_PRINT_SCREEN, KEY_PAUSE,
    KEY_F1 = 290, KEY_F2, KEY_F3, KEY_F4, KEY_F5, KEY_F6, KEY_F7, KEY_F8, KEY_F9, KEY_F10, KEY_F11,
    KEY_F12, KEY_LEFT_SHIFT = 340, KEY_LEFT_CONTROL, KEY_LEFT_ALT, KEY_LEFT_SUPER, KEY_RIGHT_SHIFT,
    KEY_RIGHT_CONTROL, KEY_RIGHT_ALT, KEY_RIGHT_SUPER, KEY_KB_MENU,
    KEY_KP_0 = 320, KEY_KP_1, KEY_KP_2, KEY_KP_3, KEY_KP_4, KEY_KP_5, KEY_KP_6, KEY_KP_7, KEY_KP_8,
    KEY_KP_9, KEY_KP_DECIMAL, KEY_KP_DIVIDE, KEY_KP_MULTIPLY, KEY_KP_SUBTRACT, KEY_KP_ADD,
    KEY_KP_ENTER, KEY_KP_EQUAL, KEY_BACK = 4, KEY_MENU = 5, KEY_VOLUME_UP = 24, KEY_VOLUME_DOWN
} KeyboardKey;
typedef enum {
    MOUSE_BUTTON_LEFT, MOUSE_BUTTON_RIGHT, MOUSE_BUTTON_MIDDLE, MOUSE_BUTTON_SIDE,
    MOUSE_BUTTON_EXTRA, MOUSE_BUTTON_FORWARD, MOUSE_BUTTON_BACK
} MouseButton;
#define MOUSE_LEFT_BUTTON MOUSE_BUTTON_LEFT
#define MOUSE_RIGHT_BUTTON MOUSE_BUTTON_RIGHT
#define MOUSE_MIDDLE_BUTTON MOUSE_BUTTON_MIDDLE
typedef enum {
    MOUSE_CURSOR_DEFAULT, MOUSE_CURSOR_ARROW, MOUSE_CURSOR_IBEAM, MOUSE_CURSOR_CROSSHAIR,
    MOUSE_CURSOR_POINTING_HAND, MOUSE_CURSOR_RESIZE_EW, MOUSE_CURSOR_RESIZE_NS,
    MOUSE_CURSOR_RESIZE_NWSE, MOUSE_CURSOR_RESIZE_NESW, MOUSE_CURSOR_RESIZE_ALL,
    MOUSE_CURSOR_NOT_ALLOWED
} MouseCursor;
typedef enum {
    GAMEPAD_BUTTON_UNKNOWN, GAMEPAD_BUTTON_LEFT_FACE_UP, GAMEPAD_BUTTON_LEFT_FACE_RIGHT,
    GAMEPAD_BUTTON_LEFT_FACE_DOWN, GAMEPAD_BUTTON_LEFT_FACE_LEFT, GAMEPAD_BUTTON_RIGHT_FACE_UP,
    GAMEPAD_BUTTON_RIGHT_FACE_RIGHT, GAMEPAD_BUTTON_RIGHT_FACE_DOWN, GAMEPAD_BUTTON_RIGHT_FACE_LEFT,
    GAMEPAD_BUTTON_LEFT_TRIGGER_1, GAMEPAD_BUTTON_LEFT_TRIGGER_2, GAMEPAD_BUTTON_RIGHT_TRIGGER_1,
    GAMEPAD_BUTTON_RIGHT_TRIGGER_2, GAMEPAD_BUTTON_MIDDLE_LEFT, GAMEPAD_BUTTON_MIDDLE,
    GAMEPAD_BUTTON_MIDDLE_RIGHT, GAMEPAD_BUTTON_LEFT_THUMB, GAMEPAD_BUTTON_RIGHT_THUMB
} GamepadButton;
typedef enum {
    GAMEPAD_AXIS_LEFT_X, GAMEPAD_AXIS_LEFT_Y, GAMEPAD_AXIS_RIGHT_X, GAMEPAD_AXIS_RIGHT_Y,
    GAMEPAD_AXIS_LEFT_TRIGGER, GAMEPAD_AXIS_RIGHT_TRIGGER
} GamepadAxis;
typedef enum {
    MATERIAL_MAP_ALBEDO, MATERIAL_MAP_METALNESS, MATERIAL_MAP_NORMAL, MATERIAL_MAP_ROUGHNESS,
    MATERIAL_MAP_OCCLUSION, MATERIAL_MAP_EMISSION, MATERIAL_MAP_HEIGHT, MATERIAL_MAP_CUBEMAP,
    MATERIAL_MAP_IRRADIANCE, MATERIAL_MAP_PREFILTER, MATERIAL_MAP_BRDF
} MaterialMapIndex;
#define MATERIAL_MAP_DIFFUSE MATERIAL_MAP_ALBEDO
#define MATERIAL_MAP_SPECULAR MATERIAL_MAP_METALNESS
typedef enum {
    SHADER_LOC_VERTEX_POSITION, SHADER_LOC_VERTEX_TEXCOORD01, SHADER_LOC_VERTEX_TEXCOORD02,
    SHADER_LOC_VERTEX_NORMAL, SHADER_LOC_VERTEX_TANGENT, SHADER_LOC_VERTEX_COLOR,
    SHADER_LOC_MATRIX_MVP, SHADER_LOC_MATRIX_VIEW, SHADER_LOC_MATRIX_PROJECTION,
    SHADER_LOC_MATRIX_MODEL, SHADER_LOC_MATRIX_NORMAL, SHADER_LOC_VECTOR_VIEW,
    SHADER_LOC_COLOR_DIFFUSE, SHADER_LOC_COLOR_SPECULAR, SHADER_LOC_COLOR_AMBIENT,
    SHADER_LOC_MAP_ALBEDO, SHADER_LOC_MAP_METALNESS, SHADER_LOC_MAP_NORMAL,
    SHADER_LOC_MAP_ROUGHNESS, SHADER_LOC_MAP_OCCLUSION, SHADER_LOC_MAP_EMISSION,
    SHADER_LOC_MAP_HEIGHT, SHADER_LOC_MAP_CUBEMAP, SHADER_LOC_MAP_IRRADIANCE,
    SHADER_LOC_MAP_PREFILTER, SHADER_LOC_MAP_BRDF, SHADER_LOC_VERTEX_BONEIDS,
    SHADER_LOC_VERTEX_BONEWEIGHTS, SHADER_LOC_BONE_MATRICES
} ShaderLocationIndex;
#define SHADER_LOC_MAP_DIFFUSE SHADER_LOC_MAP_ALBEDO
#define SHADER_LOC_MAP_SPECULAR SHADER_LOC_MAP_METALNESS
typedef enum {
    SHADER_UNIFORM_FLOAT, SHADER_UNIFORM_VEC2, SHADER_UNIFORM_VEC3, SHADER_UNIFORM_VEC4,
    SHADER_UNIFORM_INT, SHADER_UNIFORM_IVEC2, SHADER_UNIFORM_IVEC3, SHADER_UNIFORM_IVEC4,
    SHADER_UNIFORM_SAMPLER2D
} ShaderUniformDataType;
typedef enum {
    PIXELFORMAT_UNCOMPRESSED_GRAYSCALE = 1, PIXELFORMAT_UNCOMPRESSED_GRAY_ALPHA,
    PIXELFORMAT_UNCOMPRESSED_R5G6B5, PIXELFORMAT_UNCOMPRESSED_R8G8B8,
    PIXELFORMAT_UNCOMPRESSED_R5G5B5A1, PIXELFORMAT_UNCOMPRESSED_R4G4B4A4,
    PIXELFORMAT_UNCOMPRESSED_R8G8B8A8, PIXELFORMAT_UNCOMPRESSED_R32
} PixelFormat;
typedef enum {
    TEXTURE_FILTER_POINT, TEXTURE_FILTER_BILINEAR, TEXTURE_FILTER_TRILINEAR,
    TEXTURE_FILTER_ANISOTROPIC_4X, TEXTURE_FILTER_ANISOTROPIC_8X, TEXTURE_FILTER_ANISOTROPIC_16X
} TextureFilter;
typedef enum {
    TEXTURE_WRAP_REPEAT, TEXTURE_WRAP_CLAMP, TEXTURE_WRAP_MIRROR_REPEAT, TEXTURE_WRAP_MIRROR_CLAMP
} TextureWrap;
typedef enum {
    BLEND_ALPHA, BLEND_ADDITIVE, BLEND_MULTIPLIED, BLEND_ADD_COLORS, BLEND_SUBTRACT_COLORS,
    BLEND_ALPHA_PREMULTIPLY, BLEND_CUSTOM, BLEND_CUSTOM_SEPARATE
} BlendMode;
typedef enum { FONT_DEFAULT, FONT_BITMAP, FONT_SDF } FontType;
typedef enum {
    CAMERA_CUSTOM, CAMERA_FREE, CAMERA_ORBITAL, CAMERA_FIRST_PERSON, CAMERA_THIRD_PERSON
} CameraMode;
typedef enum { CAMERA_PERSPECTIVE, CAMERA_ORTHOGRAPHIC } CameraProjection;
typedef enum {
    NPATCH_NINE_PATCH, NPATCH_THREE_PATCH_VERTICAL, NPATCH_THREE_PATCH_HORIZONTAL
} NPatchLayout;

// ---- functions that draw nothing ----

// A definition with () takes any arguments. PV_RAY_ZERO returns zeros of its type.
#define PV_RAY_NOTHING(name) static inline void name() {}
#define PV_RAY_ZERO(type, name) static inline type name() { return (type){0}; }
#define PV_RAY_8(make, a, b, c, d, e, f, g, h) \
    make(a) make(b) make(c) make(d) make(e) make(f) make(g) make(h)
#define PV_RAY_NOTHINGS(a, b, c, d, e, f, g, h) PV_RAY_8(PV_RAY_NOTHING, a, b, c, d, e, f, g, h)

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
PV_RAY_NOTHINGS(
    InitWindow, CloseWindow, SetWindowState, ClearWindowState, ToggleFullscreen,
    ToggleBorderlessWindowed, MaximizeWindow, MinimizeWindow)
PV_RAY_NOTHINGS(
    RestoreWindow, SetWindowIcon, SetWindowTitle, SetWindowPosition, SetWindowMonitor,
    SetWindowMinSize, SetWindowMaxSize, SetWindowSize)
PV_RAY_NOTHINGS(
    SetWindowOpacity, SetWindowFocused, SetClipboardText, EnableEventWaiting, DisableEventWaiting,
    ShowCursor, HideCursor, EnableCursor)
PV_RAY_NOTHINGS(
    DisableCursor, ClearBackground, BeginDrawing, EndDrawing, BeginMode2D, EndMode2D, BeginMode3D,
    EndMode3D)
PV_RAY_NOTHINGS(
    BeginTextureMode, EndTextureMode, BeginShaderMode, EndShaderMode, BeginBlendMode, EndBlendMode,
    BeginScissorMode, EndScissorMode)
PV_RAY_NOTHINGS(
    SetShaderValue, SetShaderValueV, SetShaderValueMatrix, SetShaderValueTexture, UnloadShader,
    SetTargetFPS, SwapScreenBuffer, PollInputEvents)
PV_RAY_NOTHINGS(
    WaitTime, SetRandomSeed, TakeScreenshot, SetConfigFlags, OpenURL, TraceLog, SetTraceLogLevel,
    SetTraceLogCallback)
PV_RAY_NOTHINGS(
    SetExitKey, SetMousePosition, SetMouseOffset, SetMouseScale, SetMouseCursor, SetGesturesEnabled,
    UpdateCamera, UpdateCameraPro)
PV_RAY_NOTHINGS(
    SetShapesTexture, DrawPixel, DrawPixelV, DrawLine, DrawLineV, DrawLineEx, DrawLineStrip,
    DrawLineBezier)
PV_RAY_NOTHINGS(
    DrawCircle, DrawCircleSector, DrawCircleSectorLines, DrawCircleGradient, DrawCircleV,
    DrawCircleLines, DrawCircleLinesV, DrawEllipse)
PV_RAY_NOTHINGS(
    DrawEllipseLines, DrawRing, DrawRingLines, DrawRectangle, DrawRectangleV, DrawRectangleRec,
    DrawRectanglePro, DrawRectangleGradientV)
PV_RAY_NOTHINGS(
    DrawRectangleGradientH, DrawRectangleGradientEx, DrawRectangleLines, DrawRectangleLinesEx,
    DrawRectangleRounded, DrawRectangleRoundedLines, DrawRectangleRoundedLinesEx, DrawTriangle)
PV_RAY_NOTHINGS(
    DrawTriangleLines, DrawTriangleFan, DrawTriangleStrip, DrawPoly, DrawPolyLines, DrawPolyLinesEx,
    DrawSplineLinear, DrawSplineBasis)
PV_RAY_NOTHINGS(
    DrawSplineCatmullRom, DrawSplineBezierQuadratic, DrawSplineBezierCubic, DrawSplineSegmentLinear,
    DrawSplineSegmentBezierQuadratic, DrawSplineSegmentBezierCubic, UnloadImage, UnloadImageColors)
PV_RAY_NOTHINGS(
    ImageFormat, ImageCrop, ImageResize, ImageResizeNN, ImageFlipVertical, ImageFlipHorizontal,
    ImageRotate, ImageRotateCW)
PV_RAY_NOTHINGS(
    ImageRotateCCW, ImageColorTint, ImageColorInvert, ImageColorGrayscale, ImageColorReplace,
    ImageAlphaMask, ImageAlphaClear, ImageAlphaCrop)
PV_RAY_NOTHINGS(
    ImageAlphaPremultiply, ImageMipmaps, ImageDither, ImageClearBackground, ImageDrawPixel,
    ImageDrawLine, ImageDrawCircle, ImageDrawRectangle)
PV_RAY_NOTHINGS(
    ImageDrawRectangleRec, ImageDraw, ImageDrawText, ImageDrawTextEx, UnloadTexture,
    UnloadRenderTexture, UpdateTexture, UpdateTextureRec)
PV_RAY_NOTHINGS(
    GenTextureMipmaps, SetTextureFilter, SetTextureWrap, DrawTexture, DrawTextureV, DrawTextureEx,
    DrawTextureRec, DrawTexturePro)
PV_RAY_NOTHINGS(
    DrawTextureNPatch, UnloadFont, UnloadFontData, DrawFPS, DrawText, DrawTextEx, DrawTextPro,
    DrawTextCodepoint)
PV_RAY_NOTHINGS(
    DrawTextCodepoints, SetTextLineSpacing, DrawLine3D, DrawPoint3D, DrawCircle3D, DrawTriangle3D,
    DrawTriangleStrip3D, DrawCube)
PV_RAY_NOTHINGS(
    DrawCubeV, DrawCubeWires, DrawCubeWiresV, DrawSphere, DrawSphereEx, DrawSphereWires,
    DrawCylinder, DrawCylinderEx)
PV_RAY_NOTHINGS(
    DrawCylinderWires, DrawCylinderWiresEx, DrawCapsule, DrawCapsuleWires, DrawPlane, DrawRay,
    DrawGrid, UnloadModel)
PV_RAY_NOTHINGS(
    DrawModel, DrawModelEx, DrawModelWires, DrawModelWiresEx, DrawModelPoints, DrawBoundingBox,
    DrawBillboard, DrawBillboardRec)
PV_RAY_NOTHINGS(
    DrawBillboardPro, UploadMesh, UpdateMeshBuffer, UnloadMesh, DrawMesh, DrawMeshInstanced,
    GenMeshTangents, UnloadMaterial)
PV_RAY_NOTHINGS(
    SetMaterialTexture, SetModelMeshMaterial, UpdateModelAnimation, UnloadModelAnimation,
    UnloadModelAnimations, InitAudioDevice, CloseAudioDevice, SetMasterVolume)
PV_RAY_NOTHINGS(
    UpdateSound, UnloadWave, UnloadSound, PlaySound, StopSound, PauseSound, ResumeSound,
    SetSoundVolume)
PV_RAY_NOTHINGS(
    SetSoundPitch, SetSoundPan, UnloadMusicStream, PlayMusicStream, StopMusicStream,
    PauseMusicStream, ResumeMusicStream, UpdateMusicStream)
PV_RAY_NOTHINGS(
    SeekMusicStream, SetMusicVolume, SetMusicPitch, SetMusicPan, UpdateAudioStream, PlayAudioStream,
    StopAudioStream, UnloadAudioStream)
PV_RAY_NOTHINGS(
    SetAudioStreamVolume, SetAudioStreamBufferSizeDefault, SetAudioStreamCallback, UnloadFileData,
    UnloadFileText, UnloadDirectoryFiles, BeginVrStereoMode, EndVrStereoMode)
PV_RAY_NOTHINGS(
    SetWindowIcons, DrawModelPointsEx, DrawSplineSegmentBasis, DrawSplineSegmentCatmullRom,
    UpdateModelAnimationBones, SetGamepadVibration, UnloadDroppedFiles, UnloadVrStereoConfig)
PV_RAY_NOTHINGS(
    ImageDrawCircleLines, ImageDrawCircleLinesV, ImageDrawCircleV, ImageDrawLineEx,
    ImageDrawLineV, ImageDrawPixelV, ImageDrawRectangleLines, ImageDrawRectangleV)
PV_RAY_NOTHINGS(
    ImageDrawTriangle, ImageDrawTriangleEx, ImageDrawTriangleFan, ImageDrawTriangleLines,
    ImageDrawTriangleStrip, ImageKernelConvolution, ImageResizeCanvas, ImageToPOT)
PV_RAY_NOTHINGS(
    ImageBlurGaussian, ImageColorBrightness, ImageColorContrast, UnloadImagePalette,
    UnloadSoundAlias, UnloadWaveSamples, WaveCrop, WaveFormat)
PV_RAY_NOTHINGS(
    PauseAudioStream, ResumeAudioStream, SetAudioStreamPan, SetAudioStreamPitch,
    AttachAudioStreamProcessor, DetachAudioStreamProcessor, AttachAudioMixedProcessor,
    DetachAudioMixedProcessor)

#define PV_RAY_OF(type, name) PV_RAY_ZERO(type, name)
#define PV_RAY_FALSE(name) PV_RAY_ZERO(bool, name)
#define PV_RAY_INT(name) PV_RAY_ZERO(int, name)
#define PV_RAY_VECTOR(name) PV_RAY_ZERO(Vector2, name)
PV_RAY_8(
    PV_RAY_FALSE, IsWindowReady, IsWindowFullscreen, IsWindowHidden, IsWindowMinimized,
    IsWindowMaximized, IsWindowFocused, IsWindowResized, IsWindowState)
PV_RAY_8(
    PV_RAY_FALSE, IsCursorHidden, IsCursorOnScreen, IsKeyPressed, IsKeyPressedRepeat, IsKeyDown,
    IsKeyReleased, IsGamepadAvailable, IsGamepadButtonPressed)
PV_RAY_8(
    PV_RAY_FALSE, IsGamepadButtonDown, IsGamepadButtonReleased, IsGamepadButtonUp,
    IsMouseButtonPressed, IsMouseButtonDown, IsMouseButtonReleased, IsMouseButtonUp,
    IsGestureDetected)
PV_RAY_8(
    PV_RAY_FALSE, ExportImage, IsAudioDeviceReady, IsSoundPlaying, IsMusicStreamPlaying,
    IsAudioStreamPlaying, IsAudioStreamProcessed, IsImageValid, IsTextureValid)
PV_RAY_8(
    PV_RAY_FALSE, IsRenderTextureValid, IsFontValid, IsModelValid, IsMaterialValid, IsShaderValid,
    IsSoundValid, IsModelAnimationValid, IsFileDropped)
PV_RAY_8(
    PV_RAY_FALSE, IsImageReady, IsTextureReady, IsRenderTextureReady, IsFontReady, IsModelReady,
    IsMaterialReady, IsShaderReady, IsSoundReady)
PV_RAY_8(
    PV_RAY_INT, GetScreenWidth, GetScreenHeight, GetRenderWidth, GetRenderHeight, GetMonitorCount,
    GetCurrentMonitor, GetMonitorWidth, GetMonitorHeight)
PV_RAY_8(
    PV_RAY_INT, GetMonitorRefreshRate, GetFPS, GetKeyPressed, GetCharPressed,
    GetGamepadButtonPressed, GetGamepadAxisCount, GetMouseX, GetMouseY)
PV_RAY_8(
    PV_RAY_INT, GetTouchX, GetTouchY, GetTouchPointCount, GetGestureDetected, GetShaderLocation,
    GetShaderLocationAttrib, MeasureText, GetGlyphIndex)
PV_RAY_8(
    PV_RAY_VECTOR, GetWindowPosition, GetWindowScaleDPI, GetMonitorPosition, GetMousePosition,
    GetMouseDelta, GetMouseWheelMoveV, GetTouchPosition, MeasureTextEx)
PV_RAY_8(
    PV_RAY_VECTOR, GetScreenToWorld2D, GetWorldToScreen2D, GetWorldToScreen, GetWorldToScreenEx,
    GetGestureDragVector, GetGesturePinchVector, GetSplinePointBezierQuad, GetSplinePointLinear)
PV_RAY_OF(float, GetFrameTime) PV_RAY_OF(double, GetTime) PV_RAY_OF(float, GetMouseWheelMove)
PV_RAY_OF(float, GetGamepadAxisMovement)
PV_RAY_OF(Shader, LoadShader) PV_RAY_OF(Shader, LoadShaderFromMemory) PV_RAY_OF(Image, LoadImage)
PV_RAY_OF(Image, LoadImageFromScreen)
PV_RAY_OF(Image, LoadImageFromTexture) PV_RAY_OF(Image, LoadImageFromMemory)
PV_RAY_OF(Image, GenImageColor) PV_RAY_OF(Image, GenImageChecked)
PV_RAY_OF(Image, GenImageGradientLinear) PV_RAY_OF(Image, GenImageGradientRadial)
PV_RAY_OF(Image, GenImageWhiteNoise) PV_RAY_OF(Image, GenImagePerlinNoise)
PV_RAY_OF(Image, ImageCopy) PV_RAY_OF(Image, ImageFromImage) PV_RAY_OF(Image, ImageText)
PV_RAY_OF(Color, GetImageColor)
PV_RAY_OF(Texture2D, LoadTexture) PV_RAY_OF(Texture2D, LoadTextureFromImage)
PV_RAY_OF(RenderTexture2D, LoadRenderTexture) PV_RAY_OF(Font, GetFontDefault)
PV_RAY_OF(Font, LoadFont) PV_RAY_OF(Font, LoadFontEx) PV_RAY_OF(Font, LoadFontFromMemory)
PV_RAY_OF(GlyphInfo, GetGlyphInfo) PV_RAY_OF(Rectangle, GetGlyphAtlasRec)
PV_RAY_OF(Model, LoadModel) PV_RAY_OF(Model, LoadModelFromMesh)
PV_RAY_OF(Material, LoadMaterialDefault) PV_RAY_OF(BoundingBox, GetModelBoundingBox)
PV_RAY_OF(BoundingBox, GetMeshBoundingBox) PV_RAY_OF(Mesh, GenMeshPoly)
PV_RAY_OF(Mesh, GenMeshPlane) PV_RAY_OF(Mesh, GenMeshCube) PV_RAY_OF(Mesh, GenMeshSphere)
PV_RAY_OF(Mesh, GenMeshHemiSphere) PV_RAY_OF(Mesh, GenMeshCylinder) PV_RAY_OF(Mesh, GenMeshCone)
PV_RAY_OF(Mesh, GenMeshTorus) PV_RAY_OF(Mesh, GenMeshHeightmap)
PV_RAY_OF(Wave, LoadWave) PV_RAY_OF(Sound, LoadSound) PV_RAY_OF(Sound, LoadSoundFromWave)
PV_RAY_OF(Music, LoadMusicStream) PV_RAY_OF(AudioStream, LoadAudioStream)
PV_RAY_OF(Matrix, GetCameraMatrix) PV_RAY_OF(Matrix, GetCameraMatrix2D) PV_RAY_OF(Ray, GetMouseRay)
PV_RAY_OF(Ray, GetScreenToWorldRay)
PV_RAY_OF(RayCollision, GetRayCollisionSphere) PV_RAY_OF(RayCollision, GetRayCollisionBox)
PV_RAY_OF(RayCollision, GetRayCollisionMesh)
PV_RAY_OF(Color, Fade) PV_RAY_OF(Color, ColorAlpha) PV_RAY_OF(Color, ColorTint)
PV_RAY_OF(Color, ColorBrightness) PV_RAY_OF(Color, ColorContrast) PV_RAY_OF(Color, ColorLerp)
PV_RAY_OF(Color, ColorFromHSV) PV_RAY_OF(Color, ColorFromNormalized) PV_RAY_OF(Color, GetColor)
PV_RAY_OF(Vector4, ColorNormalize) PV_RAY_OF(Vector3, ColorToHSV)
PV_RAY_OF(FilePathList, LoadDirectoryFiles)
PV_RAY_OF(bool, IsMusicValid) PV_RAY_OF(bool, IsWaveValid) PV_RAY_OF(bool, IsAudioStreamValid)
PV_RAY_OF(int, GetTouchPointId) PV_RAY_OF(int, GetMonitorPhysicalWidth)
PV_RAY_OF(int, GetMonitorPhysicalHeight) PV_RAY_OF(float, GetMasterVolume)
PV_RAY_OF(float, GetMusicTimeLength) PV_RAY_OF(float, GetMusicTimePlayed)
PV_RAY_OF(float, GetGestureHoldDuration) PV_RAY_OF(float, GetGestureDragAngle)
PV_RAY_OF(float, GetGesturePinchAngle) PV_RAY_OF(Vector2, GetSplinePointBasis)
PV_RAY_OF(Vector2, GetSplinePointCatmullRom) PV_RAY_OF(Vector2, GetSplinePointBezierCubic)
PV_RAY_OF(Image, ImageTextEx) PV_RAY_OF(Image, ImageFromChannel) PV_RAY_OF(Image, LoadImageRaw)
PV_RAY_OF(Image, LoadImageAnim) PV_RAY_OF(Image, GenImageCellular) PV_RAY_OF(Image, GenImageText)
PV_RAY_OF(Image, GenImageGradientSquare) PV_RAY_OF(Image, GenImageFontAtlas)
PV_RAY_OF(TextureCubemap, LoadTextureCubemap) PV_RAY_OF(Font, LoadFontFromImage)
PV_RAY_OF(Mesh, GenMeshKnot) PV_RAY_OF(Mesh, GenMeshCubicmap) PV_RAY_OF(Wave, WaveCopy)
PV_RAY_OF(Wave, LoadWaveFromMemory) PV_RAY_OF(Sound, LoadSoundAlias)
PV_RAY_OF(Music, LoadMusicStreamFromMemory) PV_RAY_OF(Ray, GetScreenToWorldRayEx)
PV_RAY_OF(RayCollision, GetRayCollisionQuad) PV_RAY_OF(RayCollision, GetRayCollisionTriangle)
PV_RAY_OF(Color, ColorAlphaBlend) PV_RAY_OF(Color, GetPixelColor)
PV_RAY_OF(FilePathList, LoadDirectoryFilesEx) PV_RAY_OF(FilePathList, LoadDroppedFiles)
PV_RAY_NOTHINGS(
    SetPixelColor, UnloadCodepoints, UnloadUTF8, UnloadRandomSequence, SetLoadFileDataCallback,
    SetSaveFileDataCallback, SetLoadFileTextCallback, SetSaveFileTextCallback)
PV_RAY_8(
    PV_RAY_FALSE, SaveFileData, SaveFileText, ChangeDirectory, ExportImageAsCode, ExportMesh,
    ExportWave, ExportFontAsCode, ExportDataAsCode)
PV_RAY_8(
    PV_RAY_INT, GetCodepoint, GetCodepointCount, GetCodepointNext, GetCodepointPrevious,
    GetPixelDataSize, MakeDirectory, SetGamepadMappings, ComputeCRC32)
#define PV_RAY_STRING(name) PV_RAY_ZERO(const char*, name)
PV_RAY_8(
    PV_RAY_STRING, GetClipboardText, GetMonitorName, GetGamepadName, GetDirectoryPath,
    GetPrevDirectoryPath, GetFileNameWithoutExt, CodepointToUTF8, TextJoin)
PV_RAY_OF(char*, TextInsert) PV_RAY_OF(char*, TextReplace) PV_RAY_OF(char*, LoadUTF8)
PV_RAY_OF(char*, EncodeDataBase64) PV_RAY_OF(unsigned char*, DecodeDataBase64)
PV_RAY_OF(unsigned char*, CompressData) PV_RAY_OF(unsigned char*, DecompressData)
PV_RAY_OF(unsigned char*, ExportImageToMemory) PV_RAY_OF(int*, LoadCodepoints)
PV_RAY_OF(int*, LoadRandomSequence) PV_RAY_OF(Color*, LoadImageColors)
PV_RAY_OF(Color*, LoadImagePalette) PV_RAY_OF(Material*, LoadMaterials)
PV_RAY_OF(GlyphInfo*, LoadFontData) PV_RAY_OF(float*, LoadWaveSamples)
PV_RAY_OF(Image, LoadImageAnimFromMemory) PV_RAY_OF(Image, GetClipboardImage)
PV_RAY_OF(Rectangle, GetImageAlphaBorder) PV_RAY_OF(Rectangle, GetShapesTextureRectangle)
PV_RAY_OF(Texture2D, GetShapesTexture) PV_RAY_OF(void*, GetWindowHandle)
PV_RAY_OF(long, GetFileModTime) PV_RAY_STRING(TextToPascal) PV_RAY_STRING(TextToSnake)
PV_RAY_STRING(TextToCamel) PV_RAY_FALSE(DirectoryExists) PV_RAY_FALSE(IsPathFile)
PV_RAY_FALSE(IsFileNameValid) PV_RAY_INT(GetFileLength)
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
    // clang-format on

    static inline ModelAnimation* LoadModelAnimations(const char* path, int* count) {
    (void)path;
    *count = 0;
    return NULL;
}

static inline bool WindowShouldClose(void) {
    return true;
}

static inline bool IsKeyUp(int key) {
    (void)key;
    return true;
}

// ---- functions that an env plays with ----

#define MemAlloc(bytes) calloc(1, bytes)
#define MemRealloc(pointer, bytes) realloc(pointer, bytes)
#define MemFree(pointer) free(pointer)

#define PV_RAY_TEXT 1024 // bytes of a text that a function makes

// Returns a text of this thread, which stays until three others are made.
static inline char* pv_ray_text(void) {
    static _Thread_local char texts[4][PV_RAY_TEXT];
    static _Thread_local unsigned next;
    return texts[next++ % 4];
}

static inline const char* TextFormat(const char* format, ...) {
    char* text = pv_ray_text();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, PV_RAY_TEXT, format, arguments);
    va_end(arguments);
    return text;
}

static inline unsigned int TextLength(const char* text) {
    return text ? (unsigned int)strlen(text) : 0;
}

static inline bool TextIsEqual(const char* a, const char* b) {
    return a && b && strcmp(a, b) == 0;
}

static inline int TextToInteger(const char* text) {
    return atoi(text);
}

static inline float TextToFloat(const char* text) {
    return strtof(text, NULL);
}

static inline int TextCopy(char* to, const char* from) {
    strcpy(to, from);
    return (int)strlen(from);
}

static inline void TextAppend(char* text, const char* append, int* position) {
    *position += TextCopy(text + *position, append);
}

static inline int TextFindIndex(const char* text, const char* find) {
    const char* at = strstr(text, find);
    return at ? (int)(at - text) : -1;
}

static inline const char* TextSubtext(const char* text, int position, int length) {
    const int end = (int)TextLength(text);
    const int start = position < 0 ? 0 : position < end ? position : end;
    return TextFormat("%.*s", length < end - start ? length : end - start, text + start);
}

static inline const char* TextToUpper(const char* text) {
    char* upper = (char*)TextFormat("%s", text);
    for (char* at = upper; *at; at++)
        *at = *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at;
    return upper;
}

static inline const char* TextToLower(const char* text) {
    char* lower = (char*)TextFormat("%s", text);
    for (char* at = lower; *at; at++)
        *at = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
    return lower;
}

// The parts stay until the next call; there are at most 128.
static inline const char** TextSplit(const char* text, char delimiter, int* count) {
    static _Thread_local char copy[PV_RAY_TEXT];
    static _Thread_local const char* parts[128];
    snprintf(copy, sizeof copy, "%s", text);
    *count = 1;
    parts[0] = copy;
    for (char* at = copy; *at && *count < 128; at++) {
        if (*at == delimiter) {
            *at = 0;
            parts[(*count)++] = at + 1;
        }
    }
    return parts;
}

// Assets are looked for from the env's folder upwards (host.h), by a relative path.
static inline const char* GetWorkingDirectory(void) {
    return ".";
}

static inline const char* GetApplicationDirectory(void) {
    return "./";
}

static inline const char* GetFileName(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Returns the extension with its dot, or NULL.
static inline const char* GetFileExtension(const char* path) {
    const char* dot = strrchr(GetFileName(path), '.');
    return dot == GetFileName(path) ? NULL : dot;
}

// extensions: with their dots, separated by semicolons.
static inline bool IsFileExtension(const char* path, const char* extensions) {
    const char* own = GetFileExtension(path);
    if (!own)
        return false;
    int count;
    const char* lower = TextToLower(own);
    const char** parts = TextSplit(TextToLower(extensions), ';', &count);
    for (int i = 0; i < count; i++) {
        if (strcmp(parts[i], lower) == 0)
            return true;
    }
    return false;
}

static inline int GetRandomValue(int min, int max) {
    const int low = min < max ? min : max;
    return low + rand() % (abs(max - min) + 1);
}

static inline bool FileExists(const char* path) {
    FILE* file = fopen(path, "rb");
    if (file)
        fclose(file);
    return file != NULL;
}

// Returns the bytes of a file and a NUL, or NULL.
static inline unsigned char* LoadFileData(const char* path, int* size) {
    *size = 0;
    FILE* file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    const long bytes = ftell(file);
    rewind(file);
    unsigned char* data = (unsigned char*)calloc((size_t)bytes + 1, 1);
    if (data)
        *size = (int)fread(data, 1, (size_t)bytes, file);
    fclose(file);
    return data;
}

static inline char* LoadFileText(const char* path) {
    int size;
    return (char*)LoadFileData(path, &size);
}

static inline bool CheckCollisionRecs(Rectangle a, Rectangle b) {
    return a.x < b.x + b.width && a.x + a.width > b.x && a.y < b.y + b.height &&
           a.y + a.height > b.y;
}

static inline bool CheckCollisionCircles(Vector2 a, float radius_a, Vector2 b, float radius_b) {
    const float dx = b.x - a.x, dy = b.y - a.y, reach = radius_a + radius_b;
    return dx * dx + dy * dy <= reach * reach;
}

static inline bool CheckCollisionCircleRec(Vector2 center, float radius, Rectangle rec) {
    const float half_width = rec.width / 2, half_height = rec.height / 2;
    const float dx = fabsf(center.x - (rec.x + half_width));
    const float dy = fabsf(center.y - (rec.y + half_height));
    if (dx > half_width + radius || dy > half_height + radius)
        return false;
    if (dx <= half_width || dy <= half_height)
        return true;
    const float x = dx - half_width, y = dy - half_height;
    return x * x + y * y <= radius * radius;
}

static inline bool CheckCollisionPointRec(Vector2 point, Rectangle rec) {
    return point.x >= rec.x && point.x < rec.x + rec.width && point.y >= rec.y &&
           point.y < rec.y + rec.height;
}

static inline bool CheckCollisionPointCircle(Vector2 point, Vector2 center, float radius) {
    return CheckCollisionCircles(point, 0, center, radius);
}

static inline bool CheckCollisionPointTriangle(Vector2 point, Vector2 a, Vector2 b, Vector2 c) {
    const float whole = (b.y - c.y) * (a.x - c.x) + (c.x - b.x) * (a.y - c.y);
    const float of_a = ((b.y - c.y) * (point.x - c.x) + (c.x - b.x) * (point.y - c.y)) / whole;
    const float of_b = ((c.y - a.y) * (point.x - c.x) + (a.x - c.x) * (point.y - c.y)) / whole;
    return of_a > 0 && of_b > 0 && 1.0f - of_a - of_b > 0;
}

// A point is inside if a ray from it crosses the edges an odd number of times.
static inline bool CheckCollisionPointPoly(Vector2 point, const Vector2* corners, int count) {
    bool inside = false;
    for (int i = 0, last = count - 1; i < count; last = i++) {
        const Vector2 a = corners[i], b = corners[last];
        if ((a.y > point.y) != (b.y > point.y) &&
            point.x < (b.x - a.x) * (point.y - a.y) / (b.y - a.y) + a.x)
            inside = !inside;
    }
    return inside;
}

static inline bool CheckCollisionPointLine(Vector2 point, Vector2 a, Vector2 b, int threshold) {
    const float dx = b.x - a.x, dy = b.y - a.y, x = point.x - a.x, y = point.y - a.y;
    const float longest = fmaxf(fabsf(dx), fabsf(dy));
    if (fabsf(x * dy - y * dx) >= (float)threshold * longest)
        return false;
    const float along = fabsf(dx) >= fabsf(dy) ? (dx > 0 ? x : -x) : (dy > 0 ? y : -y);
    return along >= 0 && along <= longest;
}

// Writes where two lines with ends cross, unless `point` is NULL.
static inline bool CheckCollisionLines(
    Vector2 start_a, Vector2 end_a, Vector2 start_b, Vector2 end_b, Vector2* point) {
    const float ax = end_a.x - start_a.x, ay = end_a.y - start_a.y;
    const float bx = end_b.x - start_b.x, by = end_b.y - start_b.y;
    const float x = start_b.x - start_a.x, y = start_b.y - start_a.y, cross = ax * by - ay * bx;
    if (fabsf(cross) < FLT_EPSILON)
        return false;
    const float along_a = (x * by - y * bx) / cross, along_b = (x * ay - y * ax) / cross;
    if (!(along_a >= 0 && along_a <= 1 && along_b >= 0 && along_b <= 1))
        return false;
    if (point)
        *point = (Vector2){start_a.x + along_a * ax, start_a.y + along_a * ay};
    return true;
}

static inline bool CheckCollisionCircleLine(Vector2 center, float radius, Vector2 a, Vector2 b) {
    const float dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
    const float along = ((center.x - a.x) * dx + (center.y - a.y) * dy) / square;
    const float nearest = square > 0 ? fminf(fmaxf(along, 0.0f), 1.0f) : 0.0f;
    return CheckCollisionCircles((Vector2){a.x + nearest * dx, a.y + nearest * dy}, 0, center,
                                 radius);
}

// Returns the area that two rectangles share; zeros if there is none.
static inline Rectangle GetCollisionRec(Rectangle a, Rectangle b) {
    const float left = fmaxf(a.x, b.x), right = fminf(a.x + a.width, b.x + b.width);
    const float top = fmaxf(a.y, b.y), bottom = fminf(a.y + a.height, b.y + b.height);
    if (left >= right || top >= bottom)
        return (Rectangle){0};
    return (Rectangle){left, top, right - left, bottom - top};
}

static inline bool CheckCollisionSpheres(Vector3 a, float radius_a, Vector3 b, float radius_b) {
    const float dx = b.x - a.x, dy = b.y - a.y, dz = b.z - a.z, reach = radius_a + radius_b;
    return dx * dx + dy * dy + dz * dz <= reach * reach;
}

static inline bool CheckCollisionBoxes(BoundingBox a, BoundingBox b) {
    return a.max.x >= b.min.x && a.min.x <= b.max.x && a.max.y >= b.min.y && a.min.y <= b.max.y &&
           a.max.z >= b.min.z && a.min.z <= b.max.z;
}

static inline bool CheckCollisionBoxSphere(BoundingBox box, Vector3 center, float radius) {
    const float dx = center.x - fminf(fmaxf(center.x, box.min.x), box.max.x);
    const float dy = center.y - fminf(fmaxf(center.y, box.min.y), box.max.y);
    const float dz = center.z - fminf(fmaxf(center.z, box.min.z), box.max.z);
    return dx * dx + dy * dy + dz * dz <= radius * radius;
}

static inline bool ColorIsEqual(Color a, Color b) {
    return a.r == b.r && a.g == b.g && a.b == b.b && a.a == b.a;
}

static inline int ColorToInt(Color color) {
    return (int)((unsigned)color.r << 24 | (unsigned)color.g << 16 | (unsigned)color.b << 8 |
                 color.a);
}

#endif // OCEAN_RAYLIB
