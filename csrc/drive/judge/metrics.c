// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The sums of an agent's episode, and the episode records (DRIVE_RECORD_VALUES) that are made of
// them.
#include "drive/judge/metrics.h"

#include "contract/env.h"
#include "drive/judge/records.h"
#include "drive/motion/logged.h"
#include "drive/scalar.h"
#include "drive/search/lanes.h"
#include "drive/state.h"
#include "drive/tables.h"

#include <string.h>

#define AGAINST_COSINE -0.5f // 120 degrees

void drive_describe_records(const pv_drive_config* config, pv_spec* spec) {
#define NAME(name) strcpy(spec->record_names[spec->record_count++], #name);
    DRIVE_RECORD_VALUES(NAME)
    if (!config->metrics)
        return;
    DRIVE_RECORD_METRICS(NAME)
#undef NAME
}

// ---- sums ----

void drive_clear_sums(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    const drive_judged* judged = &turn->judged;
    agents->episode_return[row] = 0.0f;
    agents->progress[row] = 0.0f;
    agents->contacts[row] = 0;
    agents->departures[row] = 0;
    agents->goal_step[row] = 0;
    agents->flags[row] &= (1u << DRIVE_AGAIN_SHIFT) - 1;
    if (!turn->layout->parts)
        return;
#define CLEAR(type, code, name, unit, high) judged->name[row] = 0;
    DRIVE_JUDGED_FIELDS(CLEAR)
#undef CLEAR
    judged->least_ttc[row] = DRIVE_MOST_TTC_S;
}

// Ends a span: records whether it was comfortable, and how far the car is from the path of its log.
// Jerk is known from the second span on.
static void add_span(const drive_turn* turn, uint32_t row) {
    const drive_judged* judged = &turn->judged;
    const float speed = turn->agents.speed[row], heading = turn->agents.heading[row];
    const float per_s = 1.0f / ((float)DRIVE_SPAN_STEPS * turn->scene.head->dt_s);
    float acceleration = (speed - judged->span_speed[row]) * per_s;
    float yaw_rate = drive_wrap(heading - judged->span_heading[row]) * per_s;
    float jerk =
        judged->spans[row] ? (acceleration - judged->span_acceleration[row]) * per_s : 0.0f;
    judged->comfortable_spans[row] +=
        (uint32_t)(acceleration <= DRIVE_COMFORT_ACCELERATION &&
                   acceleration >= -DRIVE_COMFORT_BRAKING &&
                   drive_abs(speed * yaw_rate) <= DRIVE_COMFORT_LATERAL &&
                   drive_abs(jerk) <= DRIVE_COMFORT_JERK &&
                   drive_abs(yaw_rate) <= DRIVE_COMFORT_YAW_RATE);
    judged->path_sum[row] += drive_path_distance(turn, row);
    judged->spans[row]++;
    judged->span_speed[row] = speed;
    judged->span_heading[row] = heading;
    judged->span_acceleration[row] = acceleration;
}

static void add_lane(const drive_turn* turn, uint32_t row, const drive_outcome* step) {
    const drive_judged* judged = &turn->judged;
    judged->lane_steps[row]++;
    judged->aligned_steps[row] += (uint32_t)(step->lane_cos >= DRIVE_ALIGNED);
    judged->lane_offset_sum[row] += step->lane_offset;
    judged->limit_steps[row] += (uint32_t)step->has_limit;
    judged->most_over_limit[row] = drive_max(judged->most_over_limit[row], step->over_limit);
    judged->speeding_steps[row] += (uint32_t)(step->over_limit > 0.0f);
    if (step->lane_cos <= AGAINST_COSINE)
        judged->wrong_way[row] += drive_abs(turn->agents.speed[row]) * turn->scene.head->dt_s;
}

// A car runs a sign if it has not stood within DRIVE_STOP_M of the sign's line.
static void add_stops(const drive_turn* turn, uint32_t row, const drive_outcome* step) {
    const drive_judged* judged = &turn->judged;
    float speed = drive_abs(turn->agents.speed[row]);
    judged->since_stop[row] =
        speed < DRIVE_STANDS_MPS ? 0.0f : judged->since_stop[row] + speed * turn->scene.head->dt_s;
    if (!step->must_stop || judged->since_stop[row] <= DRIVE_STOP_M)
        return;
    if (!judged->signs_run[row]++)
        judged->stop_sign_step[row] = turn->slot->clock;
}

void drive_add_step(const drive_turn* turn, uint32_t row, const drive_outcome* step) {
    const drive_judged* judged = &turn->judged;
    uint32_t steps = ++judged->judged_steps[row];
    judged->acceleration[row] = step->acceleration;
    if (!turn->config->metrics)
        return;
    if (steps == 1) {
        judged->span_speed[row] = turn->scratch.old_speed[row];
        judged->span_heading[row] = turn->scratch.old_heading[row];
    }
    if (steps % DRIVE_SPAN_STEPS == 0)
        add_span(turn, row);
    judged->peak_acceleration[row] = drive_max(judged->peak_acceleration[row], step->acceleration);
    judged->peak_braking[row] = drive_max(judged->peak_braking[row], -step->acceleration);
    judged->peak_lateral[row] = drive_max(judged->peak_lateral[row], drive_abs(step->lateral));
    judged->peak_jerk[row] = drive_max(judged->peak_jerk[row], drive_abs(step->jerk));
    if (step->red_light && !judged->red_lights[row]++)
        judged->red_light_step[row] = turn->slot->clock;
    if (step->failed_to_yield && !judged->yields_failed[row]++)
        judged->yield_step[row] = turn->slot->clock;
    add_stops(turn, row, step);
    if (step->begun && !judged->contact_step[row])
        judged->contact_step[row] = turn->slot->clock;
    if (step->departed && !judged->departure_step[row])
        judged->departure_step[row] = turn->slot->clock;
    if (step->in_lane)
        add_lane(turn, row, step);
    if (step->logged) {
        judged->displacement[row] = step->log_distance;
        judged->displacement_sum[row] += step->log_distance;
        judged->displacement_steps[row]++;
    }
    judged->least_ttc[row] = drive_min(judged->least_ttc[row], step->ttc);
    judged->short_ttc_steps[row] += (uint32_t)(step->ttc < DRIVE_SHORT_TTC_S);
}

