// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The values of episode records (metrics.c), and the limits behind their rates.
#pragma once

#include "contract/base.h"

// Limits of comfort, in SI units: those of nuPlan's metrics (Karnchanachari et al., "Towards
// learning-based planning: The nuPlan benchmark for real-world autonomous driving", 2024), which
// smooths logs. Here they hold for differences over a span of steps.
#define DRIVE_SPAN_STEPS 5u
#define DRIVE_COMFORT_ACCELERATION 2.40f
#define DRIVE_COMFORT_BRAKING 4.05f
#define DRIVE_COMFORT_LATERAL 4.89f
#define DRIVE_COMFORT_JERK 4.13f
#define DRIVE_COMFORT_YAW_RATE 0.95f

// What counts as lawful, besides red lights and the side of the road.
#define DRIVE_STANDS_MPS 0.5f      // slower than this a car stands
#define DRIVE_STOP_M 10.0f         // a car that stood at most this far before a line has stopped
#define DRIVE_OVER_LIMIT_MPS 2.23f // largest lawful excess over a limit: nuPlan's bound, 5 mph

// Values of an episode record, sums over the agents of the scene.
#define DRIVE_RECORD_VALUES(X) \
    X(agents) \
    X(goals)      /* agents that reached their goal */ \
    X(collisions) /* agents with a contact or more */ \
    X(offroads)   /* agents that touched a road edge */ \
    X(score)      /* agents that reached their goal without an earlier contact or departure */ \
    X(goal_steps) /* steps to the goal, of those that reached it */ \
    X(complete)   /* 1: the episode was complete; 0: the bundle was redrawn before its end */ \
    X(contacts) \
    X(departures)  /* times an agent began to touch a road edge */ \
    X(progress_m)  /* metres by which goals came nearer */ \
    X(goals_again) /* times that goals were reached after the first time */
// ... and with the setting `metrics`:
#define DRIVE_RECORD_METRICS(X) \
    X(at_fault)    /* agents with a contact that was their fault */ \
    X(red_light)   /* agents that crossed a stop line at red */ \
    X(wrong_way)   /* agents that drove more than PV_DRIVE_WRONG_WAY_M against their lane */ \
    X(stop_sign)   /* agents that crossed the line of a stop sign, or of a light that flashes red, \
                      without a stop */ \
    X(lawful)      /* agents with none of the last three, and never DRIVE_OVER_LIMIT_MPS above the \
                      limit */ \
    X(short_ttc)   /* agents with a time to collision below DRIVE_SHORT_TTC_S */ \
    X(route_share) /* of agents: the share of the way to the goal that they covered */ \
    X(steps)       /* of agents */ \
    X(lane_steps)  /* ... with a lane */ \
    X(aligned_steps)     /* ... within 15 degrees of it */ \
    X(lane_offset_m)     /* of lane_steps: distances from the lane's centre line */ \
    X(limit_steps)       /* of lane_steps: the lane has a speed limit */ \
    X(speeding_steps)    /* ... and the car is faster */ \
    X(spans)             /* of DRIVE_SPAN_STEPS steps of an agent */ \
    X(comfortable_spans) /* within all limits of comfort */ \
    X(path_m)            /* of spans: distances from the log's path at their ends */ \
    X(short_ttc_steps)   /* steps with such a short time to collision */ \
    X(least_ttc_s)       /* of agents: the least time to collision */ \
    X(peak_acceleration) /* of agents: the largest ... */ \
    X(peak_braking) \
    X(peak_lateral) \
    X(peak_jerk) \
    X(logged)          /* agents whose log continues while they drive */ \
    X(ade_m)           /* of these: mean distance from where the log has them */ \
    X(fde_m)           /* of these: the last such distance */ \
    X(timed_steps)     /* steps to the goal, of agents that reach it and whose log does */ \
    X(log_steps)       /* ... and steps of their log */ \
    X(failed_to_yield) /* agents that entered the way of a body that went first */
#define RECORD(name) DRIVE_RECORD_##name,

enum {
    DRIVE_RECORD_VALUES(RECORD) DRIVE_RECORD_BASE,
    DRIVE_RECORD_BEFORE_METRICS = DRIVE_RECORD_BASE - 1,
    DRIVE_RECORD_METRICS(RECORD) DRIVE_RECORD_COUNT
};

#undef RECORD
_Static_assert(DRIVE_RECORD_COUNT <= PV_RECORD_VALUES, "record values do not fit");
