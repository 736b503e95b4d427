// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The second Ctrl-C or SIGTERM of `puffer-train`. Python runs its own signal handlers only between
// two instructions of the interpreter, so an endless loop in the C code of an env that is stepped
// in this process would keep them from running for ever.
#pragma once

#include "contract/base.h"

/* [cffi] */
// Makes the second SIGINT or SIGTERM (one of each counts as two) end the process immediately, with
// status 128 + its number, from within the signal handler. The first one goes to the handler that
// is installed now. Setting another handler for a signal, as signal.signal does, undoes this for
// that signal. Another call starts the count again.
void pv_stop_by_second_signal(void);
/* [/cffi] */
