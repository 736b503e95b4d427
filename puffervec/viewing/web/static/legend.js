// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Legend of a scene: its colours by role; a click hides a role, another one shows it again.

class Legend {
    // changed(): called after a click, when the stage has changed.
    constructor(changed) {
        this.changed = changed;
        this.node = element("div", {class: "legend"});
    }

    // Show the roles with a colour that the scene of a stage uses.
    show(stage) {
        this.node.replaceChildren(
            ...stage.scene.roles.flatMap(({name, colour}, role) => {
                if (!colour || !stage.scene.used.has(role)) return [];
                const swatch = element("i", {});
                swatch.style.background = themeColour(colour, stage.dark);
                const settings = {
                    type: "button",
                    "aria-pressed": String(!stage.hidden.has(role)),
                    title: "show or hide",
                };
                return [
                    element(
                        "button",
                        {...settings, onclick: () => this.toggle(stage, role)},
                        swatch,
                        name,
                    ),
                ];
            }),
        );
    }

    toggle(stage, role) {
        if (!stage.hidden.delete(role)) stage.hidden.add(role);
        this.show(stage);
        this.changed();
    }
}
