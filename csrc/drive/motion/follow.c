// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Followers: vehicles that drive by the intelligent driver model: those that are no agents (setting
// others=idm), agents whose actions it takes the place of (idm_agents), or agents that are traffic
// for an episode (traffic_idm): then all that may be are followers, and those that are not stay
// GONE. Treiber, Hennecke, Helbing, "Congested traffic states in empirical observations and
// microscopic simulations", Phys. Rev. E 62 (2000), eqs. 2 and 3, for a car of speed v that wants
// v0, at a gap s behind a leader that it nears with dv:
//
//     dv/dt = a (1 - (v / v0)^4 - (s* / s)^2)        s* = s0 + max(0, v T + v dv / (2 sqrt(a b)))
//
// A follower drives along a path: the points of its log, then the lane that it is on when the log
// ends, and on along the lane graph. It comes with its log, and is gone where the path ends. Its
// leader is the nearest body on the path within its width; a red light, and a stop sign that it has
// not stopped at, are leaders that stand. All followers look at the scene as it was before the
// step, then all move, so their order does not matter.
//
//     path:  from ----along----> car . . . . end      a straight piece; its end is the point of the
//     log, or the end of the lane
//                                                     segment, that `to` names
#include "drive/scalar.h"
#include "drive/state.h"

#define POINT_M \
    0.5f // points of the log that are nearer to the one before are left out: positions of standing
         // cars tremble
#define MOVES_M 2.0f      // a car whose log is shorter stays parked
#define JOIN_M 3.0f       // farther from the end of its log no lane is the car's own
#define LOOK_M 10.0f      // how far a follower looks ahead,
#define LOOK_S 4.0f       // ... and for each m/s of its speed
#define MOST_PIECES 256   // of the path that it looks at
#define HARDEST_MPS2 8.0f // limit of its braking
#define LEAST_GAP_M 0.1f  // at smaller gaps it brakes as hard as at this one
#define PASSED_M 0.5f     // a line that lies farther behind the front bumper is not stopped at
#define SAME_WAY 0.5f     // 60 degrees: a stop line holds for traffic in its direction
#define LEVEL_M 2.5f      // what is higher above or deeper below is on another level,
#define SIGN_LEVEL_M 6.0f // ... of what hangs over the road
#define STOPPED_MPS 0.5f  // slower than this ...
#define STOPPED_M \
    1.5f // ... and no farther than this from where it would stand, a car has stopped at a sign

// A place on a path.
typedef struct place {
    uint32_t phase, to;
    float x, y, heading; // where the piece starts
} place;

typedef struct piece {
    float ux, uy, length;   // direction from the start to the end
    float x1, y1, heading1; // the end
    float ground1;          // m
} piece;

static const pv_object* object_of(const drive_turn* turn, uint32_t k) {
    return &turn->scene.objects[turn->followers.object[turn->slot->follower + k]];
}

static const pv_frame* first_frame(const drive_scene* scene,
                                   const pv_object* object,
                                   uint32_t from,
                                   uint32_t* at) {
    const uint32_t end = (uint32_t)object->frame_first + object->frame_count;
    for (*at = from > object->frame_first ? from : object->frame_first; *at < end; ++*at) {
        const pv_frame* frame = drive_frame(scene, object, *at);
        if (frame)
            return frame;
    }
    return NULL;
}

static int others_follow(const pv_drive_config* config) {
    return config->others == DRIVE_IS_others_idm;
}

static int agents_follow(const pv_drive_config* config) {
    return config->idm_agents || config->traffic_idm > 0.0f;
}

static int has_followers(const pv_drive_config* config) {
    return others_follow(config) || agents_follow(config);
}

int drive_is_follower(const pv_context* context,
                      const drive_scene* scene,
                      const pv_object* object) {
    const pv_drive_config* config = drive_config_of(context);
    uint32_t at, last = (uint32_t)object->frame_first + object->frame_count;
    if (object->type != PV_VEHICLE || !has_followers(config))
        return 0;
    if (drive_object_controlled(context, scene, object) ? !agents_follow(config)
                                                        : !others_follow(config))
        return 0;
    const pv_frame* first = first_frame(scene, object, (uint32_t)config->init_step, &at);
    if (!first)
        return 0;
    const pv_frame* end = first;
    while (last-- > at && !(end = drive_frame(scene, object, last))) {}
    float dx = end->x_m - first->x_m, dy = end->y_m - first->y_m;
    return dx * dx + dy * dy >= MOVES_M * MOVES_M;
}

