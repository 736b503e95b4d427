// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See simplify.h. The method is that of Douglas and Peucker 1973, written as a loop; its slow twin
// is tests/twins/drive_simplify.py. All sums keep the order of the twin's, so both choose the same
// points. Distances are compared by their squares: nothing depends on the C library.
#include "drive/compile/simplify.h"

#include <stdlib.h>
#include <string.h>

#define JOIN_M 1e-3  // a point closer to its predecessor counts as the same
#define HEIGHT_M 0.2 // largest deviation of the height
#define MOST_LOOKS \
    20000000 // distances computed per polyline, and as many more per point; roads need about 15 per
             // point
#define MOST_LOOKS_PER_POINT 200

typedef struct stretch {
    uint64_t first, last;
} stretch;

// The polyline that is being simplified.
typedef struct polyline {
    uint32_t axes;
    uint64_t count;   // of its points, without repeated ones
    uint64_t corners; // of these that are kept
    double tolerance_m;
    double* points;            // (count, axes)
    uint64_t* corner;          // (corners,) indices of the kept points, ascending
    stretch* pending;          // (count,) work space of find_corners
    double* solved;            // (corners, axes) the fitted points
    double *diagonal, *beside; // (corners,) the matrix of the fit
} polyline;

static double square(double v) {
    return v * v;
}

// Returns whether a point lies within a distance of another.
static int is_within(const double* point, double x, double y, double distance_m) {
    return square(point[0] - x) + square(point[1] - y) <= square(distance_m);
}

// Drops points that coincide with the previous one kept; `out` may be `points`. Returns how many
// are left.
static uint64_t distinct(const double* points, uint64_t count, uint32_t axes, double* out) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double *point = points + i * axes, *before = out + (kept ? kept - 1 : 0) * axes;
        if (kept && is_within(point, before[0], before[1], JOIN_M))
            continue;
        memmove(out + kept++ * axes, point, axes * sizeof(double));
    }
    return kept;
}

// Returns the point between two others that is farthest from the straight line between them, the
// first of several; `first` if none is farther than the tolerance. Heights count too, scaled so
// that HEIGHT_M equals the tolerance.
static uint64_t farthest(const polyline* line, uint64_t first, uint64_t last) {
    uint32_t axes = line->axes;
    const double *from = line->points + first * axes, *to = line->points + last * axes;
    double dx = to[0] - from[0], dy = to[1] - from[1], dz = axes > 2 ? to[2] - from[2] : 0.0;
    double length2 = dx * dx + dy * dy, most = square(line->tolerance_m);
    double scale = (line->tolerance_m > JOIN_M ? line->tolerance_m : JOIN_M) / HEIGHT_M;
    uint64_t worst = first;
    for (uint64_t i = first + 1; i < last; i++) {
        const double* point = line->points + i * axes;
        double x = point[0] - from[0], y = point[1] - from[1];
        double share = length2 > 0.0 ? (x * dx + y * dy) / length2 : 0.0;
        share = share < 1.0 ? share : 1.0;
        share = share > 0.0 ? share : 0.0;
        double distance = square(x - share * dx) + square(y - share * dy);
        double rise = axes > 2 ? square(((point[2] - from[2]) - share * dz) * scale) : 0.0;
        distance = rise > distance ? rise : distance;
        if (distance > most)
            most = distance, worst = i;
    }
    return worst;
}

// Determines which of at least two points a simplified polyline keeps. Returns 0 if the time would
// grow with the square of their number.
static int find_corners(polyline* line, uint8_t* keep) {
    uint64_t depth = 0, looks = 0, last = line->count - 1;
    memset(keep, 0, line->count);
    keep[0] = keep[last] = 1;
    line->pending[depth++] = (stretch){0, last};
    while (depth) {
        stretch at = line->pending[--depth];
        if (at.last - at.first < 2)
            continue;
        looks += at.last - at.first;
        if (looks > MOST_LOOKS + MOST_LOOKS_PER_POINT * line->count)
            return 0;
        uint64_t middle = farthest(line, at.first, at.last);
        if (middle == at.first)
            continue;
        keep[middle] = 1;
        line->pending[depth++] = (stretch){at.first, middle};
        line->pending[depth++] = (stretch){middle, at.last};
    }
    line->corners = 0;
    for (uint64_t i = 0; i < line->count; i++) {
        if (keep[i])
            line->corner[line->corners++] = i;
    }
    return 1;
}

// Returns the piece of the simplified line that a point is on, at least `piece`: pieces ascend with
// the points.
static uint64_t piece_of(const polyline* line, uint64_t point, uint64_t piece) {
    while (piece + 2 < line->corners && point >= line->corner[piece + 1])
        piece++;
    return piece;
}

// Returns how far along the piece from a to b the foot of a point lies, 0 to 1.
static double share_of(const double* point, const double* a, const double* b) {
    double x = b[0] - a[0], y = b[1] - a[1], length2 = x * x + y * y;
    double share = ((point[0] - a[0]) * x + (point[1] - a[1]) * y) /
                   (length2 > JOIN_M * JOIN_M ? length2 : JOIN_M * JOIN_M);
    share = share > 0.0 ? share : 0.0;
    return share < 1.0 ? share : 1.0;
}

