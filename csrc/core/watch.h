// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Who must not live on: a worker without its learner, what the envs have started without its
// worker, and a copy of a worker that an env made by fork and let come back. Worker processes only.
#pragma once

#include <stdint.h>

/* [cffi] */
// Ends all processes that a process has started, and what those have started, by SIGKILL: also
// those in groups and sessions of their own, as long as the one that started them lives. Does
// nothing on systems that do not tell who started whom.
void pv_end_descendants(int pid);
// Starts a thread that ends this process at once when the learner is gone, with exit status 70;
// with its descendants and its process group, where it leads one, by SIGKILL. Needs no GIL. Returns
// 0, or an errno.
//   pipe      becomes readable or is hung up when nobody holds its other end any more: a forked
//   child of the learner may learner   a pidfd of the learner, or -1 where the system has none pid
//   of the learner: looked at ten times a second where there is no pidfd
int pv_watch_learner(int pipe, int learner, int pid);
// From now on `rows`, up to the last whole page of `bytes`, cannot be written by a forked copy of
// this process: it is told so on stderr and ends with exit status 71. Returns 0, or an errno.
int pv_keep_from_forks(void* rows, uint64_t bytes);
// Which copy this process is, as it counts forks: it differs from the number before in a forked
// child. Returns 0 on errors.
uint32_t pv_fork_count(void);
/* [/cffi] */

// Says what pv_keep_from_forks says and ends this process.
_Noreturn void pv_end_copy(void);