uint32_t drive_scene_followers(const pv_context* context, uint32_t scene_index) {
    drive_scene scene;
    uint32_t count = 0;
    if (!has_followers(drive_config_of(context)))
        return 0;
    drive_scene_open(context->data, scene_index, &scene);
    for (uint32_t o = 0; o < scene.head->object_count; o++)
        count += (uint32_t)drive_is_follower(context, &scene, &scene.objects[o]);
    return count;
}

// ---- paths ----

// The next point of the log after frame `at`, at least POINT_M from (x, y); the frame count where
// there is none.
static uint32_t next_point(
    const drive_scene* scene, const pv_object* object, uint32_t at, float x, float y) {
    const uint32_t end = (uint32_t)object->frame_first + object->frame_count;
    while (++at < end) {
        const pv_frame* frame = drive_frame(scene, object, at);
        if (!frame)
            continue;
        float dx = frame->x_m - x, dy = frame->y_m - y;
        if (dx * dx + dy * dy >= POINT_M * POINT_M)
            return at;
    }
    return end;
}

static uint32_t segment_after(const drive_turn* turn, uint32_t k, uint32_t segment) {
    const uint32_t slot = (uint32_t)(turn->slot - turn->slots),
                   start = turn->state->step - turn->slot->clock;
    const uint32_t step =
        0x80000000u | (slot & 0x7FF) << 20 | (start & 0xFFFFF); // of no other draw
    return drive_lane_segment_after(turn, segment, step,
                                    turn->followers.object[turn->slot->follower + k] << 16);
}

static piece piece_of(const drive_turn* turn, uint32_t k, const place* at) {
    const drive_scene* scene = &turn->scene;
    piece out;
    if (at->phase == DRIVE_FOLLOWS_LOG) {
        const pv_frame* frame = drive_frame(scene, object_of(turn, k), at->to);
        out.x1 = frame->x_m;
        out.y1 = frame->y_m;
        out.heading1 = (float)frame->heading * HEADING_UNIT;
        out.ground1 = frame->z_m - 0.5f * object_of(turn, k)->height_m;
    } else {
        const uint32_t s = at->to;
        out.x1 = scene->x[s] + scene->half[s] * scene->ux[s];
        out.y1 = scene->y[s] + scene->half[s] * scene->uy[s];
        out.heading1 = drive_angle(scene->ux[s], scene->uy[s]);
        out.ground1 = scene->z[s] + scene->half[s] * scene->slope[s];
    }
    float dx = out.x1 - at->x, dy = out.y1 - at->y;
    out.length = drive_sqrt(dx * dx + dy * dy);
    float inverse = out.length > 0.0f ? 1.0f / out.length : 0.0f;
    out.ux = dx * inverse;
    out.uy = dy * inverse;
    return out;
}

// Goes on to the next piece. Returns 0 where the path ends.
static int next_piece(const drive_turn* turn, uint32_t k, place* at, const piece* done) {
    at->x = done->x1;
    at->y = done->y1;
    at->heading = done->heading1;
    if (at->phase == DRIVE_FOLLOWS_LANE) {
        at->to = segment_after(turn, k, at->to);
        return at->to != DRIVE_NO_SEGMENT;
    }
    const pv_object* object = object_of(turn, k);
    at->to = next_point(&turn->scene, object, at->to, at->x, at->y);
    if (at->to < (uint32_t)object->frame_first + object->frame_count)
        return 1;
    at->phase = DRIVE_FOLLOWS_LANE;
    at->to = turn->followers.join[turn->slot->follower + k];
    return at->to != DRIVE_NO_SEGMENT;
}

static place place_of(const drive_turn* turn, uint32_t k) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    return (place){all->phase[f], all->to[f], all->from_x[f], all->from_y[f], all->from_heading[f]};
}

static void keep_place(const drive_turn* turn, uint32_t k, const place* at) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    all->phase[f] = at->phase;
    all->to[f] = at->to;
    all->from_x[f] = at->x;
    all->from_y[f] = at->y;
    all->from_heading[f] = at->heading;
}

int drive_follower_there(const drive_turn* turn, uint32_t k) {
    const uint32_t phase = turn->followers.phase[turn->slot->follower + k];
    return phase == DRIVE_FOLLOWS_LOG || phase == DRIVE_FOLLOWS_LANE;
}

