// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// One scene of a bundle over its episode: start, step, end. Only this file writes rewards, flags
// and masks.
//
// The order of a step: agents whose row ended with the last step leave; agents move; other objects
// move (bodies.c); contacts are determined; then, agent by agent: road edges, goal, reward,
// observation. An agent's terminal row is its last; in that step the others still observe its car.
// The scene is over when no agent is left or its time is up; the next turn restarts it at frame
// init_step of its log.
#include "drive/block/episode.h"

#include "contract/base.h"
#include "contract/env.h"
#include "drive/judge/collide.h"
#include "drive/judge/measure.h"
#include "drive/judge/metrics.h"
#include "drive/judge/reward.h"
#include "drive/motion/bodies.h"
#include "drive/motion/dynamics.h"
#include "drive/motion/expert.h"
#include "drive/motion/follow.h"
#include "drive/motion/followers.h"
#include "drive/motion/height.h"
#include "drive/observe/observe.h"
#include "drive/scalar.h"
#include "drive/scene/control.h"
#include "drive/scene/scene.h"
#include "drive/search/conflicts.h"
#include "drive/search/lanes.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"

#include <string.h>

static void write_flags(
    const drive_turn* turn, uint32_t row, float reward, int terminal, int truncation, int mask) {
    const pv_rows* rows = &turn->block->rows[0];
    uint64_t at = turn->first_row + row;
    rows->rewards[at] = reward;
    rows->terminals[at] = (uint8_t)terminal;
    rows->truncations[at] = (uint8_t)truncation;
    rows->masks[at] = (uint8_t)mask;
}

void drive_rows_blank(const drive_turn* turn, uint32_t row, uint32_t count) {
    const pv_rows* rows = &turn->block->rows[0];
    uint64_t at = turn->first_row + row;
    memset(rows->observations + at * rows->observation_bytes, 0, count * rows->observation_bytes);
    memset(rows->rewards + at, 0, count * sizeof(float));
    memset(rows->terminals + at, 0, count);
    memset(rows->truncations + at, 0, count);
    memset(rows->masks + at, 0, count);
}

// ---- start ----

// Puts an agent where the log has it when the scene starts.
static void place_at_start(const drive_turn* turn, uint32_t row, const pv_frame* frame) {
    const drive_agents* agents = &turn->agents;
    const pv_object* object = &turn->scene.objects[agents->object[row]];
    const uint32_t start = (uint32_t)turn->config->init_step;
    agents->x[row] = frame->x_m;
    agents->y[row] = frame->y_m;
    agents->heading[row] = (float)frame->heading * HEADING_UNIT;
    agents->speed[row] = (float)frame->speed * SPEED_UNIT;
    drive_place_height(turn, row, frame->z_m);
    if (turn->config->expert_actions)
        agents->speed[row] = drive_expert_start(turn->config, &turn->scene, object, start);
    if (agents->steering)
        agents->acceleration[row] = agents->lateral[row] = agents->steering[row] = 0.0f;
    const uint32_t axes = turn->layout->axes.count;
    if (turn->played)
        memset(turn->played + (size_t)axes * row, 0, axes * sizeof(float));
}

static void start_agent(drive_turn* turn, uint32_t row, uint32_t o) {
    const pv_object* object = &turn->scene.objects[o];
    const pv_frame* frame = drive_frame(&turn->scene, object, drive_log_frame(turn));
    PV_ASSERT(frame); // agents are in the scene when it starts
    drive_agents* agents = &turn->agents;
    agents->object[row] = o;
    place_at_start(turn, row, frame);
    agents->length[row] = object->length_m;
    agents->width[row] = object->width_m;
    agents->goal_x[row] = object->goal_x_m;
    agents->goal_y[row] = object->goal_y_m;
    agents->goal_distance[row] = drive_goal_distance(agents, row);
    agents->slot[row] = (uint32_t)(turn->slot - turn->slots);
    agents->flags[row] =
        DRIVE_ACTIVE | (drive_starts_at_goal(turn->config, object, frame) ? DRIVE_NO_GOAL : 0);
    turn->block->rows[0].agent_types[turn->first_row + row] = object->type;
    drive_clear_sums(turn, row);
    drive_draw_weights(turn, row);
    agents->seen_reach[row] = 0.0f;
}

