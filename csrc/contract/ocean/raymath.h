// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for raymath.h: the arithmetic of raylib's vectors, quaternions and matrices, which envs
// move things by, so it is real. Sums and products are in raylib's order, for the same bits.
#pragma once

#include "raylib.h"

#ifdef OCEAN_RAYMATH
#include OCEAN_RAYMATH
#else

#ifndef EPSILON
#define EPSILON 0.000001f
#endif

// ---- numbers ----

static inline float Clamp(float value, float min, float max) {
    const float low = value < min ? min : value;
    return low > max ? max : low;
}

static inline float Lerp(float start, float end, float amount) {
    return start + amount * (end - start);
}

static inline float Normalize(float value, float start, float end) {
    return (value - start) / (end - start);
}

static inline float Remap(
    float value, float from_start, float from_end, float to_start, float to_end) {
    return (value - from_start) / (from_end - from_start) * (to_end - to_start) + to_start;
}

static inline float Wrap(float value, float min, float max) {
    return value - (max - min) * floorf((value - min) / (max - min));
}

static inline int FloatEquals(float x, float y) {
    return fabsf(x - y) <= EPSILON * fmaxf(1.0f, fmaxf(fabsf(x), fabsf(y)));
}

// ---- two dimensions ----

static inline Vector2 Vector2Zero(void) {
    return (Vector2){0.0f, 0.0f};
}

static inline Vector2 Vector2One(void) {
    return (Vector2){1.0f, 1.0f};
}

static inline Vector2 Vector2Add(Vector2 a, Vector2 b) {
    return (Vector2){a.x + b.x, a.y + b.y};
}

static inline Vector2 Vector2AddValue(Vector2 a, float add) {
    return (Vector2){a.x + add, a.y + add};
}

static inline Vector2 Vector2Subtract(Vector2 a, Vector2 b) {
    return (Vector2){a.x - b.x, a.y - b.y};
}

static inline Vector2 Vector2SubtractValue(Vector2 a, float sub) {
    return (Vector2){a.x - sub, a.y - sub};
}

static inline float Vector2LengthSqr(Vector2 a) {
    return a.x * a.x + a.y * a.y;
}

static inline float Vector2Length(Vector2 a) {
    return sqrtf(Vector2LengthSqr(a));
}

static inline float Vector2DotProduct(Vector2 a, Vector2 b) {
    return a.x * b.x + a.y * b.y;
}

static inline float Vector2CrossProduct(Vector2 a, Vector2 b) {
    return a.x * b.y - a.y * b.x;
}

static inline float Vector2DistanceSqr(Vector2 a, Vector2 b) {
    return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y);
}

static inline float Vector2Distance(Vector2 a, Vector2 b) {
    return sqrtf(Vector2DistanceSqr(a, b));
}

static inline float Vector2Angle(Vector2 a, Vector2 b) {
    return atan2f(Vector2CrossProduct(a, b), Vector2DotProduct(a, b));
}

static inline float Vector2LineAngle(Vector2 start, Vector2 end) {
    return -atan2f(end.y - start.y, end.x - start.x);
}

static inline Vector2 Vector2Scale(Vector2 a, float scale) {
    return (Vector2){a.x * scale, a.y * scale};
}

static inline Vector2 Vector2Multiply(Vector2 a, Vector2 b) {
    return (Vector2){a.x * b.x, a.y * b.y};
}

static inline Vector2 Vector2Divide(Vector2 a, Vector2 b) {
    return (Vector2){a.x / b.x, a.y / b.y};
}

static inline Vector2 Vector2Negate(Vector2 a) {
    return (Vector2){-a.x, -a.y};
}

static inline Vector2 Vector2Invert(Vector2 a) {
    return (Vector2){1.0f / a.x, 1.0f / a.y};
}

static inline Vector2 Vector2Normalize(Vector2 a) {
    const float length = Vector2Length(a);
    if (!(length > 0.0f))
        return Vector2Zero();
    const float inverse = 1.0f / length;
    return (Vector2){a.x * inverse, a.y * inverse};
}