drive_follower drive_follower_now(const drive_turn* turn, uint32_t k) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    const place at = place_of(turn, k);
    const piece now = piece_of(turn, k, &at);
    const float share = now.length > 0.0f ? drive_min(all->along[f] / now.length, 1.0f) : 0.0f;
    const float heading = drive_wrap(at.heading + share * drive_wrap(now.heading1 - at.heading));
    float sine, cosine;
    pv_sincos(heading, &sine, &cosine);
    const float speed = now.ux * cosine + now.uy * sine < 0.0f
                            ? -all->speed[f]
                            : all->speed[f]; // its log may lead backward
    return (drive_follower){at.x + share * (now.x1 - at.x), at.y + share * (now.y1 - at.y), heading,
                            speed, now.ground1};
}

// ---- start ----

// The lane segment that the path goes on with where the log ends.
static uint32_t join_of(const drive_turn* turn, uint32_t k, uint32_t first) {
    const drive_scene* scene = &turn->scene;
    const pv_object* object = object_of(turn, k);
    const pv_frame* frame = drive_frame(scene, object, first);
    for (uint32_t next; (next = next_point(scene, object, first, frame->x_m, frame->y_m)) <
                        (uint32_t)object->frame_first + object->frame_count;
         first = next)
        frame = drive_frame(scene, object, next);
    const float ground = frame->z_m - 0.5f * object->height_m;
    float sine, cosine;
    pv_sincos((float)frame->heading * HEADING_UNIT, &sine, &cosine);
    uint32_t s = drive_lane_segment_at(turn, frame->x_m, frame->y_m, cosine, sine, ground, JOIN_M);
    if (s == DRIVE_NO_SEGMENT)
        return s;
    float at =
        (frame->x_m - scene->x[s]) * scene->ux[s] + (frame->y_m - scene->y[s]) * scene->uy[s];
    return at > scene->half[s] - POINT_M ? segment_after(turn, k, s) : s;
}

// The car appears in a frame of its log.
static void enter(const drive_turn* turn, uint32_t k, const pv_frame* frame, uint32_t at) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    const piece start = {
        .x1 = frame->x_m, .y1 = frame->y_m, .heading1 = (float)frame->heading * HEADING_UNIT};
    place here = {.phase = DRIVE_FOLLOWS_LOG, .to = at};
    if (!next_piece(turn, k, &here, &start))
        here.phase = DRIVE_FOLLOWER_GONE, here.to = 0;
    keep_place(turn, k, &here);
    all->along[f] = 0.0f;
    all->speed[f] = drive_abs((float)frame->speed * SPEED_UNIT);
    all->served[f] = 0;
}

static float largest_speed(const drive_scene* scene, const pv_object* object, uint32_t from) {
    float most = 1.0f;
    for (uint32_t t = from; t < (uint32_t)object->frame_first + object->frame_count; t++) {
        const pv_frame* frame = drive_frame(scene, object, t);
        if (frame)
            most = drive_max(most, drive_abs((float)frame->speed * SPEED_UNIT));
    }
    return most;
}

static void enter_if_due(const drive_turn* turn, uint32_t k, uint32_t frame_now) {
    uint32_t at;
    if (turn->followers.phase[turn->slot->follower + k] != DRIVE_FOLLOWER_WAITS)
        return;
    const pv_frame* frame =
        first_frame(&turn->scene, object_of(turn, k), (uint32_t)turn->config->init_step, &at);
    if (frame && at == frame_now)
        enter(turn, k, frame, at);
}

void drive_followers_prepare(const drive_turn* turn) {
    const drive_followers* all = &turn->followers;
    for (uint32_t o = 0, k = 0;
         o < turn->scene.head->object_count && k < turn->slot->follower_count; o++) {
        const pv_object* object = &turn->scene.objects[o];
        if (!drive_is_follower(turn->block->context, &turn->scene, object))
            continue;
        const uint32_t f = turn->slot->follower + k;
        uint32_t first;
        first_frame(&turn->scene, object, (uint32_t)turn->config->init_step, &first);
        all->object[f] = o;
        all->wanted[f] = turn->config->idm_speed_mps > 0.0f
                             ? turn->config->idm_speed_mps
                             : largest_speed(&turn->scene, object, first);
        all->join[f] = join_of(turn, k++, first);
    }
}

// True if IDM is not to drive the agent in this episode.
static int is_anothers(const drive_turn* turn, uint32_t row) {
    const uint32_t flags = turn->agents.flags[row];
    return flags & DRIVE_TRAFFIC ? !(flags & DRIVE_BY_IDM) : !turn->config->idm_agents;
}

