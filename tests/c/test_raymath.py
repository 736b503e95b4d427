# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""csrc/contract/ocean/raymath.h and raylib.h: vectors, quaternions and matrices obey their
definitions; collisions and texts.

A Matrix is here an array (4, 4) with M @ (x, y, z, 1) = the transformed point, which is also the
order of its members in memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puffervec.contract.env_types import get_include
from tests.libraries import compile_library

REAL, WIDE, INT, BOOL = ctypes.c_float, ctypes.c_double, ctypes.c_int, ctypes.c_bool
TEXT, ARRAY = ctypes.c_char_p, ctypes.c_void_p


def numbers(count: int) -> type[ctypes.Structure]:
    """Return a struct of that many floats."""
    fields = tuple((f"v{i}", REAL) for i in range(count))
    return type(f"Floats{count}", (ctypes.Structure,), {"_fields_": fields})


V2, V3, V4, M = (numbers(count) for count in (2, 3, 4, 16))
SIX_WIDE = (WIDE,) * 6
# Results and arguments. A box or rectangle is the struct of its numbers.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "CheckCollisionBoxSphere": (BOOL, numbers(6), V3, REAL),
    "CheckCollisionCircleLine": (BOOL, V2, REAL, V2, V2),
    "CheckCollisionLines": (BOOL, V2, V2, V2, V2, V2),
    "CheckCollisionPointLine": (BOOL, V2, V2, V2, INT),
    "CheckCollisionPointPoly": (BOOL, V2, ARRAY, INT),
    "CheckCollisionPointTriangle": (BOOL, V2, V2, V2, V2),
    "GetCollisionRec": (V4, V4, V4),
    "GetFileExtension": (TEXT, TEXT),
    "GetFileName": (TEXT, TEXT),
    "IsFileExtension": (BOOL, TEXT, TEXT),
    "TextFindIndex": (INT, TEXT, TEXT),
    "TextSubtext": (TEXT, TEXT, INT, INT),
    "TextToFloat": (REAL, TEXT),
    "TextToInteger": (INT, TEXT),
    "TextToLower": (TEXT, TEXT),
    "TextToUpper": (TEXT, TEXT),
    "Vector2Transform": (V2, V2, M),
    "Vector2Refract": (V2, V2, V2, REAL),
    "Vector3Barycenter": (V3, V3, V3, V3, V3),
    "Vector3CubicHermite": (V3, V3, V3, V3, V3, REAL),
    "Vector3Invert": (V3, V3),
    "Vector3MoveTowards": (V3, V3, V3, REAL),
    "Vector3OrthoNormalize": (None, V3, V3),
    "Vector3Project": (V3, V3, V3),
    "Vector3Refract": (V3, V3, V3, REAL),
    "Vector3Reject": (V3, V3, V3),
    "Vector3RotateByQuaternion": (V3, V3, V4),
    "Vector3ToFloatV": (V3, V3),
    "Vector3Transform": (V3, V3, M),
    "Vector3Unproject": (V3, V3, M, M),
    "Vector4Add": (V4, V4, V4),
    "Vector4AddValue": (V4, V4, REAL),
    "Vector4Distance": (REAL, V4, V4),
    "Vector4DistanceSqr": (REAL, V4, V4),
    "Vector4Divide": (V4, V4, V4),
    "Vector4DotProduct": (REAL, V4, V4),
    "Vector4Equals": (INT, V4, V4),
    "Vector4Invert": (V4, V4),
    "Vector4Length": (REAL, V4),
    "Vector4LengthSqr": (REAL, V4),
    "Vector4Lerp": (V4, V4, V4, REAL),
    "Vector4Max": (V4, V4, V4),
    "Vector4Min": (V4, V4, V4),
    "Vector4MoveTowards": (V4, V4, V4, REAL),
    "Vector4Multiply": (V4, V4, V4),
    "Vector4Negate": (V4, V4),
    "Vector4Normalize": (V4, V4),
    "Vector4One": (V4,),
    "Vector4Scale": (V4, V4, REAL),
    "Vector4Subtract": (V4, V4, V4),
    "Vector4SubtractValue": (V4, V4, REAL),
    "Vector4Zero": (V4,),
    "QuaternionAddValue": (V4, V4, REAL),
    "QuaternionCubicHermiteSpline": (V4, V4, V4, V4, V4, REAL),
    "QuaternionDivide": (V4, V4, V4),
    "QuaternionEquals": (INT, V4, V4),
    "QuaternionFromAxisAngle": (V4, V3, REAL),
    "QuaternionFromMatrix": (V4, M),
    "QuaternionFromVector3ToVector3": (V4, V3, V3),
    "QuaternionSlerp": (V4, V4, V4, REAL),
    "QuaternionSubtract": (V4, V4, V4),
    "QuaternionSubtractValue": (V4, V4, REAL),
    "QuaternionToAxisAngle": (None, V4, V3, REAL),
    "QuaternionToMatrix": (M, V4),
    "QuaternionTransform": (V4, V4, M),
    "MatrixAdd": (M, M, M),
    "MatrixDecompose": (None, M, V3, V4, V3),
    "MatrixDeterminant": (REAL, M),
    "MatrixFrustum": (M, *SIX_WIDE),
    "MatrixInvert": (M, M),
    "MatrixLookAt": (M, V3, V3, V3),
    "MatrixMultiply": (M, M, M),
    "MatrixOrtho": (M, *SIX_WIDE),
    "MatrixPerspective": (M, WIDE, WIDE, WIDE, WIDE),
    "MatrixRotateX": (M, REAL),
    "MatrixRotateXYZ": (M, V3),
    "MatrixRotateY": (M, REAL),
    "MatrixRotateZ": (M, REAL),
    "MatrixRotateZYX": (M, V3),
    "MatrixSubtract": (M, M, M),
    "MatrixToFloatV": (M, M),
    "MatrixTrace": (REAL, M),
    "MatrixTranspose": (M, M),
}
# How many of the last arguments are pointers to what a function writes.
WRITTEN = {
    "Vector3OrthoNormalize": 2,
    "QuaternionToAxisAngle": 2,
    "MatrixDecompose": 3,
    "CheckCollisionLines": 1,
}


