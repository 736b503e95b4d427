// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See conflicts.h.
//
// A way begins at a body's rear and follows the lane graph. Where lanes split, it takes the exit
// whose end is nearest to the body's goal, as the observation block `route` does: vehicles are
// assumed to signal their turns. Pedestrians, and bodies that are on no lane, are predicted to go
// straight ahead. A vehicle on another vehicle's way follows it; the two have no conflict.
//
// The right of way is decided by the first of these rules that distinguishes the two bodies:
//
//   a body in the shared area goes before one outside it
//   pedestrians go first on crosswalks, and last elsewhere
//   a body at a red light yields to all others, one at a stop or yield sign to those without; of
//   two bodies at signs the nearer one goes first
//   where ways merge, the lane that continues straight goes first; of two such lanes the one that
//   shifts less sideways
//   going straight has priority over a right turn, and a right turn over a left turn
//   a body that comes from the right goes first
//
// It is undecided for bodies on no lane, at lights of unknown colour, where two turns merge, and
// where directions hardly differ.
#include "drive/search/conflicts.h"

#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/lanes.h"
#include "drive/state.h"
#include "drive/turn.h"

#define WAY_M 80.0f        // how far ways reach ahead of a body's centre
#define AREA_M 2.0f        // from the point to the border of the shared area
#define OWN_REACH_M 4.0f   // an agent farther than this from all lanes is on no lane
#define OTHER_REACH_M 2.0f // the same for other bodies, which count as parked if they stand still
#define STANDS_MPS 0.5f
#define WALK_M 3.0f // a pedestrian is predicted to walk at least this far,
#define WALK_S 5.0f // or for this long
#define LEVEL_M 3.0f
#define PARALLEL 0.05f // sine of the least angle at which ways cross
#define JOINED_M 0.5f  // a crossing this close to a merge counts as the merge
#define NEAR_M 0.1f    // more than rounding
#define SLOWEST_MPS 0.1f
#define STRAIGHT_COSINE 0.8660254f // 30 degrees
#define SIDE_SINE 0.2588190f       // 15 degrees
#define NEARER_M 5.0f
#define SHIFT_BACK_M 40.0f // where the shift of a lane is measured, before its end
#define SHIFT_M 1.0f       // a smaller difference of shifts decides nothing

// ---- ways ----

static uint32_t rule_of(const drive_scene* scene, const pv_control* control, uint32_t frame) {
    const uint32_t last = control->state_count - 1;
    const uint8_t state = scene->states[control->states + (frame < last ? frame : last)];
    if (control->kind != PV_TRAFFIC_LIGHT)
        return DRIVE_RULE_SIGN;
    switch (state & PV_STATE_COLOUR) {
    case PV_STATE_RED: return state & PV_STATE_FLASHING ? DRIVE_RULE_SIGN : DRIVE_RULE_RED;
    case PV_STATE_YELLOW:
    case PV_STATE_GREEN: return DRIVE_RULE_GREEN;
    default: return DRIVE_RULE_UNKNOWN;
    }
}

// Returns the rule for traffic on a lane: the one of the lane's controls, else `rule`, the one of
// the lane before.
static uint32_t rule_on(const drive_turn* turn, uint32_t lane, uint32_t rule) {
    const drive_scene* scene = &turn->scene;
    const uint64_t count = scene->head->sections[DRIVE_SECTION_controls].count;
    uint32_t most = DRIVE_RULE_NONE;
    for (uint64_t i = 0; i < count; i++) {
        if (scene->controls[i].lane != lane)
            continue;
        const uint32_t its = rule_of(scene, &scene->controls[i], drive_log_frame(turn));
        most = its > most ? its : most;
    }
    return most != DRIVE_RULE_NONE ? most : rule;
}