void drive_followers_start(const drive_turn* turn) {
    const drive_followers* all = &turn->followers;
    const uint32_t* object = turn->agents.object; // ascending, as those of followers
    uint32_t row = turn->slot->row, end = row + turn->slot->count;
    drive_followers_prepare(turn);
    for (uint32_t k = 0; k < turn->slot->follower_count; k++) {
        const uint32_t f = turn->slot->follower + k;
#define CLEAR(type, code, name, unit, low, high) all->name[f] = 0;
        DRIVE_FOLLOWER_FIELDS(CLEAR)
#undef CLEAR
        while (row < end && object[row] < all->object[f])
            row++;
        if (row < end && object[row] == all->object[f] && is_anothers(turn, row))
            all->phase[f] = DRIVE_FOLLOWER_GONE;
        else
            enter_if_due(turn, k, drive_log_frame(turn));
    }
}

// ---- what is ahead ----

// The nearest thing ahead.
typedef struct leader {
    float gap, speed; // m from the front bumper; m/s along the path
} leader;

// A follower that looks ahead.
typedef struct driver {
    const drive_turn* turn;
    uint32_t k, object;
    float x, y, ground, half_length, half_width, speed;
    float look; // m
    float base; // m from its centre to the start of the piece at hand
} driver;

static void look_at_bodies(const driver* me, const place* at, const piece* now, leader* nearest) {
    const drive_bodies* bodies = &me->turn->scratch.bodies;
    for (uint32_t b = 0; b < bodies->count; b++) {
        float dx = bodies->x[b] - at->x, dy = bodies->y[b] - at->y;
        float p = dx * now->ux + dy * now->uy, reach = bodies->radius[b];
        if (p + reach < 0.0f || p - reach > now->length || me->base + p <= 0.0f)
            continue;
        float aside = drive_abs(dy * now->ux - dx * now->uy);
        if (drive_has_levels(&me->turn->scene) &&
            drive_abs(bodies->ground[b] - me->ground) > LEVEL_M)
            continue;
        if (aside >= me->half_width + reach || bodies->object[b] == me->object)
            continue;
        float along = bodies->cosine[b] * now->ux + bodies->sine[b] * now->uy;
        float c = drive_abs(along),
              s = drive_abs(bodies->sine[b] * now->ux - bodies->cosine[b] * now->uy);
        float ahead = bodies->half_length[b] * c + bodies->half_width[b] * s;
        float across = bodies->half_length[b] * s + bodies->half_width[b] * c;
        if (aside >= me->half_width + across || p + ahead < 0.0f || p - ahead > now->length)
            continue;
        float gap = me->base + p - ahead - me->half_length;
        if (gap < nearest->gap)
            *nearest = (leader){gap, bodies->speed[b] * along};
    }
}

// True if traffic has to stop at the line `gap` ahead, in the frame at hand. A flashing red light
// is a stop sign.
static int has_to_stop(const driver* me, uint32_t c, float gap) {
    const drive_turn* turn = me->turn;
    const pv_control* control = &turn->scene.controls[c];
    const uint32_t f = turn->slot->follower + me->k;
    const uint32_t t = drive_log_frame(turn), last = control->state_count - 1;
    const uint8_t state = turn->scene.states[control->states + (t < last ? t : last)];
    const int colour = state & PV_STATE_COLOUR, flashes = state & PV_STATE_FLASHING;
    if (gap < -PASSED_M)
        return 0;
    if (control->kind == PV_STOP_SIGN ||
        (control->kind == PV_TRAFFIC_LIGHT && flashes && colour == PV_STATE_RED)) {
        if (turn->followers.served[f] == c + 1)
            return 0;
        if (me->speed >= STOPPED_MPS || gap > turn->config->idm_gap_m + STOPPED_M)
            return 1;
        turn->followers.served[f] = c + 1;
        return 0;
    }
    if (control->kind != PV_TRAFFIC_LIGHT || flashes)
        return 0;
    if (colour == PV_STATE_YELLOW)
        return 2.0f * turn->config->idm_braking_mps2 * gap > me->speed * me->speed; // it can
    return colour == PV_STATE_RED;
}