static inline Vector2 Vector2Lerp(Vector2 a, Vector2 b, float amount) {
    return (Vector2){a.x + amount * (b.x - a.x), a.y + amount * (b.y - a.y)};
}

static inline Vector2 Vector2Reflect(Vector2 a, Vector2 normal) {
    const float dot = Vector2DotProduct(a, normal);
    return (Vector2){a.x - (2.0f * normal.x) * dot, a.y - (2.0f * normal.y) * dot};
}

static inline Vector2 Vector2Min(Vector2 a, Vector2 b) {
    return (Vector2){fminf(a.x, b.x), fminf(a.y, b.y)};
}

static inline Vector2 Vector2Max(Vector2 a, Vector2 b) {
    return (Vector2){fmaxf(a.x, b.x), fmaxf(a.y, b.y)};
}

static inline Vector2 Vector2Rotate(Vector2 a, float angle) {
    const float cosine = cosf(angle), sine = sinf(angle);
    return (Vector2){a.x * cosine - a.y * sine, a.x * sine + a.y * cosine};
}

static inline Vector2 Vector2MoveTowards(Vector2 a, Vector2 target, float most) {
    const float dx = target.x - a.x, dy = target.y - a.y, square = dx * dx + dy * dy;
    if (square == 0.0f || (most >= 0.0f && square <= most * most))
        return target;
    const float distance = sqrtf(square);
    return (Vector2){a.x + dx / distance * most, a.y + dy / distance * most};
}

static inline Vector2 Vector2Clamp(Vector2 a, Vector2 min, Vector2 max) {
    return (Vector2){fminf(max.x, fmaxf(min.x, a.x)), fminf(max.y, fmaxf(min.y, a.y))};
}

static inline Vector2 Vector2ClampValue(Vector2 a, float min, float max) {
    const float length = Vector2Length(a);
    if (!(length > 0.0f))
        return a;
    const float scale = length < min ? min / length : length > max ? max / length : 1.0f;
    return Vector2Scale(a, scale);
}

static inline int Vector2Equals(Vector2 a, Vector2 b) {
    return FloatEquals(a.x, b.x) && FloatEquals(a.y, b.y);
}

// ---- three dimensions ----

static inline Vector3 Vector3Zero(void) {
    return (Vector3){0.0f, 0.0f, 0.0f};
}

static inline Vector3 Vector3One(void) {
    return (Vector3){1.0f, 1.0f, 1.0f};
}

static inline Vector3 Vector3Add(Vector3 a, Vector3 b) {
    return (Vector3){a.x + b.x, a.y + b.y, a.z + b.z};
}

static inline Vector3 Vector3AddValue(Vector3 a, float add) {
    return (Vector3){a.x + add, a.y + add, a.z + add};
}

static inline Vector3 Vector3Subtract(Vector3 a, Vector3 b) {
    return (Vector3){a.x - b.x, a.y - b.y, a.z - b.z};
}

static inline Vector3 Vector3SubtractValue(Vector3 a, float sub) {
    return (Vector3){a.x - sub, a.y - sub, a.z - sub};
}

static inline Vector3 Vector3Scale(Vector3 a, float scale) {
    return (Vector3){a.x * scale, a.y * scale, a.z * scale};
}

static inline Vector3 Vector3Multiply(Vector3 a, Vector3 b) {
    return (Vector3){a.x * b.x, a.y * b.y, a.z * b.z};
}

static inline Vector3 Vector3Divide(Vector3 a, Vector3 b) {
    return (Vector3){a.x / b.x, a.y / b.y, a.z / b.z};
}

static inline Vector3 Vector3Negate(Vector3 a) {
    return (Vector3){-a.x, -a.y, -a.z};
}

static inline float Vector3LengthSqr(Vector3 a) {
    return a.x * a.x + a.y * a.y + a.z * a.z;
}

static inline float Vector3Length(Vector3 a) {
    return sqrtf(Vector3LengthSqr(a));
}