class Raymath:
    """The functions by name, on arrays."""

    def __init__(self, library: Path) -> None:
        self.raymath = ctypes.CDLL(str(library))
        addresses = (ctypes.c_void_p * len(FUNCTIONS)).in_dll(self.raymath, "functions")
        self.addresses = dict(zip(FUNCTIONS, addresses, strict=True))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in FUNCTIONS:
            raise AttributeError(name)
        result, *kinds = FUNCTIONS[name]
        pointers = WRITTEN.get(name, 0)
        plain = len(kinds) - pointers
        types = [*kinds[:plain], *(ctypes.POINTER(kind) for kind in kinds[plain:])]
        function = ctypes.CFUNCTYPE(result, *types)(self.addresses[name])

        def call(*arguments: Any) -> Any:
            given = [to_c(kind, value) for kind, value in zip(kinds, arguments, strict=False)]
            places = [kind() for kind in kinds[len(given) :]]
            values = [*given, *places]
            out = function(*values[:plain], *map(ctypes.pointer, values[plain:]))
            written = tuple(map(from_c, values[plain:]))
            return from_c(out) if not written else written if result is None else (out, *written)

        return call


def to_c(kind: Any, value: Any) -> Any:
    if not isinstance(kind, type) or not issubclass(kind, ctypes.Structure):
        return kind(value)
    return kind.from_buffer_copy(np.asarray(value, np.float32).tobytes())