static void look_at_lines(const driver* me, const place* at, const piece* now, leader* nearest) {
    const drive_scene* scene = &me->turn->scene;
    for (uint32_t c = 0; c < (uint32_t)scene->head->sections[DRIVE_SECTION_controls].count; c++) {
        const pv_control* control = &scene->controls[c];
        float dx = control->x_m - me->x, dy = control->y_m - me->y, sine, cosine;
        if (dx * dx + dy * dy > me->look * me->look)
            continue;
        if (drive_has_levels(scene) && drive_abs(control->z_m - me->ground) > SIGN_LEVEL_M)
            continue;
        pv_sincos(control->heading, &sine, &cosine);
        if (now->ux * cosine + now->uy * sine < SAME_WAY)
            continue;
        float ax = control->line_x0_m, ay = control->line_y0_m, bx = control->line_x1_m,
              by = control->line_y1_m;
        // where the piece crosses the line: sides of the piece on which the line's ends lie, then
        // the place between them
        float left = (ay - at->y) * now->ux - (ax - at->x) * now->uy,
              right = (by - at->y) * now->ux - (bx - at->x) * now->uy;
        if (left < 0.0f || right > 0.0f || left == right)
            continue;
        float share = left / (left - right), px = ax + share * (bx - ax) - at->x,
              py = ay + share * (by - ay) - at->y;
        float p = px * now->ux + py * now->uy;
        if (p < 0.0f || p >= now->length)
            continue;
        float gap = me->base + p - me->half_length;
        if (gap < nearest->gap && has_to_stop(me, c, gap))
            *nearest = (leader){gap, 0.0f};
    }
}

static leader look_ahead(driver* me) {
    const drive_turn* turn = me->turn;
    leader nearest = {__builtin_inff(), 0.0f};
    place at = place_of(turn, me->k);
    me->base = -turn->followers.along[turn->slot->follower + me->k];
    for (uint32_t n = 0; n < MOST_PIECES; n++) {
        const piece now = piece_of(turn, me->k, &at);
        look_at_bodies(me, &at, &now, &nearest);
        look_at_lines(me, &at, &now, &nearest);
        me->base += now.length;
        if (me->base > me->look || me->base - me->half_length > nearest.gap ||
            !next_piece(turn, me->k, &at, &now))
            break;
    }
    return nearest;
}

// ---- step ----

static float acceleration_of(const drive_turn* turn,
                             const leader* ahead,
                             float speed,
                             float wanted) {
    const pv_drive_config* config = turn->config;
    const float a = config->idm_acceleration_mps2, b = config->idm_braking_mps2;
    float share = speed / wanted, result = 1.0f - share * share * share * share;
    if (ahead->gap < __builtin_inff()) {
        float dynamic = speed * config->idm_headway_s +
                        speed * (speed - ahead->speed) / (2.0f * drive_sqrt(a * b));
        float ratio =
            (config->idm_gap_m + drive_max(dynamic, 0.0f)) / drive_max(ahead->gap, LEAST_GAP_M);
        result -= ratio * ratio;
    }
    return drive_max(a * result, -HARDEST_MPS2);
}

static float plan(const drive_turn* turn, uint32_t k) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    const pv_object* object = object_of(turn, k);
    driver me = {.turn = turn,
                 .k = k,
                 .speed = all->speed[f],
                 .x = turn->scratch.was_x[k],
                 .y = turn->scratch.was_y[k]};
    me.object = all->object[f];
    me.ground = turn->scratch.was_ground[k];
    me.half_length = 0.5f * object->length_m;
    me.half_width = 0.5f * object->width_m;
    me.look = me.half_length + LOOK_M + LOOK_S * me.speed;
    float wanted = all->wanted[f];
    if (all->phase[f] == DRIVE_FOLLOWS_LANE) {
        float limit = turn->scene.lanes[turn->scene.polyline[all->to[f]]].speed_limit_mps;
        if (limit > 0.0f)
            wanted = drive_min(wanted, limit);
    }
    const leader ahead = look_ahead(&me);
    return acceleration_of(turn, &ahead, me.speed, wanted);
}

static void move(const drive_turn* turn, uint32_t k, float acceleration) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    const float dt_s = turn->scene.head->dt_s, old = all->speed[f];
    all->speed[f] = drive_max(old + acceleration * dt_s, 0.0f);
    all->along[f] += 0.5f * (old + all->speed[f]) * dt_s;
    place at = place_of(turn, k);
    for (uint32_t n = 0; n < MOST_PIECES; n++) {
        const piece now = piece_of(turn, k, &at);
        if (all->along[f] < now.length)
            break;
        all->along[f] -= now.length;
        if (!next_piece(turn, k, &at, &now)) {
            at.phase = DRIVE_FOLLOWER_GONE;
            at.to = 0;
            all->along[f] = all->speed[f] = 0.0f;
            break;
        }
    }
    keep_place(turn, k, &at);
}

