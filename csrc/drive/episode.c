// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// One scene of a bundle over its episode: start, step, end. Only this file writes rewards, flags and masks.
//
// A step, in order: agents that reached their goal in the last step leave; agents move; other objects follow their log;
// contacts are found; then, agent by agent: road edges, goal, reward, observation. An agent's terminal row is its last; in that
// step the others still see its car. The scene is over when no agent is left or its time is up; the next turn restarts it at
// frame 0.
#include "kernels.h"
#include "state.h"

static void write_flags(const drive_turn* turn, uint32_t row, float reward, int terminal, int truncation, int mask) {
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

// ---- start --------------------------------------------------------------------------------------------------------

static void start_agent(drive_turn* turn, uint32_t row, uint32_t o) {
    const pv_object* object = &turn->scene.objects[o];
    const pv_frame* frame = drive_frame(&turn->scene, object, 0);
    PV_ASSERT(frame); // agents are there in the first frame
    drive_agents* agents = &turn->agents;
    agents->x[row] = frame->x_m;
    agents->y[row] = frame->y_m;
    agents->heading[row] = (float)frame->heading * HEADING_UNIT;
    agents->speed[row] = (float)frame->speed * SPEED_UNIT;
    agents->length[row] = object->length_m;
    agents->width[row] = object->width_m;
    agents->goal_x[row] = object->goal_x_m;
    agents->goal_y[row] = object->goal_y_m;
    agents->goal_distance[row] = drive_goal_distance(agents, row);
    agents->inverse_wheelbase[row] = 1.0f / (turn->config->wheelbase_factor * object->length_m);
    agents->object[row] = o;
    agents->slot[row] = (uint32_t)(turn->slot - turn->slots);
    agents->flags[row] = DRIVE_ACTIVE;
    drive_clear_sums(turn, row);
    drive_draw_weights(turn, row);
    agents->seen_reach[row] = 0.0f;
}

void drive_slot_start(drive_turn* turn) {
    drive_slot* slot = turn->slot;
    slot->clock = 0;
    slot->over = 0;
    uint32_t row = slot->row, end = slot->row + slot->count;
    for (uint32_t o = 0; o < turn->scene.head->object_count && row < end; o++) {
        if (drive_object_controlled(turn->config, &turn->scene, &turn->scene.objects[o])) start_agent(turn, row++, o);
    }
    PV_ASSERT(row == end);
    drive_sincos_array(turn->agents.heading + slot->row, turn->agents.sine + slot->row, turn->agents.cosine + slot->row,
                       slot->count);
    drive_collect_bodies(turn);
    drive_collisions(turn, 0); // touching at the start is no contact
    for (row = slot->row; row < end; row++) {
        drive_near edges;
        drive_observe_edges(turn, row, &edges);
        if (drive_touches_edge(turn, row, &edges, 0)) turn->agents.flags[row] |= DRIVE_OFFROAD;
        drive_observe(turn, row);
        write_flags(turn, row, 0.0f, 0, 0, 1);
    }
    turn->block->counters[DRIVE_COUNTER_ACTIVE] += slot->count;
}

// ---- step ---------------------------------------------------------------------------------------------------------

// Removes the agents that reached their goal in the last step. Returns how many are left.
static uint32_t remove_leavers(drive_turn* turn) {
    uint32_t active = 0;
    for (uint32_t row = turn->slot->row; row < turn->slot->row + turn->slot->count; row++) {
        uint32_t* flags = &turn->agents.flags[row];
        if (turn->config->remove_at_goal && (*flags & DRIVE_REACHED))
            *flags &= ~(DRIVE_ACTIVE | DRIVE_COLLIDED | DRIVE_OFFROAD);
        active += *flags & DRIVE_ACTIVE;
    }
    return active;
}

void drive_slot_advance(drive_turn* turn) {
    drive_slot* slot = turn->slot;
    uint32_t active = remove_leavers(turn), left = active;
    slot->clock++;
    int out_of_time = slot->clock >= drive_episode_steps(turn);
    drive_step_begin(turn);
    drive_dynamics(turn);
    drive_collect_bodies(turn);
    drive_collisions(turn, 1);
    for (uint32_t row = slot->row; row < slot->row + slot->count; row++) {
        uint32_t* flags = &turn->agents.flags[row];
        if (!(*flags & DRIVE_ACTIVE)) {
            if (!(*flags & DRIVE_BLANK)) drive_rows_blank(turn, row, 1);
            *flags |= DRIVE_BLANK;
            continue;
        }
        drive_near edges;
        int terminal;
        drive_prefetch(turn, row);
        drive_observe_edges(turn, row, &edges);
        float reward = drive_judge(turn, row, drive_touches_edge(turn, row, &edges, 1), &terminal);
        drive_observe(turn, row);
        write_flags(turn, row, reward, terminal, out_of_time && !terminal, 1);
        left -= (uint32_t)terminal;
    }
    turn->block->counters[DRIVE_COUNTER_ACTIVE] += active;
    turn->block->counters[DRIVE_COUNTER_IDLE] += slot->count - active;
    if (!left || out_of_time) {
        slot->over = 1;
        drive_leave_record(turn, 1);
    }
}

void drive_slot_cut(drive_turn* turn) {
    const pv_rows* rows = &turn->block->rows[0];
    if (turn->slot->over) return;
    for (uint32_t row = turn->slot->row; row < turn->slot->row + turn->slot->count; row++) {
        uint64_t at = turn->first_row + row;
        if (rows->masks[at] && !rows->terminals[at]) rows->truncations[at] = 1;
    }
    drive_leave_record(turn, 0);
}

// ---- a state from outside -----------------------------------------------------------------------------------------

// True if no step of the slot's episode is left: as drive_slot_advance finds at its end.
static int is_over(const drive_turn* turn) {
    const drive_slot* slot = turn->slot;
    if (slot->clock >= drive_episode_steps(turn)) return 1;
    for (uint32_t row = slot->row; row < slot->row + slot->count; row++) {
        uint32_t flags = turn->agents.flags[row];
        if ((flags & DRIVE_ACTIVE) && !(turn->config->remove_at_goal && (flags & DRIVE_REACHED))) return 0;
    }
    return 1;
}

void drive_slot_set(drive_turn* turn, int was_last, int last) {
    const pv_rows* rows = &turn->block->rows[0];
    drive_agents* agents = &turn->agents;
    drive_slot* slot = turn->slot;
    const int was_over = was_last || slot->over;
    slot->over = (uint32_t)is_over(turn);
    const int over = last || slot->over;
    drive_sincos_array(agents->heading + slot->row, agents->sine + slot->row, agents->cosine + slot->row, slot->count);
    drive_collect_bodies(turn);
    for (uint32_t row = slot->row; row < slot->row + slot->count; row++) {
        if (was_over && !over) { // sums of an episode whose record is left already
            agents->flags[row] &= ~DRIVE_SCORED;
            drive_clear_sums(turn, row);
        }
        agents->goal_distance[row] = drive_goal_distance(agents, row);
        int is_blank = was_over && over && !rows->masks[turn->first_row + row]; // of a scene that ended before its bundle did
        if (is_blank || !(agents->flags[row] & DRIVE_ACTIVE)) {
            drive_rows_blank(turn, row, 1);
            if (!(agents->flags[row] & DRIVE_ACTIVE)) agents->flags[row] |= DRIVE_BLANK;
            continue;
        }
        agents->flags[row] &= ~DRIVE_BLANK;
        int terminal = turn->config->remove_at_goal && (agents->flags[row] & DRIVE_REACHED);
        drive_near edges;
        drive_observe_edges(turn, row, &edges);
        drive_observe(turn, row);
        write_flags(turn, row, 0.0f, terminal, over && !terminal, 1);
    }
}