def from_c(value: Any) -> Any:
    if isinstance(value, ctypes.Structure):
        floats = np.frombuffer(bytes(value), np.float32).astype(np.float64)
        return floats.reshape(4, 4) if len(floats) == 16 else floats
    return value.value if isinstance(value, REAL) else value


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Raymath:
    folder = tmp_path_factory.mktemp("raymath")
    names = ", ".join(f"(void*){name}" for name in FUNCTIONS)
    source = folder / "functions.c"
    table = f"extern void* functions[];\nvoid* functions[] = {{{names}}};\n"
    source.write_text('#include "raymath.h"\n' + table)
    flags = ("-fvisibility=default", "-Wno-unused-function", "-lm")
    return Raymath(
        compile_library(source, folder / "raymath.so", *flags, include=f"{get_include()}/ocean")
    )


def close(got: Any, want: Any, within: float = 1e-5) -> None:
    np.testing.assert_allclose(got, want, rtol=within, atol=within)


def random(*shape: int) -> np.ndarray:
    """Return numbers that floats hold exactly."""
    return np.random.default_rng(3).normal(size=shape).astype(np.float32).astype(np.float64)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def turned(axis: int, angle: float) -> np.ndarray:
    """Return the matrix that turns about an axis."""
    first, second = [i for i in range(3) if i != axis]
    if axis == 1:
        first, second = second, first
    matrix = np.eye(4)
    matrix[first, first] = matrix[second, second] = np.cos(angle)
    matrix[first, second], matrix[second, first] = -np.sin(angle), np.sin(angle)
    return matrix


def test_arithmetic_in_four_dimensions(ray: Raymath) -> None:
    a, b = random(2, 4)
    for got, want in [
        (ray.Vector4Zero(), np.zeros(4)), (ray.Vector4One(), np.ones(4)),
        (ray.Vector4Add(a, b), a + b), (ray.Vector4Subtract(a, b), a - b),
        (ray.Vector4AddValue(a, 3), a + 3), (ray.Vector4SubtractValue(a, 3), a - 3),
        (ray.Vector4Scale(a, 3), 3 * a), (ray.Vector4Multiply(a, b), a * b),
        (ray.Vector4Divide(a, b), a / b), (ray.Vector4Negate(a), -a),
        (ray.Vector4Invert(a), 1 / a), (ray.Vector3Invert(a[:3]), 1 / a[:3]),
        (ray.Vector4DotProduct(a, b), a @ b), (ray.Vector4LengthSqr(a), a @ a),
        (ray.Vector4Length(a), np.linalg.norm(a)), (ray.Vector4Normalize(a), unit(a)),
        (ray.Vector4Normalize(0 * a), 0 * a), (ray.Vector4Distance(a, b), np.linalg.norm(a - b)),
        (ray.Vector4DistanceSqr(a, b), (a - b) @ (a - b)),
        (ray.Vector4Lerp(a, b, 0.25), 0.75 * a + 0.25 * b),
        (ray.Vector4Min(a, b), np.minimum(a, b)), (ray.Vector4Max(a, b), np.maximum(a, b)),
        (ray.QuaternionSubtract(a, b), a - b), (ray.QuaternionAddValue(a, 3), a + 3),
        (ray.QuaternionSubtractValue(a, 3), a - 3), (ray.QuaternionDivide(a, b), a / b),
        (ray.Vector3ToFloatV(a[:3]), a[:3]),
    ]:  # fmt: skip
        close(got, want)
    assert ray.Vector4Equals(a, a + 1e-8) and not ray.Vector4Equals(a, a + [0, 0, 0, 1e-3])
    assert ray.QuaternionEquals(a, -a) and not ray.QuaternionEquals(a, a * [1, 1, 1, -1])


@pytest.mark.parametrize("size", [3, 4])
def test_moves_stop_at_the_target(ray: Raymath, size: int) -> None:
    move = ray.Vector3MoveTowards if size == 3 else ray.Vector4MoveTowards
    a, b = random(2, size)
    way = np.linalg.norm(b - a)
    close(move(a, b, way / 4), a + (b - a) / 4)
    assert (move(a, b, way + 1) == b).all() and (move(a, a, 1) == a).all()