// Writes the first row of an agent, from its pose.
static void write_first_row(drive_turn* turn, uint32_t row) {
    drive_near edges;
    drive_observe_edges(turn, row, &edges);
    if (drive_touches_edge(turn, row, &edges, 0))
        turn->agents.flags[row] |= DRIVE_OFFROAD;
    drive_observe(turn, row);
    write_flags(turn, row, 0.0f, 0, 0, 1);
}

// Writes the first rows of all agents of the slot; those of traffic are empty. Returns the number
// of rows that are not empty.
static uint32_t write_first_rows(drive_turn* turn) {
    uint32_t active = 0;
    for (uint32_t row = turn->slot->row; row < turn->slot->row + turn->slot->count; row++) {
        if (turn->agents.flags[row] & DRIVE_ACTIVE) {
            write_first_row(turn, row);
            active++;
        } else {
            drive_rows_blank(turn, row, 1);
            turn->agents.flags[row] |= DRIVE_BLANK;
        }
    }
    return active;
}

void drive_slot_start(drive_turn* turn) {
    drive_slot* slot = turn->slot;
    slot->clock = 0;
    slot->over = 0;
    turn->start = turn->state->step;
    uint32_t row = slot->row, end = slot->row + slot->count;
    for (uint32_t o = 0; o < turn->scene.head->object_count && row < end; o++) {
        if (drive_object_controlled(turn->block->context, &turn->scene, &turn->scene.objects[o]))
            start_agent(turn, row++, o);
    }
    PV_ASSERT(row == end);
    drive_draw_traffic(turn);
    drive_followers_start(turn);
    drive_sincos_array(turn->agents.heading + slot->row, turn->agents.sine + slot->row,
                       turn->agents.cosine + slot->row, slot->count);
    drive_collect_bodies(turn);
    drive_collisions(turn, 0); // touching at the start is not a contact
    const uint32_t active = write_first_rows(turn);
    turn->block->counters[DRIVE_COUNTER_ACTIVE] += active;
    turn->block->counters[DRIVE_COUNTER_IDLE] += slot->count - active;
}

// Begins a new row of an agent that returns to its start. The agent drives alone from now on. The
// sums of its episode continue.
static void respawn(drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    place_at_start(turn, row,
                   drive_frame(&turn->scene, &turn->scene.objects[agents->object[row]],
                               (uint32_t)turn->config->init_step));
    if (turn->config->idm_agents)
        drive_follower_respawn(turn, row);
    drive_sincos_array(agents->heading + row, agents->sine + row, agents->cosine + row, 1);
    agents->goal_distance[row] = drive_goal_distance(agents, row);
    agents->flags[row] &= ~(DRIVE_ENDED | DRIVE_COLLIDED | DRIVE_OFFROAD | DRIVE_BLANK);
    agents->flags[row] |= DRIVE_ACTIVE | DRIVE_ALONE;
    write_first_row(turn, row);
}

// ---- step ----

// Takes the agents whose row ended with the last step out of the scene. Returns how many are left.
static uint32_t remove_leavers(drive_turn* turn) {
    const drive_agents* agents = &turn->agents;
    uint32_t active = 0;
    for (uint32_t row = turn->slot->row; row < turn->slot->row + turn->slot->count; row++) {
        uint32_t* flags = &agents->flags[row];
        if (*flags & DRIVE_ENDED)
            *flags &= ~(DRIVE_ACTIVE | DRIVE_COLLIDED | DRIVE_OFFROAD);
        active += *flags & DRIVE_ACTIVE;
    }
    return active;
}