// Computes a way that begins on lane segment s. (x, y): the body's rear.
static uint32_t follow_lanes(const drive_turn* turn,
                             uint32_t body,
                             uint32_t s,
                             float x,
                             float y,
                             float back,
                             drive_way_piece* out) {
    const drive_scene* scene = &turn->scene;
    const drive_bodies* bodies = &turn->scratch.bodies;
    const int32_t row = bodies->row[body];
    const pv_object* object = &scene->objects[bodies->object[body]];
    const float goal_x = row >= 0 ? turn->agents.goal_x[row] : object->goal_x_m,
                goal_y = row >= 0 ? turn->agents.goal_y[row] : object->goal_y_m;
    float at = -back,
          along = drive_clamp((x - scene->x[s]) * scene->ux[s] + (y - scene->y[s]) * scene->uy[s],
                              -scene->half[s], scene->half[s]);
    uint32_t count = 0, rule = DRIVE_RULE_NONE, lane = DRIVE_NO_SEGMENT;
    while (s != DRIVE_NO_SEGMENT && count < DRIVE_WAY_PIECES && at < WAY_M) {
        if (scene->polyline[s] != lane) {
            lane = scene->polyline[s];
            rule = rule_on(turn, lane, rule);
        }
        const float length = scene->half[s] - along;
        out[count++] = (drive_way_piece){.x = scene->x[s] + along * scene->ux[s],
                                         .y = scene->y[s] + along * scene->uy[s],
                                         .ux = scene->ux[s],
                                         .uy = scene->uy[s],
                                         .length = length,
                                         .at = at,
                                         .segment = s,
                                         .rule = rule};
        at += length;
        s = drive_lane_segment_towards(scene, s, goal_x, goal_y);
        if (s != DRIVE_NO_SEGMENT)
            along = -scene->half[s];
    }
    return count;
}

static uint32_t lay_out_way(const drive_turn* turn, uint32_t body, drive_way_piece* out) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    const uint8_t type = turn->scene.objects[bodies->object[body]].type;
    const float c = bodies->cosine[body], s = bodies->sine[body],
                back = bodies->half_length[body] + AREA_M, speed = bodies->speed[body];
    const float x = bodies->x[body] - back * c, y = bodies->y[body] - back * s;
    const int is_agent = bodies->row[body] >= 0;
    float reach = WAY_M;
    if (type == PV_PEDESTRIAN) {
        reach = drive_max(WALK_M, WALK_S * speed);
    } else {
        const uint32_t segment = drive_lane_segment_at(turn, x, y, c, s, bodies->ground[body],
                                                       is_agent ? OWN_REACH_M : OTHER_REACH_M);
        if (segment != DRIVE_NO_SEGMENT)
            return follow_lanes(turn, body, segment, x, y, back, out);
        if (!is_agent && speed < STANDS_MPS)
            return 0;
    }
    out[0] = (drive_way_piece){.x = x,
                               .y = y,
                               .ux = c,
                               .uy = s,
                               .length = back + reach,
                               .at = -back,
                               .segment = DRIVE_NO_SEGMENT,
                               .rule = DRIVE_RULE_NONE};
    return 1;
}

static const drive_way_piece* way_of(const drive_turn* turn, uint32_t body) {
    return turn->scratch.pieces + (uint64_t)body * DRIVE_WAY_PIECES;
}

// Computes the box around a way: low x and y, high x and y.
static void box_way(const drive_way_piece* way, uint32_t count, float* box) {
    box[0] = box[1] = __builtin_inff();
    box[2] = box[3] = -__builtin_inff();
    for (uint32_t i = 0; i < count; i++) {
        const float x = way[i].x + way[i].length * way[i].ux,
                    y = way[i].y + way[i].length * way[i].uy;
        box[0] = drive_min(box[0], drive_min(way[i].x, x));
        box[1] = drive_min(box[1], drive_min(way[i].y, y));
        box[2] = drive_max(box[2], drive_max(way[i].x, x));
        box[3] = drive_max(box[3], drive_max(way[i].y, y));
    }
}

static void lay_out(const drive_turn* turn, uint32_t body) {
    const drive_scratch* scratch = &turn->scratch;
    drive_way_piece* way = scratch->pieces + (uint64_t)body * DRIVE_WAY_PIECES;
    scratch->piece_count[body] = lay_out_way(turn, body, way);
    box_way(way, scratch->piece_count[body], scratch->way_box + 4 * (uint64_t)body);
}