static inline float Vector3DotProduct(Vector3 a, Vector3 b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static inline Vector3 Vector3CrossProduct(Vector3 a, Vector3 b) {
    return (Vector3){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

static inline float Vector3DistanceSqr(Vector3 a, Vector3 b) {
    return Vector3LengthSqr(Vector3Subtract(b, a));
}

static inline float Vector3Distance(Vector3 a, Vector3 b) {
    return sqrtf(Vector3DistanceSqr(a, b));
}

static inline float Vector3Angle(Vector3 a, Vector3 b) {
    return atan2f(Vector3Length(Vector3CrossProduct(a, b)), Vector3DotProduct(a, b));
}

static inline Vector3 Vector3Normalize(Vector3 a) {
    const float length = Vector3Length(a);
    if (length == 0.0f)
        return a;
    const float inverse = 1.0f / length;
    return (Vector3){a.x * inverse, a.y * inverse, a.z * inverse};
}

static inline Vector3 Vector3Perpendicular(Vector3 a) {
    Vector3 axis = {1.0f, 0.0f, 0.0f};
    float least = fabsf(a.x);
    if (fabsf(a.y) < least) {
        least = fabsf(a.y);
        axis = (Vector3){0.0f, 1.0f, 0.0f};
    }
    if (fabsf(a.z) < least)
        axis = (Vector3){0.0f, 0.0f, 1.0f};
    return Vector3CrossProduct(a, axis);
}

static inline Vector3 Vector3Lerp(Vector3 a, Vector3 b, float amount) {
    return (Vector3){a.x + amount * (b.x - a.x), a.y + amount * (b.y - a.y),
                     a.z + amount * (b.z - a.z)};
}

static inline Vector3 Vector3Reflect(Vector3 a, Vector3 normal) {
    const float dot = Vector3DotProduct(a, normal);
    return (Vector3){a.x - (2.0f * normal.x) * dot, a.y - (2.0f * normal.y) * dot,
                     a.z - (2.0f * normal.z) * dot};
}

static inline Vector3 Vector3Min(Vector3 a, Vector3 b) {
    return (Vector3){fminf(a.x, b.x), fminf(a.y, b.y), fminf(a.z, b.z)};
}

static inline Vector3 Vector3Max(Vector3 a, Vector3 b) {
    return (Vector3){fmaxf(a.x, b.x), fmaxf(a.y, b.y), fmaxf(a.z, b.z)};
}

static inline Vector3 Vector3Clamp(Vector3 a, Vector3 min, Vector3 max) {
    return Vector3Min(max, Vector3Max(min, a));
}

static inline Vector3 Vector3ClampValue(Vector3 a, float min, float max) {
    const float length = Vector3Length(a);
    if (!(length > 0.0f))
        return a;
    const float scale = length < min ? min / length : length > max ? max / length : 1.0f;
    return Vector3Scale(a, scale);
}

static inline int Vector3Equals(Vector3 a, Vector3 b) {
    return FloatEquals(a.x, b.x) && FloatEquals(a.y, b.y) && FloatEquals(a.z, b.z);
}

static inline Vector3 Vector3Transform(Vector3 a, Matrix m) {
    return (Vector3){m.m0 * a.x + m.m4 * a.y + m.m8 * a.z + m.m12,
                     m.m1 * a.x + m.m5 * a.y + m.m9 * a.z + m.m13,
                     m.m2 * a.x + m.m6 * a.y + m.m10 * a.z + m.m14};
}

static inline Vector3 Vector3RotateByQuaternion(Vector3 v, Quaternion q) {
    return (Vector3){
        v.x * (q.x * q.x + q.w * q.w - q.y * q.y - q.z * q.z) +
            v.y * (2 * q.x * q.y - 2 * q.w * q.z) + v.z * (2 * q.x * q.z + 2 * q.w * q.y),
        v.x * (2 * q.w * q.z + 2 * q.x * q.y) +
            v.y * (q.w * q.w - q.x * q.x + q.y * q.y - q.z * q.z) +
            v.z * (-2 * q.w * q.x + 2 * q.y * q.z),
        v.x * (-2 * q.w * q.y + 2 * q.x * q.z) + v.y * (2 * q.w * q.x + 2 * q.y * q.z) +
            v.z * (q.w * q.w - q.x * q.x - q.y * q.y + q.z * q.z)};
}

static inline Vector3 Vector3RotateByAxisAngle(Vector3 v, Vector3 axis, float angle) {
    axis = Vector3Normalize(axis);
    angle /= 2.0f;
    const Vector3 w = Vector3Scale(axis, sinf(angle));
    const Vector3 wv = Vector3CrossProduct(w, v), wwv = Vector3CrossProduct(w, wv);
    return Vector3Add(Vector3Add(v, Vector3Scale(wv, 2.0f * cosf(angle))), Vector3Scale(wwv, 2.0f));
}

// ---- quaternions ----

static inline Quaternion QuaternionIdentity(void) {
    return (Quaternion){0.0f, 0.0f, 0.0f, 1.0f};
}

static inline float QuaternionLength(Quaternion q) {
    return sqrtf(q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w);
}

static inline Quaternion QuaternionNormalize(Quaternion q) {
    const float length = QuaternionLength(q), inverse = 1.0f / (length == 0.0f ? 1.0f : length);
    return (Quaternion){q.x * inverse, q.y * inverse, q.z * inverse, q.w * inverse};
}

static inline Quaternion QuaternionInvert(Quaternion q) {
    const float square = q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w;
    if (square == 0.0f)
        return q;
    const float inverse = 1.0f / square;
    return (Quaternion){q.x * -inverse, q.y * -inverse, q.z * -inverse, q.w * inverse};
}

static inline Quaternion QuaternionAdd(Quaternion a, Quaternion b) {
    return (Quaternion){a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

static inline Quaternion QuaternionScale(Quaternion q, float scale) {
    return (Quaternion){q.x * scale, q.y * scale, q.z * scale, q.w * scale};
}

static inline Quaternion QuaternionMultiply(Quaternion a, Quaternion b) {
    return (Quaternion){a.x * b.w + a.w * b.x + a.y * b.z - a.z * b.y,
                        a.y * b.w + a.w * b.y + a.z * b.x - a.x * b.z,
                        a.z * b.w + a.w * b.z + a.x * b.y - a.y * b.x,
                        a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z};
}

static inline Quaternion QuaternionLerp(Quaternion a, Quaternion b, float amount) {
    return (Quaternion){a.x + amount * (b.x - a.x), a.y + amount * (b.y - a.y),
                        a.z + amount * (b.z - a.z), a.w + amount * (b.w - a.w)};
}

static inline Quaternion QuaternionNlerp(Quaternion a, Quaternion b, float amount) {
    return QuaternionNormalize(QuaternionLerp(a, b, amount));
}

static inline Quaternion QuaternionFromAxisAngle(Vector3 axis, float angle) {
    if (Vector3Length(axis) == 0.0f)
        return QuaternionIdentity();
    angle *= 0.5f;
    axis = Vector3Normalize(axis);
    const float sine = sinf(angle), cosine = cosf(angle);
    return QuaternionNormalize((Quaternion){axis.x * sine, axis.y * sine, axis.z * sine, cosine});
}

static inline Quaternion QuaternionFromEuler(float pitch, float yaw, float roll) {
    const float x0 = cosf(pitch * 0.5f), x1 = sinf(pitch * 0.5f), y0 = cosf(yaw * 0.5f),
                y1 = sinf(yaw * 0.5f), z0 = cosf(roll * 0.5f), z1 = sinf(roll * 0.5f);
    return (Quaternion){x1 * y0 * z0 - x0 * y1 * z1, x0 * y1 * z0 + x1 * y0 * z1,
                        x0 * y0 * z1 - x1 * y1 * z0, x0 * y0 * z0 + x1 * y1 * z1};
}

static inline Vector3 QuaternionToEuler(Quaternion q) {
    const float y = 2.0f * (q.w * q.y - q.z * q.x), bounded = y > 1.0f    ? 1.0f
                                                              : y < -1.0f ? -1.0f
                                                                          : y;
    return (Vector3){atan2f(2.0f * (q.w * q.x + q.y * q.z), 1.0f - 2.0f * (q.x * q.x + q.y * q.y)),
                     asinf(bounded),
                     atan2f(2.0f * (q.w * q.z + q.x * q.y), 1.0f - 2.0f * (q.y * q.y + q.z * q.z))};
}

// ---- matrices ----

static inline Matrix MatrixIdentity(void) {
    return (Matrix){.m0 = 1.0f, .m5 = 1.0f, .m10 = 1.0f, .m15 = 1.0f};
}

static inline Matrix MatrixTranslate(float x, float y, float z) {
    return (Matrix){.m0 = 1.0f, .m5 = 1.0f, .m10 = 1.0f, .m15 = 1.0f, .m12 = x, .m13 = y, .m14 = z};
}

static inline Matrix MatrixScale(float x, float y, float z) {
    return (Matrix){.m0 = x, .m5 = y, .m10 = z, .m15 = 1.0f};
}

static inline Matrix MatrixMultiply(Matrix left, Matrix right) {
    // Members are declared by row, and numbered by column.
    const float *a = &left.m0, *b = &right.m0;
    Matrix product;
    float* out = &product.m0;
    for (int row = 0; row < 4; row++) {
        for (int column = 0; column < 4; column++)
            out[4 * row + column] = a[column] * b[4 * row] + a[4 + column] * b[4 * row + 1] +
                                    a[8 + column] * b[4 * row + 2] +
                                    a[12 + column] * b[4 * row + 3];
    }
    return product;
}

static inline Matrix MatrixRotate(Vector3 axis, float angle) {
    axis = Vector3Normalize(axis);
    const float x = axis.x, y = axis.y, z = axis.z, sine = sinf(angle), cosine = cosf(angle),
                t = 1.0f - cosine;
    return (Matrix){.m0 = x * x * t + cosine,
                    .m1 = y * x * t + z * sine,
                    .m2 = z * x * t - y * sine,
                    .m4 = x * y * t - z * sine,
                    .m5 = y * y * t + cosine,
                    .m6 = z * y * t + x * sine,
                    .m8 = x * z * t + y * sine,
                    .m9 = y * z * t - x * sine,
                    .m10 = z * z * t + cosine,
                    .m15 = 1.0f};
}

static inline Matrix MatrixRotateX(float angle) {
    const float sine = sinf(angle), cosine = cosf(angle);
    return (Matrix){.m0 = 1.0f, .m5 = cosine, .m6 = sine, .m9 = -sine, .m10 = cosine, .m15 = 1.0f};
}

static inline Matrix MatrixRotateY(float angle) {
    const float sine = sinf(angle), cosine = cosf(angle);
    return (Matrix){.m0 = cosine, .m2 = -sine, .m5 = 1.0f, .m8 = sine, .m10 = cosine, .m15 = 1.0f};
}

static inline Matrix MatrixRotateZ(float angle) {
    const float sine = sinf(angle), cosine = cosf(angle);
    return (Matrix){.m0 = cosine, .m1 = sine, .m4 = -sine, .m5 = cosine, .m10 = 1.0f, .m15 = 1.0f};
}

static inline Matrix QuaternionToMatrix(Quaternion q) {
    const float xx = q.x * q.x, yy = q.y * q.y, zz = q.z * q.z, xz = q.x * q.z, xy = q.x * q.y,
                yz = q.y * q.z, wx = q.w * q.x, wy = q.w * q.y, wz = q.w * q.z;
    return (Matrix){.m0 = 1 - 2 * (yy + zz),
                    .m1 = 2 * (xy + wz),
                    .m2 = 2 * (xz - wy),
                    .m4 = 2 * (xy - wz),
                    .m5 = 1 - 2 * (xx + zz),
                    .m6 = 2 * (yz + wx),
                    .m8 = 2 * (xz + wy),
                    .m9 = 2 * (yz - wx),
                    .m10 = 1 - 2 * (xx + yy),
                    .m15 = 1.0f};
}

#endif // OCEAN_RAYMATH
