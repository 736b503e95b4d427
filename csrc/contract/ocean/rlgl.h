// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for raylib's rlgl.h: functions that draw nothing. See raylib.h.
#pragma once

#include "raylib.h"

#ifdef OCEAN_RLGL
#include OCEAN_RLGL
#else

// clang-format off
enum { RL_LINES = 1, RL_TRIANGLES = 4, RL_QUADS = 7 };
enum {
    RL_BLEND_ALPHA, RL_BLEND_ADDITIVE, RL_BLEND_MULTIPLIED, RL_BLEND_ADD_COLORS,
    RL_BLEND_SUBTRACT_COLORS, RL_BLEND_ALPHA_PREMULTIPLY, RL_BLEND_CUSTOM, RL_BLEND_CUSTOM_SEPARATE
};
#define RL_MODELVIEW 0x1700
#define RL_PROJECTION 0x1701
#define RL_TEXTURE 0x1702
#define RL_FLOAT 0x1406
#define RL_UNSIGNED_BYTE 0x1401
#define RL_SRC_ALPHA 0x0302
#define RL_ONE_MINUS_SRC_ALPHA 0x0303
#define RL_ONE 1
#define RL_ZERO 0
#define RL_FUNC_ADD 0x8006
#define RL_MIN 0x8007
#define RL_MAX 0x8008
#define RL_DST_ALPHA 0x0304
#define RL_ONE_MINUS_DST_ALPHA 0x0305
#define RL_SRC_COLOR 0x0300
#define RL_DST_COLOR 0x0306
#define RL_FUNC_SUBTRACT 0x800A
#define RL_FUNC_REVERSE_SUBTRACT 0x800B

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
PV_RAY_NOTHINGS(
    rlMatrixMode, rlPushMatrix, rlPopMatrix, rlLoadIdentity, rlTranslatef, rlRotatef, rlScalef,
    rlMultMatrixf)
PV_RAY_NOTHINGS(rlFrustum, rlOrtho, rlViewport, rlBegin, rlEnd, rlVertex2i, rlVertex2f, rlVertex3f)
PV_RAY_NOTHINGS(
    rlTexCoord2f, rlNormal3f, rlColor4ub, rlColor3f, rlColor4f, rlSetTexture,
    rlDrawRenderBatchActive, rlSetBlendMode)
PV_RAY_NOTHINGS(
    rlSetBlendFactors, rlSetBlendFactorsSeparate, rlEnableDepthTest, rlDisableDepthTest,
    rlEnableDepthMask, rlDisableDepthMask, rlEnableBackfaceCulling, rlDisableBackfaceCulling)
PV_RAY_NOTHINGS(
    rlSetLineWidth, rlEnableSmoothLines, rlDisableSmoothLines, rlEnableWireMode, rlDisableWireMode,
    rlActiveTextureSlot, rlEnableTexture, rlDisableTexture)
PV_RAY_NOTHINGS(
    rlEnableShader, rlDisableShader, rlSetUniform, rlSetUniformMatrix, rlSetUniformSampler,
    rlSetShader, rlEnableVertexArray, rlDisableVertexArray)
PV_RAY_NOTHINGS(
    rlDrawVertexArray, rlDrawVertexArrayElements, rlDrawVertexArrayInstanced, rlSetVertexAttribute,
    rlSetVertexAttributeDivisor, rlEnableVertexAttribute, rlUpdateVertexBuffer, rlUnloadVertexArray)
PV_RAY_NOTHINGS(
    rlUnloadVertexBuffer, rlUnloadTexture, rlUpdateTexture, rlTextureParameters, rlClearColor,
    rlClearScreenBuffers, rlEnableColorBlend, rlDisableColorBlend)
PV_RAY_OF(bool, rlCheckRenderBatchLimit) PV_RAY_OF(unsigned int, rlLoadVertexArray)
PV_RAY_OF(unsigned int, rlLoadVertexBuffer) PV_RAY_OF(unsigned int, rlLoadTexture)
PV_RAY_OF(unsigned int, rlGetTextureIdDefault) PV_RAY_OF(unsigned int, rlGetShaderIdDefault)
PV_RAY_OF(int, rlGetLocationUniform) PV_RAY_OF(int, rlGetFramebufferWidth)
PV_RAY_OF(int, rlGetFramebufferHeight) PV_RAY_OF(Matrix, rlGetMatrixModelview)
PV_RAY_OF(Matrix, rlGetMatrixProjection) PV_RAY_OF(Matrix, rlGetMatrixTransform)
PV_RAY_NOTHINGS(
    rlSetClipPlanes, rlColorMask, rlSetCullFace, rlScissor, rlEnableScissorTest,
    rlDisableScissorTest, rlEnablePointMode, rlActiveDrawBuffers)
PV_RAY_NOTHINGS(
    rlBindFramebuffer, rlEnableFramebuffer, rlDisableFramebuffer, rlFramebufferAttach,
    rlBlitFramebuffer, rlUnloadFramebuffer, rlGenTextureMipmaps, rlCubemapParameters)
PV_RAY_NOTHINGS(
    rlEnableTextureCubemap, rlDisableTextureCubemap, rlDrawRenderBatch, rlSetRenderBatchActive,
    rlUnloadRenderBatch, rlUnloadShaderProgram, rlSetMatrixModelview, rlSetMatrixProjection)
PV_RAY_NOTHINGS(
    rlEnableVertexBuffer, rlDisableVertexBuffer, rlEnableVertexBufferElement,
    rlDisableVertexBufferElement, rlDisableVertexAttribute, rlSetVertexAttributeDefault,
    rlUpdateVertexBufferElements, rlDrawVertexArrayElementsInstanced)
PV_RAY_OF(unsigned int, rlLoadFramebuffer) PV_RAY_OF(unsigned int, rlLoadTextureDepth)
PV_RAY_OF(unsigned int, rlLoadTextureCubemap) PV_RAY_OF(unsigned int, rlLoadShaderCode)
PV_RAY_OF(unsigned int, rlLoadShaderProgram) PV_RAY_OF(unsigned int, rlCompileShader)
PV_RAY_OF(unsigned int, rlLoadVertexBufferElement) PV_RAY_OF(bool, rlFramebufferComplete)
PV_RAY_OF(int, rlGetLocationAttrib) PV_RAY_OF(int, rlGetVersion) PV_RAY_OF(float, rlGetLineWidth)
PV_RAY_OF(double, rlGetCullDistanceNear) PV_RAY_OF(double, rlGetCullDistanceFar)
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
// clang-format on

#endif // OCEAN_RLGL