// Adds the normal equations of the fit into diagonal, beside and solved; `ends` (corners, 1 + axes)
// is work space for the sums over the pieces that end at a corner.
static void add_equations(polyline* line, double* ends) {
    uint32_t axes = line->axes;
    uint64_t n = line->corners, piece = 0;
    memset(line->diagonal, 0, n * sizeof(double));
    memset(line->beside, 0, n * sizeof(double));
    memset(line->solved, 0, n * axes * sizeof(double));
    memset(ends, 0, n * (1 + axes) * sizeof(double));
    for (uint64_t i = 0; i < line->count; i++) {
        piece = piece_of(line, i, piece);
        const double* point = line->points + i * axes;
        double after = share_of(point, line->points + line->corner[piece] * axes,
                                line->points + line->corner[piece + 1] * axes);
        double before = 1.0 - after, *end = ends + (piece + 1) * (1 + axes);
        line->diagonal[piece] += before * before;
        line->beside[piece] += before * after;
        end[0] += after * after;
        for (uint32_t a = 0; a < axes; a++) {
            line->solved[piece * axes + a] += before * point[a];
            end[1 + a] += after * point[a];
        }
    }
    for (uint64_t c = 0; c < n; c++) {
        const double *end = ends + c * (1 + axes), *corner = line->points + line->corner[c] * axes;
        line->diagonal[c] = (line->diagonal[c] + end[0]) + JOIN_M * JOIN_M;
        for (uint32_t a = 0; a < axes; a++) {
            line->solved[c * axes + a] =
                (line->solved[c * axes + a] + end[1 + a]) + JOIN_M * JOIN_M * corner[a];
        }
    }
}

// Solves the equations, whose matrix is tridiagonal, symmetric and positive definite, with the
// first and the last point fixed: elimination from the second row on, then back substitution.
static void solve(polyline* line) {
    uint32_t axes = line->axes;
    uint64_t n = line->corners;
    double* solved = line->solved;
    memcpy(solved, line->points, axes * sizeof(double));
    memcpy(solved + (n - 1) * axes, line->points + line->corner[n - 1] * axes,
           axes * sizeof(double));
    for (uint64_t c = 1; c + 1 < n; c++) {
        double factor = c > 1 ? line->beside[c - 1] / line->diagonal[c - 1] : line->beside[0];
        if (c > 1)
            line->diagonal[c] -= factor * line->beside[c - 1];
        for (uint32_t a = 0; a < axes; a++)
            solved[c * axes + a] -= factor * solved[(c - 1) * axes + a];
    }
    for (uint64_t c = n - 2; c > 0; c--) {
        for (uint32_t a = 0; a < axes; a++) {
            double next = line->beside[c] * solved[(c + 1) * axes + a];
            solved[c * axes + a] = (solved[c * axes + a] - next) / line->diagonal[c];
        }
    }
}

// Returns whether the fitted points and the line through them keep to the tolerance.
static int fit_holds(const polyline* line) {
    uint32_t axes = line->axes;
    uint64_t piece = 0;
    for (uint64_t c = 0; c < line->corners; c++) {
        const double *moved = line->solved + c * axes,
                     *corner = line->points + line->corner[c] * axes;
        if (!is_within(moved, corner[0], corner[1], line->tolerance_m))
            return 0;
    }
    for (uint64_t i = 0; i < line->count; i++) {
        piece = piece_of(line, i, piece);
        const double *point = line->points + i * axes, *a = line->solved + piece * axes,
                     *b = a + axes;
        double share = share_of(point, a, b);
        double x = a[0] + share * (b[0] - a[0]), y = a[1] + share * (b[1] - a[1]);
        if (!is_within(point, x, y, line->tolerance_m))
            return 0;
    }
    return 1;
}

// Writes the points kept of one line and returns how many there are.
static uint64_t write_line(polyline* line, int fitted, double* ends, double* out) {
    uint32_t axes = line->axes;
    for (uint64_t c = 0; c < line->corners; c++) {
        memcpy(out + c * axes, line->points + line->corner[c] * axes, axes * sizeof(double));
    }
    uint64_t kept = distinct(out, line->corners, axes, out);
    if (!fitted || kept < 3 || kept < line->corners)
        return kept;
    add_equations(line, ends);
    solve(line);
    if (fit_holds(line))
        memcpy(out, line->solved, kept * axes * sizeof(double));
    return kept;
}

int64_t pv_drive_simplify(const double* points,
                          uint32_t axes,
                          const uint64_t* sizes,
                          uint32_t lines,
                          const double* tolerance_m,
                          const uint8_t* fitted,
                          double* out,
                          uint64_t* kept) {
    uint64_t most = 1, total = 0;
    int64_t crooked = -1;
    for (uint32_t i = 0; i < lines; i++)
        most = sizes[i] > most ? sizes[i] : most;
    // points, the fitted ones, two diagonals, sums at the ends of pieces
    double* numbers = malloc(most * (3 * axes + 3) * sizeof(double));
    uint64_t* corner = malloc(most * sizeof(uint64_t));
    stretch* pending = malloc((most + 1) * sizeof(stretch));
    uint8_t* keep = malloc(most);
    int ok = numbers && corner && pending && keep;
    polyline line = {.axes = axes, .points = numbers, .corner = corner, .pending = pending};
    if (ok)
        line.solved = numbers + most * axes, line.diagonal = line.solved + most * axes,
        line.beside = line.diagonal + most;
    for (uint32_t i = 0; ok && crooked < 0 && i < lines; points += sizes[i++] * axes) {
        line.count = distinct(points, sizes[i], axes, line.points);
        line.tolerance_m = tolerance_m[i];
        double* place = out + total * axes;
        kept[i] = line.count;
        if (line.count < 3) {
            memcpy(place, line.points, line.count * axes * sizeof(double));
        } else if (find_corners(&line, keep)) {
            kept[i] = write_line(&line, fitted[i], line.beside + most, place);
        } else {
            crooked = (int64_t)i;
        }
        total += kept[i];
    }
    free(numbers);
    free(corner);
    free(pending);
    free(keep);
    return !ok ? INT64_MIN : crooked >= 0 ? -1 - crooked : (int64_t)total;
}
