// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Moves followers: vehicles that are not agents (setting others=idm), agents whose actions are
// replaced (idm_agents), or agents that are traffic for an episode (traffic_idm). In the last case
// all vehicles that may become traffic are followers, and those that do not stay GONE.
//
// The intelligent driver model is that of Treiber, Hennecke, Helbing, "Congested traffic states in
// empirical observations and microscopic simulations", Phys. Rev. E 62 (2000), eqs. 2 and 3, for a
// car of speed v whose desired speed is v0, at a gap s behind a leader that it approaches with dv:
//
//     dv/dt = a (1 - (v / v0)^4 - (s* / s)^2)        s* = s0 + max(0, v T + v dv / (2 sqrt(a b)))
//
// The lower bound of 0 in s* is that of Treiber, Kesting, "Traffic Flow Dynamics" (Springer 2013),
// section 11.3; the exponent 4 is that of both. The other numbers are the settings idm_..., which
// the driver's kind changes (kinds.c). Their defaults T = 1.5 s, s0 = 2 m and b = 2 m/s^2 are those
// of Kesting, Treiber, Helbing, "Enhanced intelligent driver model to access the impact of driving
// strategies on traffic capacity", Phil. Trans. R. Soc. A 368 (2010), table 1, which has a = 1.4
// m/s^2, here 1.5. v0 is the largest speed of the vehicle's log. Drivers have no reaction time and
// do not change lanes.
//
// A follower appears with its log and disappears where its path (followers.c) ends. Its leader is
// the nearest body on the path within its width. A red light, and a stop sign at which it has not
// stopped, are leaders that stand still. All followers look at the scene as it was before the step,
// and only then do all of them move, so their order does not matter.
#include "drive/motion/follow.h"

#include "drive/motion/bodies.h"
#include "drive/motion/followers.h"
#include "drive/motion/kinds.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"
#include "envs/kernels.h"

// Our choice, as the model has no such bounds:
#define LOOK_M 10.0f      // how far a follower looks ahead,
#define LOOK_S 4.0f       // ... and for each m/s of its speed
#define MOST_PIECES 256   // of the path that it looks at
#define HARDEST_MPS2 8.0f // the hardest that it brakes: about the grip of a dry road
#define LEAST_GAP_M 0.1f  // at smaller gaps it brakes as hard as at this one
#define PASSED_M 0.5f     // cars do not stop at a line farther behind their front bumper
#define SAME_WAY 0.5f     // 60 degrees: a stop line holds for traffic in its direction
#define LEVEL_M 2.5f      // bodies higher above or deeper below are on another level,
#define SIGN_LEVEL_M 6.0f // ... and lights and signs, which hang over the road
#define STOPPED_MPS 0.5f  // slower than this ...
#define STOPPED_M \
    1.5f // ... and no farther than this from where it would stand, a car has stopped at a sign

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
    float base; // m from its centre to the start of the current piece
    drive_style style;
} driver;

static void look_at_bodies(const driver* me,
                           const drive_place* at,
                           const drive_piece* now,
                           leader* nearest) {
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
        if (!drive_style_sees(&me->style, bodies->object[b]))
            continue;
        float gap = me->base + p - ahead - me->half_length;
        if (gap < nearest->gap)
            *nearest = (leader){gap, bodies->speed[b] * along};
    }
}

// Returns whether traffic has to stop at the line `gap` ahead, in the current frame. A flashing red
// light is a stop sign.
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
        if (me->speed >= STOPPED_MPS || gap > me->style.gap_m + STOPPED_M)
            return 1;
        turn->followers.served[f] = c + 1;
        return 0;
    }
    if (control->kind != PV_TRAFFIC_LIGHT || flashes)
        return 0;
    // At a yellow light it stops if it can: Gazis, Herman, Maradudin, "The problem of the amber
    // signal light in traffic flow", Operations Research 8 (1960), without the reaction time.
    if (colour == PV_STATE_YELLOW)
        return 2.0f * me->style.braking * gap > me->speed * me->speed;
    return colour == PV_STATE_RED;
}