void drive_lay_out_ways(const drive_turn* turn) {
    const drive_scratch* scratch = &turn->scratch;
    for (uint32_t row = turn->slot->row; row < turn->slot->row + turn->slot->count; row++)
        scratch->body_of[row] = DRIVE_NO_SEGMENT;
    for (uint32_t body = 0; body < scratch->bodies.count; body++) {
        lay_out(turn, body);
        if (scratch->bodies.row[body] >= 0)
            scratch->body_of[scratch->bodies.row[body]] = body;
    }
}

void drive_lay_out_way_of(const drive_turn* turn, uint32_t row) {
    const uint32_t body = turn->scratch.body_of[row];
    if (body != DRIVE_NO_SEGMENT)
        lay_out(turn, body);
}

// ---- conflicts ----

// Returns the index of a way's piece that lies on a lane segment, or DRIVE_WAY_PIECES.
static uint32_t piece_on(const drive_way_piece* way, uint32_t count, uint32_t segment) {
    for (uint32_t i = 0; segment != DRIVE_NO_SEGMENT && i < count; i++) {
        if (way[i].segment == segment)
            return i;
    }
    return DRIVE_WAY_PIECES;
}

// Computes where two pieces cross, in metres along each of them. Returns 0 if they do not cross.
static int pieces_cross(const drive_way_piece* a, const drive_way_piece* b, float* t, float* u) {
    const float sine = a->ux * b->uy - a->uy * b->ux, dx = b->x - a->x, dy = b->y - a->y;
    if (drive_abs(sine) < PARALLEL)
        return 0;
    *t = (dx * b->uy - dy * b->ux) / sine;
    *u = (dx * a->uy - dy * a->ux) / sine;
    return *t >= 0.0f && *t <= a->length && *u >= 0.0f && *u <= b->length;
}

// Returns whether a piece comes close to a way's box. A piece that stays away cannot cross that
// way.
PV_INLINE int piece_nears(const drive_way_piece* piece, const float* box) {
    const float x = piece->x + piece->length * piece->ux, y = piece->y + piece->length * piece->uy;
    return drive_max(piece->x, x) >= box[0] - NEAR_M && drive_min(piece->x, x) <= box[2] + NEAR_M &&
           drive_max(piece->y, y) >= box[1] - NEAR_M && drive_min(piece->y, y) <= box[3] + NEAR_M;
}

static float time_to(float distance, float speed) {
    if (distance <= 0.0f)
        return 0.0f;
    return speed > SLOWEST_MPS ? drive_min(distance / speed, DRIVE_MOST_CONFLICT_S)
                               : DRIVE_MOST_CONFLICT_S;
}

static void complete_conflict(const drive_turn* turn, drive_conflict* out) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    out->distance = out->own_at - bodies->half_length[out->own] - AREA_M;
    out->other_distance = out->other_at - bodies->half_length[out->other] - AREA_M;
    out->time = time_to(out->distance, bodies->speed[out->own]);
    out->other_time = time_to(out->other_distance, bodies->speed[out->other]);
}

