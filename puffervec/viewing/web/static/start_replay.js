// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Start a page that consists of a replay only.
new ReplayPage(
    document.getElementById("app"),
    JSON.parse(document.getElementById("data").textContent),
    document,
    true,
);