def test_parts_of_vectors(ray: Raymath) -> None:
    a, b = random(2, 3)
    along, across = ray.Vector3Project(a, b), ray.Vector3Reject(a, b)
    close(along + across, a)
    close([np.linalg.norm(np.cross(along, b)), across @ b], [0, 0])
    first, second = ray.Vector3OrthoNormalize(a, b)
    close(first, unit(a))
    close([first @ second, np.linalg.norm(second), second @ np.cross(a, b)], [0, 1, 0])
    assert second @ b > 0


def test_the_weights_of_a_triangles_corners(ray: Raymath) -> None:
    corners, weights = random(3, 3), np.array([0.5, -0.25, 0.75])
    close(ray.Vector3Barycenter(weights @ corners, *corners), weights)


@pytest.mark.parametrize("size", [2, 3])
def test_refraction_obeys_snells_law(ray: Raymath, size: int) -> None:
    refract = ray.Vector2Refract if size == 2 else ray.Vector3Refract
    normal, slope, ratio = np.eye(size)[1], 0.6, 1.25
    ray_in = np.zeros(size)
    ray_in[:2] = slope, -0.8
    out = refract(ray_in, normal, ratio)
    close(out[:2], [ratio * slope, -np.sqrt(1 - (ratio * slope) ** 2)])
    assert not refract(ray_in, normal, 1.8).any()  # Total reflection.


def test_splines_have_their_ends_and_slopes(ray: Raymath) -> None:
    start, go, end, arrive = random(4, 3)
    close(ray.Vector3CubicHermite(start, go, end, arrive, 0), start)
    close(ray.Vector3CubicHermite(start, go, end, arrive, 1), end)
    step = 1e-2
    near = [ray.Vector3CubicHermite(start, go, end, arrive, t) for t in (step, 1 - step)]
    close([(near[0] - start) / step, (end - near[1]) / step], [go, arrive], within=0.2)
    quaternions = random(4, 4)
    want = 0.5 * quaternions[0] + 0.125 * quaternions[1] + 0.5 * quaternions[2]
    got = ray.QuaternionCubicHermiteSpline(*quaternions, 0.5)
    close(got, unit(want - 0.125 * quaternions[3]))


# ---- rotations -----------------------------------------------------------------------------------


ANGLES = (0.3, -1.1, 2.0)


def test_turns_about_several_axes(ray: Raymath) -> None:
    x, y, z = (turned(axis, angle) for axis, angle in enumerate(ANGLES))
    for axis, function in enumerate((ray.MatrixRotateX, ray.MatrixRotateY, ray.MatrixRotateZ)):
        close(function(ANGLES[axis]), (x, y, z)[axis])
    close(ray.MatrixRotateZYX(ANGLES), z @ y @ x)
    close(ray.MatrixRotateXYZ(ANGLES), x @ y @ z)


@pytest.mark.parametrize("largest", range(4))
def test_a_quaternion_and_its_matrix(ray: Raymath, largest: int) -> None:
    """Whichever of the four numbers is the largest."""
    q = unit(np.where(np.arange(4) == largest, 3.0, [0.5, -0.7, 0.9, 0.3]))
    matrix = ray.QuaternionToMatrix(q)
    close(ray.QuaternionFromMatrix(matrix), q)
    point = random(3)
    close((matrix @ [*point, 1])[:3], ray.Vector3RotateByQuaternion(point, q))


def test_a_quaternion_and_its_axis(ray: Raymath) -> None:
    axis, angle = ray.QuaternionToAxisAngle(ray.QuaternionFromAxisAngle([1, 2, 2], 0.7))
    close(axis, [1 / 3, 2 / 3, 2 / 3])
    close(angle, 0.7)
    axis, angle = ray.QuaternionToAxisAngle([0, 0, 0, 2])
    assert axis.tolist() == [1, 0, 0] and angle == 0