static void look_at_lines(const driver* me,
                          const drive_place* at,
                          const drive_piece* now,
                          leader* nearest) {
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
        // the drive_place between them
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
    drive_place at = drive_follower_place(turn, me->k);
    me->base = -turn->followers.along[turn->slot->follower + me->k];
    for (uint32_t n = 0; n < MOST_PIECES; n++) {
        const drive_piece now = drive_follower_piece(turn, me->k, &at);
        look_at_bodies(me, &at, &now, &nearest);
        look_at_lines(me, &at, &now, &nearest);
        me->base += now.length;
        if (me->base > me->look || me->base - me->half_length > nearest.gap ||
            !drive_follower_next(turn, me->k, &at, &now))
            break;
    }
    return nearest;
}

// ---- step ----

// Returns the acceleration of a driver who brakes late: 0 or more until stopping at the usual
// distance from the leader takes a harder deceleration than style->late, and then minus the
// deceleration that it takes. This deceleration is closing^2 / (2 distance), the "deceleration rate
// to avoid the crash" (Archer, "Indicators for traffic safety assessment and prediction", KTH
// 2005), here to stop at the usual distance. free, idm: accelerations without and with the leader,
// m/s^2. Nearer than the usual distance the result is IDM's.
static float brake_late(
    const drive_style* style, const leader* ahead, float speed, float free, float idm) {
    const float left = ahead->gap - style->gap_m, closing = drive_max(speed - ahead->speed, 0.0f);
    if (left <= 0.0f)
        return idm;
    const float needed = closing * closing / (2.0f * left);
    return drive_min(free, needed > style->late ? -needed : drive_max(idm, 0.0f));
}

static float acceleration_of(const drive_style* style,
                             const leader* ahead,
                             float speed,
                             float wanted) {
    const float a = style->acceleration, b = style->braking;
    float share = speed / wanted, free = 1.0f - share * share * share * share, result = free;
    if (ahead->gap < __builtin_inff()) {
        float dynamic =
            speed * style->headway_s + speed * (speed - ahead->speed) / (2.0f * drive_sqrt(a * b));
        float ratio =
            (style->gap_m + drive_max(dynamic, 0.0f)) / drive_max(ahead->gap, LEAST_GAP_M);
        result -= ratio * ratio;
    }
    result *= a;
    if (style->late > 0.0f)
        result = brake_late(style, ahead, speed, a * free, result);
    return drive_max(result, -HARDEST_MPS2);
}

static float plan(const drive_turn* turn, uint32_t k) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    const pv_object* object = drive_follower_object(turn, k);
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
    me.style = drive_style_of(turn, k);
    float wanted = all->wanted[f] * me.style.speed;
    if (all->phase[f] == DRIVE_FOLLOWS_LANE) {
        float limit = turn->scene.lanes[turn->scene.polyline[all->to[f]]].speed_limit_mps;
        if (limit > 0.0f)
            wanted = drive_min(wanted, limit * me.style.speed);
    }
    const leader ahead = look_ahead(&me);
    return acceleration_of(&me.style, &ahead, me.speed, wanted);
}

// Moves a follower by the ballistic update: its acceleration is constant during the step (Treiber,
// Kanagaraj, "Comparing numerical integration schemes for time-continuous car-following models",
// Physica A 419, 2015).
static void move(const drive_turn* turn, uint32_t k, float acceleration) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    const float dt_s = turn->scene.head->dt_s, old = all->speed[f];
    all->speed[f] = drive_max(old + acceleration * dt_s, 0.0f);
    all->along[f] += 0.5f * (old + all->speed[f]) * dt_s;
    drive_place at = drive_follower_place(turn, k);
    for (uint32_t n = 0; n < MOST_PIECES; n++) {
        const drive_piece now = drive_follower_piece(turn, k, &at);
        if (all->along[f] < now.length)
            break;
        all->along[f] -= now.length;
        if (!drive_follower_next(turn, k, &at, &now)) {
            at.phase = DRIVE_FOLLOWER_GONE;
            at.to = 0;
            all->along[f] = all->speed[f] = 0.0f;
            break;
        }
    }
    drive_follower_set_place(turn, k, &at);
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
            drive_follower_enter(turn, k, drive_log_frame(turn) + 1);
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