// ---- records ----

// Returns the share of the route from start to goal that the agent has covered: along the lanes, or
// along the straight line to the goal's circle if no route exists.
static float route_share(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    if (agents->flags[row] & DRIVE_REACHED)
        return 1.0f;
    float share = agents->flags[row] & DRIVE_NO_GOAL ? -1.0f : drive_way_share(turn, row);
    if (share >= 0.0f)
        return drive_min(share, 1.0f);
    float way = agents->progress[row] + agents->goal_distance[row] - turn->config->goal_radius_m;
    return way > 0.0f ? drive_clamp(agents->progress[row] / way, 0.0f, 1.0f) : 0.0f;
}

static int is_lawful(const drive_judged* judged, uint32_t row) {
    return !judged->red_lights[row] && !judged->signs_run[row] &&
           judged->wrong_way[row] <= PV_DRIVE_WRONG_WAY_M &&
           judged->most_over_limit[row] <= DRIVE_OVER_LIMIT_MPS;
}

static void add_metrics(const drive_turn* turn, uint32_t row, float* v) {
    const drive_judged* judged = &turn->judged;
    const uint32_t logged = judged->displacement_steps[row];
#define ADD(name, value) v[DRIVE_RECORD_##name] += (float)(value)
    ADD(at_fault, judged->faults[row] > 0);
    ADD(red_light, judged->red_lights[row] > 0);
    ADD(wrong_way, judged->wrong_way[row] > PV_DRIVE_WRONG_WAY_M);
    ADD(stop_sign, judged->signs_run[row] > 0);
    ADD(lawful, is_lawful(judged, row));
    ADD(short_ttc, judged->short_ttc_steps[row] > 0);
    ADD(route_share, route_share(turn, row));
    ADD(steps, judged->judged_steps[row]);
    ADD(lane_steps, judged->lane_steps[row]);
    ADD(aligned_steps, judged->aligned_steps[row]);
    ADD(lane_offset_m, judged->lane_offset_sum[row]);
    ADD(limit_steps, judged->limit_steps[row]);
    ADD(speeding_steps, judged->speeding_steps[row]);
    ADD(spans, judged->spans[row]);
    ADD(comfortable_spans, judged->comfortable_spans[row]);
    ADD(path_m, judged->path_sum[row]);
    ADD(short_ttc_steps, judged->short_ttc_steps[row]);
    ADD(least_ttc_s, judged->least_ttc[row]);
    ADD(peak_acceleration, judged->peak_acceleration[row]);
    ADD(peak_braking, judged->peak_braking[row]);
    ADD(peak_lateral, judged->peak_lateral[row]);
    ADD(peak_jerk, judged->peak_jerk[row]);
    ADD(logged, logged > 0);
    ADD(ade_m, logged ? judged->displacement_sum[row] / (float)logged : 0.0f);
    ADD(fde_m, judged->displacement[row]);
    uint32_t arrival = turn->agents.goal_step[row] ? drive_log_arrival(turn, row) : 0;
    ADD(timed_steps, arrival ? turn->agents.goal_step[row] : 0);
    ADD(log_steps, arrival);
    ADD(failed_to_yield, judged->yields_failed[row] > 0);
#undef ADD
}

void drive_leave_record(const drive_turn* turn, int complete) {
    pv_record* record = pv_block_record(turn->block, turn->env);
    if (!record)
        return;
    const drive_agents* agents = &turn->agents;
    const drive_slot* slot = turn->slot;
    float v[DRIVE_RECORD_COUNT] = {0}, sum = 0.0f;
    uint32_t driven = 0;
    for (uint32_t row = slot->row; row < slot->row + slot->count; row++) {
        uint32_t flags = agents->flags[row];
        if (flags & DRIVE_TRAFFIC)
            continue;
        driven++;
        sum += agents->episode_return[row];
        v[DRIVE_RECORD_goals] += flags & DRIVE_REACHED ? 1.0f : 0.0f;
        v[DRIVE_RECORD_score] += flags & DRIVE_SCORED ? 1.0f : 0.0f;
        v[DRIVE_RECORD_collisions] += agents->contacts[row] ? 1.0f : 0.0f;
        v[DRIVE_RECORD_offroads] += agents->departures[row] ? 1.0f : 0.0f;
        v[DRIVE_RECORD_goal_steps] += (float)agents->goal_step[row];
        v[DRIVE_RECORD_contacts] += (float)agents->contacts[row];
        v[DRIVE_RECORD_departures] += (float)agents->departures[row];
        v[DRIVE_RECORD_progress_m] += agents->progress[row];
        v[DRIVE_RECORD_goals_again] += (float)(flags >> DRIVE_AGAIN_SHIFT);
        if (turn->config->metrics)
            add_metrics(turn, row, v);
    }
    v[DRIVE_RECORD_agents] = (float)driven;
    v[DRIVE_RECORD_complete] = complete ? 1.0f : 0.0f;
    record->episode = turn->state->episode;
    record->task = slot->scene;
    record->slot = (uint32_t)(slot - turn->slots);
    record->length = slot->clock;
    record->episode_return = sum / (float)driven;
    memcpy(record->values, v, sizeof v);
}