void drive_follow(drive_turn* turn) {
    const uint32_t count = turn->slot->follower_count;
    const drive_scratch* scratch = &turn->scratch;
    if (!count)
        return;
    drive_collect_bodies(turn);
    for (uint32_t k = 0; k < count; k++) {
        scratch->was_x[k] = DRIVE_NOWHERE_M;
        if (!drive_follower_there(turn, k))
            continue;
        const drive_follower now = drive_follower_now(turn, k);
        scratch->was_x[k] = now.x;
        scratch->was_y[k] = now.y;
        scratch->was_heading[k] = now.heading;
        scratch->was_ground[k] = now.ground;
        scratch->planned[k] = plan(turn, k);
    }
    for (uint32_t k = 0; k < count; k++) {
        if (drive_follower_there(turn, k))
            move(turn, k, scratch->planned[k]);
        else
            enter_if_due(turn, k, drive_log_frame(turn) + 1);
    }
}

void drive_follow_agents(const drive_turn* turn, uint32_t first, uint32_t end) {
    const drive_agents* agents = &turn->agents;
    const uint32_t* object =
        turn->followers.object +
        turn->slot->follower; // (follower_count,), ascending as those of the rows
    for (uint32_t row = first, k = 0; row < end; row++) {
        while (k < turn->slot->follower_count && object[k] < agents->object[row])
            k++;
        agents->speed[row] = 0.0f;
        if (k == turn->slot->follower_count || object[k] != agents->object[row])
            continue;
        if (!(agents->flags[row] & DRIVE_ACTIVE) || !drive_follower_there(turn, k))
            continue;
        const drive_follower now = drive_follower_now(turn, k);
        agents->x[row] = now.x;
        agents->y[row] = now.y;
        agents->heading[row] = now.heading;
        agents->speed[row] = now.speed;
    }
}

void drive_follow_again(const drive_turn* turn, uint32_t row) {
    const uint32_t start = (uint32_t)turn->config->init_step;
    for (uint32_t k = 0; k < turn->slot->follower_count; k++) {
        if (turn->followers.object[turn->slot->follower + k] != turn->agents.object[row])
            continue;
        enter(turn, k, drive_frame(&turn->scene, object_of(turn, k), start), start);
    }
}

// ---- states from outside ----

int drive_follower_can_be(const drive_turn* turn, uint32_t k, uint32_t phase, uint32_t to) {
    if (phase == DRIVE_FOLLOWS_LOG)
        return drive_frame(&turn->scene, object_of(turn, k), to) != NULL;
    return phase == DRIVE_FOLLOWS_LANE ? to < turn->scene.first[PV_LANE + 1]
                                       : phase <= DRIVE_FOLLOWER_GONE && !to;
}

// True if a step can go on from these numbers.
static int follower_sound(const drive_turn* turn, uint32_t k, uint32_t o) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k, lanes = turn->scene.first[PV_LANE + 1];
    const float places[] = {all->from_x[f], all->from_y[f], all->from_heading[f]},
                sizes[] = {all->along[f], all->speed[f], all->wanted[f]};
    for (int i = 0; i < 3; i++) {
        if (!(drive_abs(places[i]) <= 1e7f) || !(sizes[i] >= 0.0f && sizes[i] <= 1e5f))
            return 0;
    }
    if (!(drive_abs(all->from_heading[f]) <= 3.2f) || !(all->wanted[f] >= 0.1f) ||
        all->object[f] != o)
        return 0;
    if (all->join[f] != DRIVE_NO_SEGMENT && all->join[f] >= lanes)
        return 0;
    return drive_follower_can_be(turn, k, all->phase[f], all->to[f]);
}

int drive_followers_sound(const drive_turn* turn) {
    uint32_t k = 0;
    if (!turn->slot->follower_count)
        return 1;
    for (uint32_t o = 0; o < turn->scene.head->object_count && k < turn->slot->follower_count;
         o++) {
        if (!drive_is_follower(turn->block->context, &turn->scene, &turn->scene.objects[o]))
            continue;
        if (!follower_sound(turn, k++, o))
            return 0;
    }
    return k == turn->slot->follower_count;
}
