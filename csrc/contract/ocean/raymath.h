// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for raymath.h: the arithmetic of raylib's vectors, quaternions and matrices. Envs move
// things by it, so it is real. Sums and products are in raylib's order, for the same bits, except
// in MatrixDeterminant, MatrixRotateXYZ and Vector3Unproject (relative differences of up to 7e-5).
#pragma once

#include "raylib.h"

#ifdef OCEAN_RAYMATH
#include OCEAN_RAYMATH
#else

#ifndef EPSILON
#define EPSILON 0.000001f
#endif

typedef struct float3 {
    float v[3];
} float3;

typedef struct float16 {
    float v[16];
} float16;

#define Vector3ToFloat(vector) (Vector3ToFloatV(vector).v)
#define MatrixToFloat(matrix) (MatrixToFloatV(matrix).v)

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

// Writes the weights of a cubic Hermite spline at t: of its start, the tangent there, its end, and
// the tangent there.
static inline void pv_ray_hermite(float t, float* weights) {
    const float square = t * t, cube = square * t;
    weights[0] = 2 * cube - 3 * square + 1;
    weights[1] = cube - 2 * square + t;
    weights[2] = -2 * cube + 3 * square;
    weights[3] = cube - square;
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

// Refracts a direction at a surface by Snell's law; `ratio` is that of the two indices of
// refraction. Total reflection gives zeros.
static inline Vector2 Vector2Refract(Vector2 a, Vector2 normal, float ratio) {
    const float dot = Vector2DotProduct(a, normal), square = 1 - ratio * ratio * (1 - dot * dot);
    if (!(square >= 0))
        return Vector2Zero();
    const float along = ratio * dot + sqrtf(square);
    return (Vector2){ratio * a.x - along * normal.x, ratio * a.y - along * normal.y};
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

static inline Vector2 Vector2Transform(Vector2 a, Matrix m) {
    return (Vector2){m.m0 * a.x + m.m4 * a.y + m.m12, m.m1 * a.x + m.m5 * a.y + m.m13};
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

static inline Vector3 Vector3Invert(Vector3 a) {
    return (Vector3){1.0f / a.x, 1.0f / a.y, 1.0f / a.z};
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

// Makes two vectors of length 1 that are perpendicular, the first one in its direction, the second
// one in their plane.
static inline void Vector3OrthoNormalize(Vector3* first, Vector3* second) {
    *first = Vector3Normalize(*first);
    const Vector3 normal = Vector3Normalize(Vector3CrossProduct(*first, *second));
    *second = Vector3CrossProduct(normal, *first);
}

// Returns the part of a vector that is parallel to another one.
static inline Vector3 Vector3Project(Vector3 a, Vector3 onto) {
    return Vector3Scale(onto, Vector3DotProduct(a, onto) / Vector3DotProduct(onto, onto));
}

// Returns the part of a vector that is perpendicular to another one.
static inline Vector3 Vector3Reject(Vector3 a, Vector3 from) {
    return Vector3Subtract(a, Vector3Project(a, from));
}

// Returns the weights of the corners of a triangle whose sum is the point.
static inline Vector3 Vector3Barycenter(Vector3 point, Vector3 a, Vector3 b, Vector3 c) {
    const Vector3 ab = Vector3Subtract(b, a), ac = Vector3Subtract(c, a);
    const Vector3 ap = Vector3Subtract(point, a);
    const float bb = Vector3DotProduct(ab, ab), bc = Vector3DotProduct(ab, ac);
    const float cc = Vector3DotProduct(ac, ac);
    const float pb = Vector3DotProduct(ap, ab), pc = Vector3DotProduct(ap, ac);
    const float determinant = bb * cc - bc * bc;
    const float of_b = (cc * pb - bc * pc) / determinant;
    const float of_c = (bb * pc - bc * pb) / determinant;
    return (Vector3){1.0f - (of_c + of_b), of_b, of_c};
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

static inline Vector3 Vector3Refract(Vector3 a, Vector3 normal, float ratio) {
    const float dot = Vector3DotProduct(a, normal), square = 1 - ratio * ratio * (1 - dot * dot);
    if (!(square >= 0))
        return Vector3Zero();
    const float along = ratio * dot + sqrtf(square);
    return (Vector3){ratio * a.x - along * normal.x, ratio * a.y - along * normal.y,
                     ratio * a.z - along * normal.z};
}

static inline Vector3 Vector3CubicHermite(
    Vector3 start, Vector3 start_tangent, Vector3 end, Vector3 end_tangent, float amount) {
    float w[4];
    pv_ray_hermite(amount, w);
    return (Vector3){
        w[0] * start.x + w[1] * start_tangent.x + w[2] * end.x + w[3] * end_tangent.x,
        w[0] * start.y + w[1] * start_tangent.y + w[2] * end.y + w[3] * end_tangent.y,
        w[0] * start.z + w[1] * start_tangent.z + w[2] * end.z + w[3] * end_tangent.z,
    };
}

static inline Vector3 Vector3MoveTowards(Vector3 a, Vector3 target, float most) {
    const float dx = target.x - a.x, dy = target.y - a.y, dz = target.z - a.z;
    const float square = dx * dx + dy * dy + dz * dz;
    if (square == 0.0f || (most >= 0.0f && square <= most * most))
        return target;
    const float distance = sqrtf(square);
    return (Vector3){a.x + dx / distance * most, a.y + dy / distance * most,
                     a.z + dz / distance * most};
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

static inline float3 Vector3ToFloatV(Vector3 a) {
    return (float3){{a.x, a.y, a.z}};
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

// ---- four dimensions ----

static inline Vector4 Vector4Zero(void) {
    return (Vector4){0.0f, 0.0f, 0.0f, 0.0f};
}

static inline Vector4 Vector4One(void) {
    return (Vector4){1.0f, 1.0f, 1.0f, 1.0f};
}

static inline Vector4 Vector4Add(Vector4 a, Vector4 b) {
    return (Vector4){a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

static inline Vector4 Vector4AddValue(Vector4 a, float add) {
    return (Vector4){a.x + add, a.y + add, a.z + add, a.w + add};
}

static inline Vector4 Vector4Subtract(Vector4 a, Vector4 b) {
    return (Vector4){a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w};
}

static inline Vector4 Vector4SubtractValue(Vector4 a, float sub) {
    return (Vector4){a.x - sub, a.y - sub, a.z - sub, a.w - sub};
}

static inline Vector4 Vector4Scale(Vector4 a, float scale) {
    return (Vector4){a.x * scale, a.y * scale, a.z * scale, a.w * scale};
}

static inline Vector4 Vector4Multiply(Vector4 a, Vector4 b) {
    return (Vector4){a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w};
}

static inline Vector4 Vector4Divide(Vector4 a, Vector4 b) {
    return (Vector4){a.x / b.x, a.y / b.y, a.z / b.z, a.w / b.w};
}

static inline Vector4 Vector4Negate(Vector4 a) {
    return (Vector4){-a.x, -a.y, -a.z, -a.w};
}

static inline Vector4 Vector4Invert(Vector4 a) {
    return (Vector4){1.0f / a.x, 1.0f / a.y, 1.0f / a.z, 1.0f / a.w};
}

static inline float Vector4DotProduct(Vector4 a, Vector4 b) {
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

static inline float Vector4LengthSqr(Vector4 a) {
    return Vector4DotProduct(a, a);
}

static inline float Vector4Length(Vector4 a) {
    return sqrtf(Vector4LengthSqr(a));
}

static inline float Vector4DistanceSqr(Vector4 a, Vector4 b) {
    return Vector4LengthSqr(Vector4Subtract(a, b));
}

static inline float Vector4Distance(Vector4 a, Vector4 b) {
    return sqrtf(Vector4DistanceSqr(a, b));
}

static inline Vector4 Vector4Normalize(Vector4 a) {
    const float length = Vector4Length(a);
    return length > 0.0f ? Vector4Scale(a, 1.0f / length) : Vector4Zero();
}

static inline Vector4 Vector4Lerp(Vector4 a, Vector4 b, float amount) {
    return (Vector4){a.x + amount * (b.x - a.x), a.y + amount * (b.y - a.y),
                     a.z + amount * (b.z - a.z), a.w + amount * (b.w - a.w)};
}

static inline Vector4 Vector4MoveTowards(Vector4 a, Vector4 target, float most) {
    const Vector4 way = Vector4Subtract(target, a);
    const float square = Vector4LengthSqr(way);
    if (square == 0.0f || (most >= 0.0f && square <= most * most))
        return target;
    const float distance = sqrtf(square);
    return (Vector4){a.x + way.x / distance * most, a.y + way.y / distance * most,
                     a.z + way.z / distance * most, a.w + way.w / distance * most};
}

static inline Vector4 Vector4Min(Vector4 a, Vector4 b) {
    return (Vector4){fminf(a.x, b.x), fminf(a.y, b.y), fminf(a.z, b.z), fminf(a.w, b.w)};
}

static inline Vector4 Vector4Max(Vector4 a, Vector4 b) {
    return (Vector4){fmaxf(a.x, b.x), fmaxf(a.y, b.y), fmaxf(a.z, b.z), fmaxf(a.w, b.w)};
}

static inline int Vector4Equals(Vector4 a, Vector4 b) {
    return FloatEquals(a.x, b.x) && FloatEquals(a.y, b.y) && FloatEquals(a.z, b.z) &&
           FloatEquals(a.w, b.w);
}

// ---- quaternions ----

#define QuaternionAdd Vector4Add
#define QuaternionAddValue Vector4AddValue
#define QuaternionSubtract Vector4Subtract
#define QuaternionSubtractValue Vector4SubtractValue
#define QuaternionScale Vector4Scale
#define QuaternionDivide Vector4Divide
#define QuaternionLength Vector4Length
#define QuaternionLerp Vector4Lerp

static inline Quaternion QuaternionIdentity(void) {
    return (Quaternion){0.0f, 0.0f, 0.0f, 1.0f};
}

static inline Quaternion QuaternionNormalize(Quaternion q) {
    const float length = QuaternionLength(q);
    return Vector4Scale(q, 1.0f / (length == 0.0f ? 1.0f : length));
}

static inline Quaternion QuaternionInvert(Quaternion q) {
    const float square = Vector4LengthSqr(q);
    if (square == 0.0f)
        return q;
    const float inverse = 1.0f / square;
    return (Quaternion){q.x * -inverse, q.y * -inverse, q.z * -inverse, q.w * inverse};
}

static inline Quaternion QuaternionMultiply(Quaternion a, Quaternion b) {
    return (Quaternion){a.x * b.w + a.w * b.x + a.y * b.z - a.z * b.y,
                        a.y * b.w + a.w * b.y + a.z * b.x - a.x * b.z,
                        a.z * b.w + a.w * b.z + a.x * b.y - a.y * b.x,
                        a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z};
}

// q and -q are the same rotation.
static inline int QuaternionEquals(Quaternion a, Quaternion b) {
    return Vector4Equals(a, b) || Vector4Equals(a, Vector4Negate(b));
}

static inline Quaternion QuaternionNlerp(Quaternion a, Quaternion b, float amount) {
    return QuaternionNormalize(QuaternionLerp(a, b, amount));
}

static inline Quaternion QuaternionSlerp(Quaternion a, Quaternion b, float amount) {
    float cosine = Vector4DotProduct(a, b);
    if (cosine < 0.0f) { // the shorter way round
        b = Vector4Negate(b);
        cosine = -cosine;
    }
    if (cosine >= 1.0f)
        return a;
    if (cosine > 0.95f) // an arc this short is almost its chord
        return QuaternionNlerp(a, b, amount);
    const float angle = acosf(cosine), sine = sqrtf(1.0f - cosine * cosine);
    const float of_a = sinf((1 - amount) * angle) / sine, of_b = sinf(amount * angle) / sine;
    return QuaternionAdd(QuaternionScale(a, of_a), QuaternionScale(b, of_b));
}

static inline Quaternion QuaternionCubicHermiteSpline(
    Quaternion start, Quaternion start_tangent, Quaternion end, Quaternion end_tangent, float t) {
    float w[4];
    pv_ray_hermite(t, w);
    const Quaternion at_start =
        QuaternionAdd(QuaternionScale(start, w[0]), QuaternionScale(start_tangent, w[1]));
    const Quaternion from_end = QuaternionAdd(at_start, QuaternionScale(end, w[2]));
    return QuaternionNormalize(QuaternionAdd(from_end, QuaternionScale(end_tangent, w[3])));
}

// Returns the shortest rotation from one unit vector to another. Their cross and dot product form a
// rotation by twice the angle between them, which is averaged with the identity.
static inline Quaternion QuaternionFromVector3ToVector3(Vector3 from, Vector3 to) {
    const Vector3 cross = Vector3CrossProduct(from, to);
    return QuaternionNormalize(
        (Quaternion){cross.x, cross.y, cross.z, 1.0f + Vector3DotProduct(from, to)});
}

// The rotation without an angle is about x.
static inline void QuaternionToAxisAngle(Quaternion q, Vector3* axis, float* angle) {
    if (fabsf(q.w) > 1.0f)
        q = QuaternionNormalize(q);
    const float sine = sqrtf(1.0f - q.w * q.w);
    *angle = 2.0f * acosf(q.w);
    *axis = sine > EPSILON ? (Vector3){q.x / sine, q.y / sine, q.z / sine}
                           : (Vector3){1.0f, 0.0f, 0.0f};
}

static inline Quaternion QuaternionTransform(Quaternion q, Matrix m) {
    return (Quaternion){m.m0 * q.x + m.m4 * q.y + m.m8 * q.z + m.m12 * q.w,
                        m.m1 * q.x + m.m5 * q.y + m.m9 * q.z + m.m13 * q.w,
                        m.m2 * q.x + m.m6 * q.y + m.m10 * q.z + m.m14 * q.w,
                        m.m3 * q.x + m.m7 * q.y + m.m11 * q.z + m.m15 * q.w};
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

// Returns the numbers in the order of the members' names, which is by column.
static inline float16 MatrixToFloatV(Matrix m) {
    return (float16){{m.m0, m.m1, m.m2, m.m3, m.m4, m.m5, m.m6, m.m7, m.m8, m.m9, m.m10, m.m11,
                      m.m12, m.m13, m.m14, m.m15}};
}

static inline Matrix MatrixTranspose(Matrix m) {
    const float16 by_column = MatrixToFloatV(m);
    Matrix transposed;
    memcpy(&transposed, &by_column, sizeof transposed); // members are declared by row
    return transposed;
}

static inline Matrix MatrixAdd(Matrix left, Matrix right) {
    const float *a = &left.m0, *b = &right.m0;
    Matrix sum;
    for (int i = 0; i < 16; i++)
        (&sum.m0)[i] = a[i] + b[i];
    return sum;
}

static inline Matrix MatrixSubtract(Matrix left, Matrix right) {
    const float *a = &left.m0, *b = &right.m0;
    Matrix difference;
    for (int i = 0; i < 16; i++)
        (&difference.m0)[i] = a[i] - b[i];
    return difference;
}

static inline float MatrixTrace(Matrix m) {
    return m.m0 + m.m5 + m.m10 + m.m15;
}

// Writes the determinants of all pairs of rows of two columns: 01, 02, 03, 12, 13, 23.
static inline void pv_ray_minors(const float* a, const float* b, float* minors) {
    for (int i = 0, at = 0; i < 3; i++) {
        for (int j = i + 1; j < 4; j++)
            minors[at++] = a[i] * b[j] - a[j] * b[i];
    }
}

// Returns the determinant, by Laplace's expansion along the first two columns. left, right: the
// minors of the first and of the last two columns.
static inline float pv_ray_expand(const float* left, const float* right) {
    return left[0] * right[5] - left[1] * right[4] + left[2] * right[3] + left[3] * right[2] -
           left[4] * right[1] + left[5] * right[0];
}

static inline float MatrixDeterminant(Matrix m) {
    const float16 columns = MatrixToFloatV(m);
    float left[6], right[6];
    pv_ray_minors(columns.v, columns.v + 4, left);
    pv_ray_minors(columns.v + 8, columns.v + 12, right);
    return pv_ray_expand(left, right);
}

// Writes the cofactors of a column times `scale`, each 4 apart. other: the column beside it;
// minors: of the other two columns.
static inline void pv_ray_cofactors(const float* other,
                                    const float* minors,
                                    float scale,
                                    float* out) {
    out[0] = (other[1] * minors[5] - other[2] * minors[4] + other[3] * minors[3]) * scale;
    out[4] = (-other[0] * minors[5] + other[2] * minors[2] - other[3] * minors[1]) * scale;
    out[8] = (other[0] * minors[4] - other[1] * minors[2] + other[3] * minors[0]) * scale;
    out[12] = (-other[0] * minors[3] + other[1] * minors[1] - other[2] * minors[0]) * scale;
}

// Returns the inverse: the cofactors, transposed, over the determinant.
static inline Matrix MatrixInvert(Matrix m) {
    const float16 columns = MatrixToFloatV(m);
    float left[6], right[6], inverse[16];
    pv_ray_minors(columns.v, columns.v + 4, left);
    pv_ray_minors(columns.v + 8, columns.v + 12, right);
    const float scale = 1.0f / pv_ray_expand(left, right);
    pv_ray_cofactors(columns.v + 4, right, scale, inverse);
    pv_ray_cofactors(columns.v, right, -scale, inverse + 1);
    pv_ray_cofactors(columns.v + 12, left, scale, inverse + 2);
    pv_ray_cofactors(columns.v + 8, left, -scale, inverse + 3);
    Matrix transposed;
    memcpy(&transposed, inverse, sizeof transposed);
    return MatrixTranspose(transposed);
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

// Turns about x, then y, then z.
static inline Matrix MatrixRotateZYX(Vector3 angle) {
    const float cx = cosf(angle.x), sx = sinf(angle.x), cy = cosf(angle.y), sy = sinf(angle.y),
                cz = cosf(angle.z), sz = sinf(angle.z);
    return (Matrix){.m0 = cz * cy,
                    .m1 = cy * sz,
                    .m2 = -sy,
                    .m4 = cz * sy * sx - cx * sz,
                    .m5 = cz * cx + sz * sy * sx,
                    .m6 = cy * sx,
                    .m8 = sz * sx + cz * cx * sy,
                    .m9 = cx * sz * sy - cz * sx,
                    .m10 = cy * cx,
                    .m15 = 1.0f};
}

// Turns about z, then y, then x: the inverse of the opposite turns.
static inline Matrix MatrixRotateXYZ(Vector3 angle) {
    return MatrixTranspose(MatrixRotateZYX(Vector3Negate(angle)));
}

static inline Matrix MatrixFrustum(
    double left, double right, double bottom, double top, double near_plane, double far_plane) {
    const float width = (float)(right - left), height = (float)(top - bottom),
                depth = (float)(far_plane - near_plane);
    const float near = (float)near_plane, far = (float)far_plane;
    return (Matrix){.m0 = near * 2.0f / width,
                    .m5 = near * 2.0f / height,
                    .m8 = ((float)right + (float)left) / width,
                    .m9 = ((float)top + (float)bottom) / height,
                    .m10 = -(far + near) / depth,
                    .m11 = -1.0f,
                    .m14 = -(far * near * 2.0f) / depth};
}

static inline Matrix MatrixPerspective(double fov_y,
                                       double aspect,
                                       double near_plane,
                                       double far_plane) {
    const double top = near_plane * tan(fov_y * 0.5), right = top * aspect;
    return MatrixFrustum(-right, right, -top, top, near_plane, far_plane);
}

static inline Matrix MatrixOrtho(
    double left, double right, double bottom, double top, double near_plane, double far_plane) {
    const float width = (float)(right - left), height = (float)(top - bottom),
                depth = (float)(far_plane - near_plane);
    return (Matrix){.m0 = 2.0f / width,
                    .m5 = 2.0f / height,
                    .m10 = -2.0f / depth,
                    .m12 = -((float)left + (float)right) / width,
                    .m13 = -((float)top + (float)bottom) / height,
                    .m14 = -((float)far_plane + (float)near_plane) / depth,
                    .m15 = 1.0f};
}

// The eye looks along -z.
static inline Matrix MatrixLookAt(Vector3 eye, Vector3 target, Vector3 up) {
    const Vector3 z = Vector3Normalize(Vector3Subtract(eye, target));
    const Vector3 x = Vector3Normalize(Vector3CrossProduct(up, z));
    const Vector3 y = Vector3CrossProduct(z, x);
    return (Matrix){
        x.x,  x.y,  x.z,  -Vector3DotProduct(x, eye), //
        y.x,  y.y,  y.z,  -Vector3DotProduct(y, eye), //
        z.x,  z.y,  z.z,  -Vector3DotProduct(z, eye), //
        0.0f, 0.0f, 0.0f, 1.0f,
    };
}

static inline Vector3 Vector3Unproject(Vector3 source, Matrix projection, Matrix view) {
    const Matrix inverse = MatrixInvert(MatrixMultiply(view, projection));
    const Quaternion point =
        QuaternionTransform((Quaternion){source.x, source.y, source.z, 1.0f}, inverse);
    return (Vector3){point.x / point.w, point.y / point.w, point.z / point.w};
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

// Returns the rotation of a matrix. The largest of the four numbers is the square root of a sum
// that is far from 0; the others are sums divided by it.
static inline Quaternion QuaternionFromMatrix(Matrix m) {
    const float sums[4] = {m.m0 - m.m5 - m.m10, m.m5 - m.m0 - m.m10, m.m10 - m.m0 - m.m5,
                           m.m0 + m.m5 + m.m10};
    int largest = 3;
    for (int i = 0; i < 3; i++) {
        if (sums[i] > sums[largest])
            largest = i;
    }
    const float number = sqrtf(sums[largest] + 1.0f) * 0.5f, part = 0.25f / number;
    const float yz = (m.m6 + m.m9) * part, xz = (m.m8 + m.m2) * part, xy = (m.m1 + m.m4) * part;
    const float wx = (m.m6 - m.m9) * part, wy = (m.m8 - m.m2) * part, wz = (m.m1 - m.m4) * part;
    switch (largest) {
    case 0: return (Quaternion){number, xy, xz, wx};
    case 1: return (Quaternion){xy, number, yz, wy};
    case 2: return (Quaternion){xz, yz, number, wz};
    default: return (Quaternion){wx, wy, wz, number};
    }
}

// Splits a matrix that rotates, then scales along the axes, then translates. A mirror image has
// negative scales; one that flattens has no rotation.
static inline void MatrixDecompose(Matrix m,
                                   Vector3* translation,
                                   Quaternion* rotation,
                                   Vector3* scale) {
    *translation = (Vector3){m.m12, m.m13, m.m14};
    const Vector3 x = {m.m0, m.m4, m.m8}, y = {m.m1, m.m5, m.m9}, z = {m.m2, m.m6, m.m10};
    const float determinant = Vector3DotProduct(x, Vector3CrossProduct(y, z));
    const Vector3 lengths = {Vector3Length(x), Vector3Length(y), Vector3Length(z)};
    *scale = determinant < 0.0f ? Vector3Negate(lengths) : lengths;
    *rotation = FloatEquals(determinant, 0.0f)
                    ? QuaternionIdentity()
                    : QuaternionFromMatrix((Matrix){.m0 = m.m0 / scale->x,
                                                    .m4 = m.m4 / scale->x,
                                                    .m8 = m.m8 / scale->x,
                                                    .m1 = m.m1 / scale->y,
                                                    .m5 = m.m5 / scale->y,
                                                    .m9 = m.m9 / scale->y,
                                                    .m2 = m.m2 / scale->z,
                                                    .m6 = m.m6 / scale->z,
                                                    .m10 = m.m10 / scale->z});
}

#endif // OCEAN_RAYMATH
