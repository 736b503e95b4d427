# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Scripts by which bash, zsh and fish complete a command.

At each TAB such a script calls `COMMAND completion -- WORD...`, which prints the completions of the
last word, one per line; nothing where files are expected.
"""

from __future__ import annotations

_SCRIPTS = {
    "bash": """\
_FUNCTION() {
    local IFS=$'\\n'
    COMPREPLY=($(COMMAND completion -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _FUNCTION COMMAND
""",
    "zsh": """\
#compdef COMMAND
_FUNCTION() {
    local -a found
    found=("${(@f)$(COMMAND completion -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[*]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _FUNCTION COMMAND
""",
    "fish": """\
function __FUNCTION
    set -l words (commandline -opc) (commandline -ct)
    COMMAND completion -- $words[2..-1] 2>/dev/null
end
complete -c COMMAND -a '(__FUNCTION)'
""",
}


def scripts(command: str) -> dict[str, str]:
    """Return the script of each shell for a command, such as "puffer-train"."""
    function = command.replace("-", "_")
    return {
        shell: text.replace("FUNCTION", function).replace("COMMAND", command)
        for shell, text in _SCRIPTS.items()
    }
