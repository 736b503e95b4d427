// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// A page that is a replay and nothing else.
new ReplayPage(document.getElementById("app"), JSON.parse(document.getElementById("data").textContent), document, true);