def test_the_shortest_rotation_between_two_directions(ray: Raymath) -> None:
    a, b = map(unit, random(2, 3))
    q = ray.QuaternionFromVector3ToVector3(a, b)
    close(ray.Vector3RotateByQuaternion(a, q), b)
    axis, angle = ray.QuaternionToAxisAngle(q)
    close([axis @ a, axis @ b, angle], [0, 0, np.arccos(a @ b)])


@pytest.mark.parametrize("angle", [0.2, 2.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_part_of_a_rotation(ray: Raymath, angle: float, sign: int) -> None:
    """Both for arcs so short that their chord stands in for them, and for longer ones."""
    start, part, end = (
        ray.QuaternionFromAxisAngle([0, 1, 0], angle * amount) for amount in (0, 0.25, 1)
    )
    close(ray.QuaternionSlerp(start, sign * end, 0.25), part, within=1e-3)
    close(ray.QuaternionSlerp(end, end, 0.5), end)


# ---- matrices ------------------------------------------------------------------------------------


def test_arithmetic_of_matrices(ray: Raymath) -> None:
    a, b = random(2, 4, 4)
    close(ray.MatrixAdd(a, b), a + b)
    close(ray.MatrixSubtract(a, b), a - b)
    close(ray.MatrixMultiply(a, b), b @ a)
    close(ray.MatrixTranspose(a), a.T)
    close(ray.MatrixToFloatV(a), a.T)
    close(ray.MatrixTrace(a), np.trace(a))
    close(ray.MatrixDeterminant(a), np.linalg.det(a), within=1e-4)
    close(ray.MatrixInvert(a), np.linalg.inv(a), within=1e-4)
    close(ray.QuaternionTransform(b[0], a), a @ b[0])
    close(ray.Vector3Transform(b[0, :3], a), (a @ [*b[0, :3], 1])[:3])
    close(ray.Vector2Transform(b[0, :2], a), (a @ [*b[0, :2], 0, 1])[:2])


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_matrix_is_taken_apart(ray: Raymath, mirrored: bool) -> None:
    q, scale, place = unit(random(4)), np.array([2.0, 0.5, 3.0]), random(3)
    scale = -scale if mirrored else scale
    matrix = np.diag([*scale, 1]) @ ray.QuaternionToMatrix(q)
    matrix[:3, 3] = place
    translation, rotation, scales = ray.MatrixDecompose(matrix)
    close(translation, place)
    close(scales, scale)
    close(abs(rotation @ q), 1)
    flat = np.diag([1.0, 0.0, 1.0, 1.0])
    assert ray.MatrixDecompose(flat)[1].tolist() == [0, 0, 0, 1]


def seen(matrix: np.ndarray, point: Any) -> np.ndarray:
    x, y, z, w = matrix @ [*point, 1]
    return np.array([x, y, z]) / w


def test_projections_map_their_corners_to_those_of_the_cube(ray: Raymath) -> None:
    left, right, bottom, top, near, far = -1.0, 3.0, -2.0, 1.0, 0.5, 10.0
    ortho = ray.MatrixOrtho(left, right, bottom, top, near, far)
    close(seen(ortho, [left, bottom, -near]), [-1, -1, -1])
    close(seen(ortho, [right, top, -far]), [1, 1, 1])
    frustum = ray.MatrixFrustum(left, right, bottom, top, near, far)
    close(seen(frustum, [left, bottom, -near]), [-1, -1, -1])
    close(seen(frustum, np.array([right, top, -near]) * far / near), [1, 1, 1])
    height = near * np.tan(0.4)
    close(
        ray.MatrixPerspective(0.8, 2, near, far),
        ray.MatrixFrustum(-2 * height, 2 * height, -height, height, near, far),
    )


def test_a_view_and_its_inverse(ray: Raymath) -> None:
    eye, target = random(2, 3)
    view = ray.MatrixLookAt(eye, target, [0, 1, 0])
    close(seen(view, eye), [0, 0, 0])
    close(seen(view, target), [0, 0, -np.linalg.norm(target - eye)])
    close(view[:3, :3] @ view[:3, :3].T, np.eye(3))
    assert (view @ [0, 1, 0, 0])[1] > 0 and np.linalg.det(view) > 0
    projection = ray.MatrixPerspective(0.8, 2, 0.5, 10)
    point = eye + 0.7 * (target - eye) + 0.1
    shown = seen(projection @ view, point)
    close(ray.Vector3Unproject(shown, projection, view), point, within=1e-3)


# ---- collisions and texts ------------------------------------------------------------------------


def test_lines_cross(ray: Raymath) -> None:
    across = [0, 0], [4, 4]
    assert ray.CheckCollisionLines(*across, [0, 2], [2, 0])[0]
    close(ray.CheckCollisionLines(*across, [0, 2], [2, 0])[1], [1, 1])
    assert not ray.CheckCollisionLines(*across, [0, 2], [0.5, 1.5])[0]
    assert not ray.CheckCollisionLines(*across, [1, 0], [5, 4])[0]  # Parallel.


def test_points_near_a_line(ray: Raymath) -> None:
    line = [10, 0], [0, 0]
    got = [ray.CheckCollisionPointLine(p, *line, 2) for p in ([5, 1], [5, 3], [-1, 0], [10, 0])]
    assert got == [True, False, False, True]


def test_points_in_polygons(ray: Raymath) -> None:
    """Also in one with a notch."""
    triangle = [0, 0], [4, 0], [0, 4]
    assert ray.CheckCollisionPointTriangle([1, 1], *triangle)
    assert not ray.CheckCollisionPointTriangle([3, 3], *triangle)
    notched = np.array([[0, 0], [4, 0], [4, 4], [2, 1], [0, 4]], np.float32)
    inside = [
        ray.CheckCollisionPointPoly(point, notched.ctypes.data, len(notched))
        for point in ([0.5, 2], [3.5, 2], [2, 0.5], [2, 2], [5, 1])
    ]
    assert inside == [True, True, True, False, False]


def test_circles_spheres_and_boxes(ray: Raymath) -> None:
    assert ray.CheckCollisionCircleLine([2, 1], 1, [0, 0], [4, 0])
    assert not ray.CheckCollisionCircleLine([5, 1], 1, [0, 0], [4, 0])  # Beyond its end.
    assert ray.CheckCollisionCircleLine([0, 0], 1, [1, 0], [1, 0])  # A point.
    box = [0, 0, 0, 2, 2, 2]
    assert ray.CheckCollisionBoxSphere(box, [3, 1, 1], 1)
    assert not ray.CheckCollisionBoxSphere(box, [3, 3, 1], 1)  # Beyond its edge.
    assert ray.GetCollisionRec([0, 0, 4, 4], [3, 2, 4, 1]).tolist() == [3, 2, 1, 1]
    assert ray.GetCollisionRec([0, 0, 4, 4], [4, 0, 4, 4]).tolist() == [0, 0, 0, 0]


def test_texts(ray: Raymath) -> None:
    assert ray.TextToUpper(b"aZ-9") == b"AZ-9" and ray.TextToLower(b"aZ-9") == b"az-9"
    assert ray.TextSubtext(b"puffer", 1, 3) == b"uff" and ray.TextSubtext(b"puffer", 4, 9) == b"er"
    assert (ray.TextFindIndex(b"puffer", b"ff"), ray.TextFindIndex(b"puffer", b"x")) == (2, -1)
    assert (ray.TextToInteger(b"-12"), ray.TextToFloat(b"1.5")) == (-12, 1.5)
    assert ray.GetFileName(b"a/b.c") == b"b.c" and ray.GetFileExtension(b"a.b/c") is None
    assert ray.IsFileExtension(b"a.PNG", b".gif;.png") and not ray.IsFileExtension(b"a", b".a")