// Returns how an agent's row ends with this step (DRIVE_END_...), 0 if it continues. If two
// behaviours end it, the one that removes the agent wins; an agent that reached its goal did so
// before it touched anything.
static uint32_t end_of_row(const drive_turn* turn, uint32_t row, uint32_t events) {
    static const uint32_t ends[] = {[DRIVE_IS_collision_behavior_ignore] = 0,
                                    [DRIVE_IS_collision_behavior_stop] = DRIVE_END_STAYS,
                                    [DRIVE_IS_collision_behavior_remove] = DRIVE_END_GONE};
    const pv_drive_config* config = turn->config;
    uint32_t goal = events & DRIVE_EVENT_GOAL ? drive_end_at_goal(config) : 0;
    if ((events & DRIVE_EVENT_GOAL) && config->goal_behavior == DRIVE_IS_goal_behavior_next &&
        !drive_next_goal(turn, row))
        goal = DRIVE_END_GONE; // its lane is a dead end
    uint32_t contact = events & DRIVE_EVENT_CONTACT ? ends[config->collision_behavior] : 0;
    uint32_t departure = events & DRIVE_EVENT_DEPARTURE ? ends[config->offroad_behavior] : 0;
    if (goal)
        return goal;
    if (contact || departure)
        return contact == DRIVE_END_GONE || departure == DRIVE_END_GONE ? DRIVE_END_GONE
                                                                        : DRIVE_END_STAYS;
    if (!config->replay_log)
        return 0;
    const pv_object* object = &turn->scene.objects[turn->agents.object[row]];
    int log_is_over =
        drive_log_frame(turn) + 1 >= (uint32_t)object->frame_first + object->frame_count;
    return log_is_over ? DRIVE_END_CUT : 0;
}

static int returns(const drive_turn* turn, uint32_t flags) {
    return drive_end_of(flags) == DRIVE_END_RETURNS &&
           turn->block->context->autoreset != PV_DISABLED;
}

// Steps an agent that is in the scene. Returns 1 if it continues.
static uint32_t step_agent(drive_turn* turn, uint32_t row, int out_of_time) {
    drive_near edges;
    uint32_t events, *flags = &turn->agents.flags[row];
    drive_prefetch(turn, row);
    drive_observe_edges(turn, row, &edges);
    float reward = drive_judge(turn, row, drive_touches_edge(turn, row, &edges, 1), &events);
    uint32_t end = end_of_row(turn, row, events);
    *flags |= end << DRIVE_END_SHIFT;
    if (turn->layout->ways && events & DRIVE_EVENT_GOAL)
        drive_lay_out_way_of(turn, row); // it may have another goal
    drive_observe(turn, row);
    int terminal = end && end != DRIVE_END_CUT;
    write_flags(turn, row, reward, terminal, !terminal && (out_of_time || end), 1);
    return !end || returns(turn, *flags);
}

// Returns whether an agent of the slot that has a goal did not score.
static int has_failed(const drive_turn* turn) {
    for (uint32_t row = turn->slot->row; row < turn->slot->row + turn->slot->count; row++) {
        if (!(turn->agents.flags[row] & (DRIVE_SCORED | DRIVE_NO_GOAL | DRIVE_TRAFFIC)))
            return 1;
    }
    return 0;
}

void drive_slot_advance(drive_turn* turn) {
    drive_slot* slot = turn->slot;
    // The step that is under way is counted in `step` already, but not in `clock`.
    turn->start = turn->state->step - 1 - slot->clock;
    uint32_t active = remove_leavers(turn), left = 0;
    drive_follow(turn);
    slot->clock++;
    const int out_of_time = slot->clock >= drive_episode_steps(turn);
    const int last =
        out_of_time || turn->state->step >=
                           (uint32_t)turn->config->resample_steps; // no row begins in the last step
    drive_step_begin(turn);
    drive_dynamics(turn);
    drive_follow_ground(turn);
    drive_collect_bodies(turn);
    drive_collisions(turn, 1);
    for (uint32_t row = slot->row; row < slot->row + slot->count; row++) {
        uint32_t* flags = &turn->agents.flags[row];
        if (*flags & DRIVE_ACTIVE) {
            left += step_agent(turn, row, out_of_time);
        } else if (!last && returns(turn, *flags)) {
            respawn(turn, row);
            active++;
            left++;
        } else {
            if (!(*flags & DRIVE_BLANK))
                drive_rows_blank(turn, row, 1);
            *flags |= DRIVE_BLANK;
        }
    }
    turn->block->counters[DRIVE_COUNTER_ACTIVE] += active;
    turn->block->counters[DRIVE_COUNTER_IDLE] += slot->count - active;
    if (!left || out_of_time) {
        slot->over = 1;
        slot->failed = (uint32_t)has_failed(turn);
        drive_leave_record(turn, 1);
    }
}

