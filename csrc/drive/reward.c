// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Judges an agent's step: whether it left the road or reached its goal, and what it is paid.
#include "kernels.h"
#include "state.h"

float drive_goal_distance(const drive_agents* agents, uint32_t row) {
    float dx = agents->goal_x[row] - agents->x[row], dy = agents->goal_y[row] - agents->y[row];
    return drive_sqrt(dx * dx + dy * dy);
}

// True if this step's path of the centre comes within the goal radius.
static int path_meets_goal(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    float x0 = turn->scratch.old_x[row], y0 = turn->scratch.old_y[row];
    float px = agents->x[row] - x0, py = agents->y[row] - y0;
    float gx = agents->goal_x[row] - x0, gy = agents->goal_y[row] - y0;
    float square = px * px + py * py;
    float t = square > 0.0f ? drive_clamp((gx * px + gy * py) / square, 0.0f, 1.0f) : 0.0f;
    float dx = gx - t * px, dy = gy - t * py;
    return dx * dx + dy * dy <= turn->config->goal_radius_m * turn->config->goal_radius_m;
}

float drive_judge(drive_turn* turn, uint32_t row, int offroad, int* terminal) {
    const pv_drive_config* config = turn->config;
    drive_agents* agents = &turn->agents;
    uint32_t flags = agents->flags[row];
    float reward = config->reward_step;
    uint32_t begun = turn->scratch.new_contacts[row];
    int departed = offroad && !(flags & DRIVE_OFFROAD);
    flags = offroad ? flags | DRIVE_OFFROAD : flags & ~DRIVE_OFFROAD;
    agents->contacts[row] += begun;
    agents->departures[row] += (uint32_t)departed;
    reward += config->reward_collision * (float)begun;
    if (departed) reward += config->reward_offroad;
    float distance = drive_goal_distance(agents, row);
    *terminal = 0;
    if (!(flags & DRIVE_REACHED)) {
        float nearer = agents->goal_distance[row] - distance;
        agents->progress[row] += nearer;
        reward += config->reward_progress * nearer;
        if (path_meets_goal(turn, row)) {
            flags |= DRIVE_REACHED;
            if (!agents->contacts[row] && !agents->departures[row]) flags |= DRIVE_SCORED;
            agents->goal_step[row] = turn->slot->clock;
            reward += config->reward_goal;
            *terminal = config->remove_at_goal != 0;
        }
    }
    agents->goal_distance[row] = distance;
    agents->flags[row] = flags;
    agents->episode_return[row] += reward;
    return reward;
}
