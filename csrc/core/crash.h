// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What a process says of itself when C code crashes or hangs in it: the C functions that were at
// work. Used by worker processes, whose words the learner reads, and by a learner that steps envs
// itself. Nothing here runs before such a signal comes.
#pragma once

#include "contract/base.h"

/* [cffi] */
// From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write the line `head` and a line "
// FUNCTION+0xOFFSET in LIBRARY" per C function, innermost first, to `fd`; then what handled them
// before goes on. Calls after the first change fd and head alone. Does nothing in builds with a
// sanitizer, which has a report of its own, and without glibc. head: must outlive the watch.
void pv_crash_watch(int fd, const char* head);
// From now on the signal `number` writes the same lines after `head`, to the fd of pv_crash_watch;
// then what handled it before goes on. For a process that hangs.
void pv_crash_answer(int number, const char* head);
// Sets back what handled the signals of pv_crash_watch before, unless somebody else has taken them
// over since.
void pv_crash_unwatch(void);
/* [/cffi] */
