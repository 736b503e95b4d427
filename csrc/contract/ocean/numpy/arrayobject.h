// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for NumPy's header in bindings of PufferLib 3.0: see Python.h.
#pragma once

#include <stdint.h>
