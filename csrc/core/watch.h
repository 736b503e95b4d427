// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Ends processes that must not outlive others: a worker whose learner is gone, the processes that
// envs started when their worker ends, and a copy of a worker that an env forked and that returns
// into the worker loop. Worker processes only.
#pragma once

#include <stdint.h>

/* [cffi] */
// Ends all descendants of a process by SIGKILL, including those in process groups and sessions of
// their own, as long as their parent lives. Does nothing on systems that do not list children.
void pv_end_descendants(int pid);
// Starts a thread that ends this process as soon as the learner is gone, with exit status 70, and
// its descendants and the process group that it leads, if any, by SIGKILL. Needs no GIL. Returns 0,
// or an errno.
//   pipe      becomes readable or is hung up when no process holds its other end any more; a forked
//             child of the learner may still hold it
//   learner   a pidfd of the learner, or -1 where the system has none
//   pid       of the learner: checked ten times a second where there is no pidfd
int pv_watch_learner(int pipe, int learner, int pid);
// Keeps forked copies of this process from writing to `rows`, up to the last whole page of `bytes`:
// a copy that does writes a message to stderr and ends with exit status 71. Returns 0, or an errno.
int pv_keep_from_forks(void* rows, uint64_t bytes);
// Returns a number that changes in a forked child; 0 on errors.
uint32_t pv_fork_count(void);
/* [/cffi] */

// Writes the message of pv_keep_from_forks and ends this process.
_Noreturn void pv_end_copy(void);
