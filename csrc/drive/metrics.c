// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What an agent's episode adds up to, and the episode records (DRIVE_RECORD_VALUES) that are made of it.
#include "state.h"

void drive_clear_sums(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    agents->episode_return[row] = 0.0f;
    agents->progress[row] = 0.0f;
    agents->contacts[row] = 0;
    agents->departures[row] = 0;
    agents->goal_step[row] = 0;
}

void drive_leave_record(const drive_turn* turn, int complete) {
    pv_record* record = pv_block_record(turn->block, turn->env);
    if (!record) return;
    const drive_agents* agents = &turn->agents;
    const drive_slot* slot = turn->slot;
    float v[DRIVE_RECORD_COUNT] = {0}, sum = 0.0f;
    for (uint32_t row = slot->row; row < slot->row + slot->count; row++) {
        uint32_t flags = agents->flags[row];
        sum += agents->episode_return[row];
        v[DRIVE_RECORD_goals] += flags & DRIVE_REACHED ? 1.0f : 0.0f;
        v[DRIVE_RECORD_score] += flags & DRIVE_SCORED ? 1.0f : 0.0f;
        v[DRIVE_RECORD_collisions] += agents->contacts[row] ? 1.0f : 0.0f;
        v[DRIVE_RECORD_offroads] += agents->departures[row] ? 1.0f : 0.0f;
        v[DRIVE_RECORD_goal_steps] += (float)agents->goal_step[row];
        v[DRIVE_RECORD_contacts] += (float)agents->contacts[row];
        v[DRIVE_RECORD_departures] += (float)agents->departures[row];
        v[DRIVE_RECORD_progress_m] += agents->progress[row];
    }
    v[DRIVE_RECORD_agents] = (float)slot->count;
    v[DRIVE_RECORD_complete] = complete ? 1.0f : 0.0f;
    record->episode = turn->state->episode;
    record->task = slot->scene;
    record->slot = (uint32_t)(slot - turn->slots);
    record->length = slot->clock;
    record->episode_return = sum / (float)slot->count;
    memcpy(record->values, v, sizeof v);
}
