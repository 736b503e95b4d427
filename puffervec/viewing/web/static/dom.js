// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Elements. All words go in as text, never as HTML: names of scenes and runs may be anything.

// Make an element: element("button", {type: "button", class: "one", onclick: f}, "text", child, ...).
function element(name, settings = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(settings)) {
        if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
        else if (value !== false) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
}

function button(label, title, onclick, settings = {}) {
    return element("button", {type: "button", title, "aria-label": title, onclick, ...settings}, label);
}

// A number with so many digits behind the point.
function said(number, digits) {
    return Number.isFinite(number) ? number.toFixed(digits) : "-";
}

const THEMES = ["auto", "light", "dark"];

// A button that switches between the system's colours, light and dark. changed(dark): called now and at each change.
function themeSwitch(root, changed) {
    const wish = window.matchMedia("(prefers-color-scheme: dark)");
    let theme = 0;
    const apply = () => {
        const dark = THEMES[theme] === "auto" ? wish.matches : THEMES[theme] === "dark";
        root.dataset.theme = dark ? "dark" : "light";
        made.textContent = `theme: ${THEMES[theme]}`;
        changed(dark);
    };
    const next = () => {
        theme = (theme + 1) % THEMES.length;
        apply();
    };
    const made = button("", "colours: as the system has them, light or dark (t)", next, {class: "theme"});
    wish.addEventListener("change", apply);
    return {made, apply, next};
}
