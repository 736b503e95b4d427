// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// HTML elements. All words are set as text, never as HTML: scenes and runs can have any names.

// Make an element: element("button", {type: "button", class: "one", onclick: f}, "text", child,
// ...).
function element(name, settings = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(settings)) {
        if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
        else if (value !== false) node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
}

const filled = new WeakMap(); // copies of what `refill` put into places

// Show nodes in a place. It keeps the nodes it has if they are equal, and with them the focus and
// what the user has opened.
function refill(place, ...nodes) {
    const wanted = element("div", {}, ...nodes);
    if (filled.get(place)?.isEqualNode(wanted)) return;
    filled.set(place, wanted.cloneNode(true));
    place.replaceChildren(...nodes);
}

function button(label, title, onclick, settings = {}) {
    return element(
        "button",
        {type: "button", title, "aria-label": title, onclick, ...settings},
        label,
    );
}

// Format a number with a number of decimals.
function formatNumber(number, digits) {
    return Number.isFinite(number) ? number.toFixed(digits) : "-";
}

const THEMES = ["auto", "light", "dark"];

// Make a button that switches between the system's, light and dark colours. changed(dark): called
// at the start and at each change.
function themeSwitch(root, changed) {
    const wish = window.matchMedia("(prefers-color-scheme: dark)");
    let theme = 0;
    const apply = () => {
        const dark = THEMES[theme] === "auto" ? wish.matches : THEMES[theme] === "dark";
        root.dataset.theme = dark ? "dark" : "light";
        node.textContent = `theme: ${THEMES[theme]}`;
        changed(dark);
    };
    const next = () => {
        theme = (theme + 1) % THEMES.length;
        apply();
    };
    const node = button("", "colours: as the system has them, light or dark (t)", next, {
        class: "theme",
    });
    wish.addEventListener("change", apply);
    return {node, apply, next};
}
