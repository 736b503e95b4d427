# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""List changes of the public Python API since a tag: `python scripts/api.py v0.1.0`.

griffe finds them. Public names are those that a package of PUBLIC lists in `__all__`, or defines
without an underscore. Nothing is imported.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLOUR = re.compile("\x1b\\[[0-9;]*m")
PUBLIC = (
    "puffervec",
    "puffervec.compat.pufferlib",
    "puffervec.system.cores",
    "puffervec.contract.drawing",
    "puffervec.contract.env_types",
    "puffervec.errors",
    "puffervec.contract.evaluation",
    "puffervec.gym",
    "puffervec.contract.keyboard",
    "puffervec.contract.native",
    "puffervec.pettingzoo",
    "puffervec.profile",
    "puffervec.sb3",
    "puffervec.train",
    "puffervec.wings.plan",
    "puffervec.wings.sharded",
    "puffervec.contract.training",
)


def exported(package: object, module: str) -> dict[str, object]:
    """Return {name: griffe's object} of what a public module of a loaded package offers, {} where
    there is no such module.
    """
    import griffe

    assert isinstance(package, griffe.Module)
    inner = module.partition(".")[2]
    try:
        found = package[inner] if inner else package
    except KeyError:
        return {}
    names = found.exports
    if names is None:
        own = [
            name
            for name, member in found.members.items()
            if not member.is_alias and not member.is_module
        ]
        names = [name for name in own if not name.startswith("_")]
    return {
        str(getattr(name, "name", name)): found.members.get(str(getattr(name, "name", name)))
        for name in names
    }


def target(member: object) -> object:
    """Return what a member is in the end: an imported name leads to its definition; None where
    nothing can be found.
    """
    import griffe

    if not isinstance(member, griffe.Alias):
        return member
    try:
        return member.final_target
    except (griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None


def breakages(root: Path, tag: str, modules: Sequence[str] = PUBLIC) -> Iterator[str]:
    """Yield a line for each change since `tag` that may break code of users: what is gone,
        parameters, kinds, values.

    Raises: RuntimeError: git knows no such tag, or no such package there.
    """
    import griffe

    top = modules[0].partition(".")[0]
    try:
        before = griffe.load_git(
            top,
            ref=tag,
            repo=str(root),
            search_paths=["."],
            allow_inspection=False,
            resolve_aliases=True,
        )
    except (griffe.GriffeError, RuntimeError, ImportError) as error:
        raise RuntimeError(f"{tag} holds no {top} to compare with: {error}") from error
    now = griffe.load(
        top,
        search_paths=[str(root)],
        allow_inspection=False,
        resolve_aliases=True,
        try_relative_path=False,
    )
    seen: set[str] = set()
    for module in modules:
        new = exported(now, module)
        old_names, new_names = (
            griffe.Module(module),
            griffe.Module(module),
        )  # what is compared: all names of the module at once
        for name, member in exported(before, module).items():
            if name not in new:
                yield f"{module}.{name}: gone"
                continue
            pair = target(member), target(new[name])
            if all(
                isinstance(found, griffe.Object) for found in pair
            ):  # else it is made when it is asked for
                old_names.members[name], new_names.members[name] = pair  # type: ignore[assignment]
        for change in griffe.find_breaking_changes(old_names, new_names):
            line = " ".join(
                COLOUR.sub("", change.explain(griffe.ExplanationStyle.ONE_LINE)).split()
            )
            if line not in seen:
                yield line
            seen.add(line)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the changes since a tag. Returns 1 where there are some, 2 where nothing can be
    compared.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if len(given) != 1:
        print("usage: python scripts/api.py TAG", file=sys.stderr)
        return 2
    try:
        lines = list(breakages(ROOT, given[0]))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(lines) or f"nothing that breaks code since {given[0]}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