// Finds the first conflict between two ways. Returns 0 if there is none.
static int find_conflict(const drive_turn* turn,
                         uint32_t own,
                         uint32_t other,
                         drive_conflict* out) {
    const drive_way_piece *a = way_of(turn, own), *b = way_of(turn, other);
    const uint32_t count = turn->scratch.piece_count[own],
                   other_count = turn->scratch.piece_count[other];
    uint32_t i = 0, j = DRIVE_WAY_PIECES;
    if (!count || !other_count || piece_on(b, other_count, a[0].segment) < DRIVE_WAY_PIECES ||
        piece_on(a, count, b[0].segment) < DRIVE_WAY_PIECES)
        return 0; // one of them follows the other
    for (; i < count && j == DRIVE_WAY_PIECES; i++)
        j = piece_on(b, other_count, a[i].segment);
    const float* box = turn->scratch.way_box + 4 * (uint64_t)other;
    const int joins = j < DRIVE_WAY_PIECES;
    const float before = joins ? a[i - 1].at - JOINED_M : __builtin_inff();
    *out = (drive_conflict){.own = own, .other = other, .joins = (uint32_t)joins};
    if (joins) { // at the start of piece i - 1, which is not the first one, and neither is j
        out->own_piece = i - 2, out->other_piece = j - 1;
        out->own_at = a[i - 1].at, out->other_at = b[j].at;
        out->x = a[i - 1].x, out->y = a[i - 1].y;
    }
    for (uint32_t p = 0; p < count && a[p].at < before; p++) {
        if (!piece_nears(&a[p], box))
            continue;
        for (uint32_t q = 0; q < other_count; q++) {
            float t, u;
            if (!pieces_cross(&a[p], &b[q], &t, &u) || a[p].at + t >= before)
                continue;
            out->own_piece = p, out->other_piece = q;
            out->own_at = a[p].at + t, out->other_at = b[q].at + u;
            out->x = a[p].x + t * a[p].ux, out->y = a[p].y + t * a[p].uy;
            out->joins = 0;
            complete_conflict(turn, out);
            return 1;
        }
    }
    if (joins)
        complete_conflict(turn, out);
    return joins;
}

// Returns whether two ways come close to each other.
static int may_meet(const drive_turn* turn, uint32_t own, uint32_t other) {
    const float *a = turn->scratch.way_box + 4 * (uint64_t)own,
                *b = turn->scratch.way_box + 4 * (uint64_t)other;
    const float* ground = turn->scratch.bodies.ground;
    if (a[0] > b[2] || b[0] > a[2] || a[1] > b[3] || b[1] > a[3])
        return 0;
    return !drive_has_levels(&turn->scene) || drive_abs(ground[own] - ground[other]) <= LEVEL_M;
}

uint32_t drive_find_conflicts(const drive_turn* turn,
                              uint32_t row,
                              uint32_t k,
                              drive_conflict* out) {
    const uint32_t own = turn->scratch.body_of[row];
    uint32_t count = 0;
    if (own == DRIVE_NO_SEGMENT || turn->agents.flags[row] & DRIVE_ALONE)
        return 0;
    for (uint32_t other = 0; other < turn->scratch.bodies.count; other++) {
        drive_conflict found;
        if (other == own || !may_meet(turn, own, other) || !find_conflict(turn, own, other, &found))
            continue;
        if (count == k && found.distance >= out[k - 1].distance)
            continue;
        uint32_t rank = count < k ? count++ : k - 1;
        for (; rank && out[rank - 1].distance > found.distance; rank--)
            out[rank] = out[rank - 1];
        out[rank] = found;
    }
    return count;
}

// ---- right of way ----

static int on_crosswalk(const drive_scene* scene, float x, float y) {
    const uint64_t count = scene->head->sections[DRIVE_SECTION_areas].count;
    for (uint64_t i = 0; i < count; i++) {
        const pv_area* area = &scene->areas[i];
        const float *px = scene->points_x + area->first, *py = scene->points_y + area->first;
        int inside = 0;
        if (area->kind != PV_CROSSWALK)
            continue;
        for (uint32_t n = 0, m = area->count - 1; n < area->count; m = n++) {
            if ((py[n] > y) != (py[m] > y) &&
                x < (px[m] - px[n]) * (y - py[n]) / (py[m] - py[n]) + px[n])
                inside = !inside;
        }
        if (inside)
            return 1;
    }
    return 0;
}

// Returns 2 for a lane that continues straight, 1 for a right turn, 0 for a left turn.
static int rank_of(const drive_scene* scene, uint32_t segment) {
    const pv_lane* lane = &scene->lanes[scene->polyline[segment]];
    const uint32_t first = lane->first_segment, last = first + lane->segment_count - 1;
    const float cosine = scene->ux[first] * scene->ux[last] + scene->uy[first] * scene->uy[last],
                sine = scene->ux[first] * scene->uy[last] - scene->uy[first] * scene->ux[last];
    return cosine >= STRAIGHT_COSINE ? 2 : sine < 0.0f ? 1 : 0;
}