int drive_slot_respawn(drive_turn* turn) {
    for (uint32_t row = turn->slot->row; row < turn->slot->row + turn->slot->count; row++) {
        if ((turn->agents.flags[row] & DRIVE_ACTIVE) && returns(turn, turn->agents.flags[row]))
            respawn(turn, row);
    }
    return PV_OK;
}

void drive_slot_cut(drive_turn* turn) {
    const pv_rows* rows = &turn->block->rows[0];
    if (turn->slot->over)
        return;
    for (uint32_t row = turn->slot->row; row < turn->slot->row + turn->slot->count; row++) {
        uint64_t at = turn->first_row + row;
        if (rows->masks[at] && !rows->terminals[at])
            rows->truncations[at] = 1;
    }
    drive_leave_record(turn, 0);
}

// ---- a state from outside ----

// Returns whether no step of the slot's episode is left, as drive_slot_advance determines at its
// end.
static int is_over(const drive_turn* turn) {
    const drive_slot* slot = turn->slot;
    if (slot->clock >= drive_episode_steps(turn))
        return 1;
    for (uint32_t row = slot->row; row < slot->row + slot->count; row++) {
        uint32_t flags = turn->agents.flags[row];
        if ((flags & DRIVE_ACTIVE) && (!(flags & DRIVE_ENDED) || returns(turn, flags)))
            return 0;
    }
    return 1;
}

void drive_slot_set(drive_turn* turn, int was_last, int last) {
    const pv_rows* rows = &turn->block->rows[0];
    drive_agents* agents = &turn->agents;
    drive_slot* slot = turn->slot;
    const int was_over = was_last || slot->over;
    turn->start = turn->state->step - slot->clock;
    slot->over = (uint32_t)is_over(turn);
    drive_followers_prepare(turn);
    const int over = last || slot->over;
    drive_sincos_array(agents->heading + slot->row, agents->sine + slot->row,
                       agents->cosine + slot->row, slot->count);
    drive_collect_bodies(turn);
    for (uint32_t row = slot->row; row < slot->row + slot->count; row++) {
        if (was_over && !over) { // sums of an episode whose record is written already
            agents->flags[row] &= ~DRIVE_SCORED;
            drive_clear_sums(turn, row);
        }
        agents->goal_distance[row] = drive_goal_distance(agents, row);
        int is_blank = was_over && over &&
                       !rows->masks[turn->first_row + row]; // the scene had ended before its bundle
        if (is_blank || !(agents->flags[row] & DRIVE_ACTIVE)) {
            drive_rows_blank(turn, row, 1);
            if (!(agents->flags[row] & DRIVE_ACTIVE))
                agents->flags[row] |= DRIVE_BLANK;
            continue;
        }
        agents->flags[row] &= ~DRIVE_BLANK;
        const uint32_t end = drive_end_of(agents->flags[row]);
        const int terminal = end && end != DRIVE_END_CUT;
        const float reach = agents->seen_reach[row];
        const int stood =
            agents->seen_x[row] == agents->x[row] && agents->seen_y[row] == agents->y[row];
        drive_near edges;
        drive_observe_edges(turn, row, &edges);
        drive_observe(turn, row);
        if (stood)
            agents->seen_reach[row] =
                reach; // so that setting a state that was just read changes no byte
        write_flags(turn, row, 0.0f, terminal, !terminal && (over || end), 1);
    }
}
