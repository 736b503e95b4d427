// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Reports the active C functions of a process when its C code crashes or hangs. Used by worker
// processes, whose reports the learner reads, and by a learner that steps envs itself. Nothing here
// runs before such a signal arrives.
#pragma once

#include "contract/base.h"

/* [cffi] */
// Makes SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write the line `head` and a line
// "  FUNCTION+0xOFFSET in LIBRARY" per C function, innermost first, to `fd`; the previous handler
// runs afterwards. Further calls only change fd and head. Does nothing without glibc, and in builds
// with a sanitizer, which writes its own report. head: must outlive the watch.
void pv_crash_watch(int fd, const char* head);
// Makes the signal `number` write these lines after `head`, to the fd of pv_crash_watch; the
// previous handler runs afterwards. For a process that hangs.
void pv_crash_answer(int number, const char* head);
// Restores the previous handlers of the signals of pv_crash_watch, except where other code has
// replaced ours since.
void pv_crash_unwatch(void);
/* [/cffi] */