// Returns how far a lane shifts sideways on its last metres: its distance there from the straight
// line through the segment on which it ends.
static float shift_of(const drive_scene* scene, uint32_t segment, const drive_way_piece* joined) {
    const pv_lane* lane = &scene->lanes[scene->polyline[segment]];
    uint32_t s = lane->first_segment + lane->segment_count - 1;
    float back = SHIFT_BACK_M;
    while (s > lane->first_segment && back > 2.0f * scene->half[s])
        back -= 2.0f * scene->half[s--];
    const float along = drive_max(-scene->half[s], scene->half[s] - back);
    const float dx = scene->x[s] + along * scene->ux[s] - joined->x,
                dy = scene->y[s] + along * scene->uy[s] - joined->y;
    return drive_abs(dx * joined->uy - dy * joined->ux);
}

static int goes_first_where_they_join(const drive_turn* turn,
                                      const drive_conflict* conflict,
                                      int rank,
                                      int other_rank) {
    const drive_way_piece *a = way_of(turn, conflict->own), *b = way_of(turn, conflict->other);
    if ((rank == 2) != (other_rank == 2))
        return rank == 2 ? 1 : -1;
    if (rank != 2)
        return 0;
    const drive_way_piece* joined = &a[conflict->own_piece + 1];
    const float more = shift_of(&turn->scene, b[conflict->other_piece].segment, joined) -
                       shift_of(&turn->scene, a[conflict->own_piece].segment, joined);
    return more > SHIFT_M ? 1 : more < -SHIFT_M ? -1 : 0;
}

// Returns 1 if lights and signs give the agent the right of way, -1 if the other body, else 0.
static int goes_first_by_rules(const drive_conflict* conflict, uint32_t rule, uint32_t other_rule) {
    for (uint32_t waits = DRIVE_RULE_RED; waits >= DRIVE_RULE_SIGN; waits--) {
        if ((rule == waits) != (other_rule == waits))
            return rule == waits ? -1 : 1;
    }
    const float nearer = conflict->other_distance - conflict->distance;
    if (rule == DRIVE_RULE_SIGN && drive_abs(nearer) > NEARER_M)
        return nearer > 0.0f ? 1 : -1;
    return 0;
}

int drive_has_passed(const drive_turn* turn, const drive_conflict* conflict) {
    const float rear = turn->scratch.bodies.half_length[conflict->other];
    return conflict->other_at < (conflict->joins ? 0.0f : -rear);
}

int drive_goes_first(const drive_turn* turn, const drive_conflict* conflict, int entering) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    const drive_scene* scene = &turn->scene;
    const drive_way_piece *a = &way_of(turn, conflict->own)[conflict->own_piece],
                          *b = &way_of(turn, conflict->other)[conflict->other_piece];
    const int inside = conflict->distance <= 0.0f && !entering,
              other_inside = conflict->other_distance <= 0.0f;
    const int walks = scene->objects[bodies->object[conflict->own]].type == PV_PEDESTRIAN,
              other_walks = scene->objects[bodies->object[conflict->other]].type == PV_PEDESTRIAN;
    if (inside != other_inside)
        return inside ? 1 : -1;
    if (walks != other_walks)
        return walks == on_crosswalk(scene, conflict->x, conflict->y) ? 1 : -1;
    if (a->segment == DRIVE_NO_SEGMENT || b->segment == DRIVE_NO_SEGMENT ||
        a->rule == DRIVE_RULE_UNKNOWN || b->rule == DRIVE_RULE_UNKNOWN)
        return 0;
    const int by_rules = goes_first_by_rules(conflict, a->rule, b->rule);
    if (by_rules)
        return by_rules;
    const int rank = rank_of(scene, a->segment), other_rank = rank_of(scene, b->segment);
    if (conflict->joins)
        return goes_first_where_they_join(turn, conflict, rank, other_rank);
    if (rank != other_rank)
        return rank > other_rank ? 1 : -1;
    const float sine = a->ux * b->uy - a->uy * b->ux; // positive: the other comes from the right
    return sine > SIDE_SINE ? -1 : sine < -SIDE_SINE ? 1 : 0;
}
