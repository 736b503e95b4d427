# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""List changes of the public Python API since a tag: `python scripts/api.py v0.1.0`.

It uses griffe and imports no code. Public names are those that a package of PUBLIC lists in
`__all__`, or defines without an underscore.
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


def public_members(package: object, module: str) -> dict[str, object]:
    """Return griffe's objects of the public names of a module of a loaded package.

    The result is {} if the module does not exist.
    """
    import griffe

    assert isinstance(package, griffe.Module)
    inner = module.partition(".")[2]
    try:
        tree = package[inner] if inner else package
    except KeyError:
        return {}
    names = tree.exports
    if names is None:
        own = [
            name
            for name, member in tree.members.items()
            if not member.is_alias and not member.is_module
        ]
        names = [name for name in own if not name.startswith("_")]
    return {
        str(getattr(name, "name", name)): tree.members.get(str(getattr(name, "name", name)))
        for name in names
    }


def target(member: object) -> object:
    """Return the definition of a member, even of an imported name; None if that is not found."""
    import griffe

    if not isinstance(member, griffe.Alias):
        return member
    try:
        return member.final_target
    except (griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None


def breakages(root: Path, tag: str, modules: Sequence[str] = PUBLIC) -> Iterator[str]:
    """Yield a line for each change since `tag` that may break code of users.

    These are removed names and changed parameters, kinds and values.

    Raises:
        RuntimeError: the tag does not exist, or has no such package.
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
        new = public_members(now, module)
        # All names of the module are compared together.
        old_names, new_names = griffe.Module(module), griffe.Module(module)
        for name, member in public_members(before, module).items():
            if name not in new:
                yield f"{module}.{name}: gone"
                continue
            pair = target(member), target(new[name])
            # Other members are created on access.
            if all(isinstance(one, griffe.Object) for one in pair):
                old_names.members[name], new_names.members[name] = pair  # type: ignore[assignment]
        for change in griffe.find_breaking_changes(old_names, new_names):
            line = " ".join(
                COLOUR.sub("", change.explain(griffe.ExplanationStyle.ONE_LINE)).split()
            )
            if line not in seen:
                yield line
            seen.add(line)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the changes since a tag; return 1 if there are some, 2 if nothing can be compared."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if len(words) != 1:
        print("usage: python scripts/api.py TAG", file=sys.stderr)
        return 2
    try:
        lines = list(breakages(ROOT, words[0]))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(lines) or f"nothing that breaks code since {words[0]}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
