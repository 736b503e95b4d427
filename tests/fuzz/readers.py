# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What the fuzzing loop (loop.py) runs on in Python: each reader of outside data, what it feeds on,
the errors it may raise.

A reader's `make` returns input number i, mutated from the corpus; `read` returns True where it was
accepted, raises one of `errors` where it was refused, and anything else is a bug.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import puffervec
from drive_env.config import DriveConfig
from drive_env.prepare import load_cached
from drive_env.scenes import packed
from drive_env.scenes.bin_scene import BY_NAME, bin_bytes
from drive_env.scenes.bin_v3 import Variant
from drive_env.scenes.compile import CompiledScene, CompileSettings, compile_scene, reindex
from drive_env.scenes.reader import check_drivable, parse_scene
from drive_env.scenes.sceneset import SceneSet, write_scene_set
from drive_env.scenes.schema import Scene
from puffervec.contract.native import EnvData, NativeEnv
from puffervec.errors import CheckpointError, ConfigError, SceneError
from tests.drive_env.bins import tails, v3_bytes
from tests.fuzz.mutators import dump, mutate_bytes, mutate_tree
from tests.fuzz.program import CORPUS, compile_corpus

SETTINGS = CompileSettings((4, 4, 4), 50.0)
STEPS = 3


class Reader:
    """One reader under test. folder: scratch space that is this reader's own."""

    errors: ClassVar[tuple[type[Exception], ...]]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, rng: random.Random) -> bytes:
        """Return a mutated input."""
        raise NotImplementedError

    def read(self, data: bytes) -> bool:
        """Read an input; True: it was accepted."""
        raise NotImplementedError

    def finish(self) -> None:
        """Do what was put off to the end."""


class JsonScenes(Reader):
    """drive_env/scenes/json_scene.py; what it lets pass is compiled, and driven, several scenes in
    one env.
    """

    errors = (SceneError,)
    BATCH = 64

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.corpus = [path.read_bytes() for path in sorted(CORPUS.glob("*.json"))]
        self.waiting: list[CompiledScene] = []

    def make(self, rng: random.Random) -> bytes:
        data = rng.choice(self.corpus)
        if rng.random() < 0.15:
            return mutate_bytes(rng, data)
        return dump(mutate_tree(rng, json.loads(data)))

    def read(self, data: bytes) -> bool:
        scene = parse_scene(data, "fuzz", "fuzz.json")
        if not scene.objects:
            return True  # a map alone can be converted and drawn
        compiled = compile_scene(check_drivable(scene, "fuzz"), SETTINGS)
        if 0 < compiled.valid_vehicles <= 16:
            self.waiting.append(compiled)
        if len(self.waiting) >= self.BATCH:
            self.finish()
        return True

    def finish(self) -> None:
        if self.waiting:
            write_scene_set(self.folder / "batch.pvset", self.waiting, SETTINGS)
            drive_all(self.folder / "batch.pvset")
        self.waiting = []


class BinScenes(JsonScenes):
    """drive_env/scenes/bin_scene.py and bin_v3.py; what they let pass is compiled and driven."""

    WORDS = (0, 1, 2, 3, 4, 6, 10, 20, 31, 91, 2**31 - 1, 2**31, 2**32 - 1, 0x7FC00000, 0x7F800000,
             0xFF800000, 0x7149F2CA, 0x80000000, 0x3F800000, 0x7F7FFFFF, 0x00000001)  # fmt: skip

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        scenes = [parse_scene(data, "corpus", "corpus.json") for data in self.corpus]
        self.corpus = [write(scene) for scene in scenes[:2] for write in self.writers()]

    @staticmethod
    def writers() -> list[Callable[[Scene], bytes]]:
        """What writes a scene in each of the layouts."""
        flat = [functools.partial(bin_bytes, layout=layout) for layout in BY_NAME]
        return [
            *flat,
            lambda scene: b"0123456789abcdef" + bin_bytes(scene),
            lambda scene: v3_bytes(scene, Variant(), tails(scene)),
        ]

    def make(self, rng: random.Random) -> bytes:
        data = bytearray(rng.choice(self.corpus))
        if rng.random() < 0.2:
            return mutate_bytes(rng, bytes(data))
        for _ in range(rng.choice([1, 1, 2, 3])):
            word = rng.randrange(min(len(data), 400) if rng.random() < 0.3 else len(data)) // 4
            data[4 * word : 4 * word + 4] = rng.choice(self.WORDS).to_bytes(4, "little")
        return bytes(data)


def drive_all(path: Path) -> None:
    """Drive each scene of a set that has agents for some steps; observations must be finite and
    within their bounds.
    """
    scenes = np.flatnonzero(SceneSet(path).agents(DriveConfig(control="valid")))
    if not len(scenes):
        return
    env = NativeEnv("drive", DriveConfig, lambda config: EnvData(data=path))
    kwargs = {
        "num_agents": 16,
        "control": 1,
        "partners": 3,
        "lanes": 4,
        "lines": 4,
        "edges": 4,
        "resample_steps": 2,
    }
    with puffervec.make(env, env_kwargs=kwargs, backend="serial", num_envs=len(scenes)) as vec:
        vec.set_tasks(np.arange(len(scenes)), scenes)
        shown = [vec.reset(seed=1)[0]]
        for step in range(STEPS):
            actions = np.random.default_rng(step).integers(0, 91, vec.num_agents)
            rows = vec.step(actions)
            shown += [rows[0], rows[1][:, None]]
        low, high = vec.observation_space.low, vec.observation_space.high
        for array in shown:
            assert np.isfinite(array).all(), "a row is not finite"
        for array in shown[::2]:
            assert (array >= low).all() and (array <= high).all(), "an observation is out of bounds"


def with_sums(data: bytes) -> bytes:
    """A set with the magic, version, size and sums of its bytes, whatever they are."""
    head = np.frombuffer(data[: packed.SET.itemsize], packed.SET).copy()
    room = (len(data) - packed.SET.itemsize) // packed.ENTRY.itemsize
    count = min(int(head["scene_count"][0]), room)
    entries = np.frombuffer(data, packed.ENTRY, count, packed.SET.itemsize).copy()
    for entry in entries:
        entry["crc32"] = zlib.crc32(data[int(entry["offset"]) :][: int(entry["bytes"])])
    head["bytes"], head["crc32"], head["magic"], head["version"] = (
        len(data),
        0,
        packed.MAGIC,
        packed.VERSION,
    )
    head["crc32"] = zlib.crc32(entries.tobytes(), zlib.crc32(head.tobytes()))
    return head.tobytes() + entries.tobytes() + data[packed.SET.itemsize + entries.nbytes :]


class SceneSets(Reader):
    """drive_env/scenes/sceneset.py and notes beside a cached set; sums are made right, so that much
    gets past them.
    """

    errors = (SceneError,)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.corpus = [path.read_bytes() for path in compile_corpus(folder)]
        left_out = [["a.json", "an older format"], ["b.json", "a single frame"]]
        self.notes = json.dumps({"left_out": left_out, "counts": [2]}).encode()

    def make(self, rng: random.Random) -> bytes:
        data = bytearray(rng.choice(self.corpus))
        for _ in range(rng.choice([1, 1, 2, 3])):
            size, value = (
                rng.choice([2, 4, 8]),
                rng.choice([0, 1, 64, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]),
            )
            where = (
                rng.randrange(64, min(len(data), 600) if rng.random() < 0.7 else len(data))
                // size
                * size
            )
            data[where : where + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
        found = bytes(data) if rng.random() < 0.9 else mutate_bytes(rng, bytes(data))
        if len(found) < packed.SET.itemsize or rng.random() < 0.05:
            return found
        return with_sums(found)

    def read(self, data: bytes) -> bool:
        path = self.folder / "one.pvset"
        path.write_bytes(data)
        rng = random.Random(zlib.crc32(data))
        notes = (
            dump(mutate_tree(rng, json.loads(self.notes)))
            if rng.random() < 0.7
            else mutate_bytes(rng, self.notes)
        )
        path.with_suffix(".json").write_bytes(notes)
        load_cached(path)
        found = SceneSet(path)
        _ = found.names, found.agents(DriveConfig()), found.agents(DriveConfig(control="valid"))
        for index in range(min(len(found), 8)):
            found.scene(index)
            stored = found[index]
            _ = (
                stored.counts,
                reindex(stored, SETTINGS),
                write_scene_set(self.folder / "again.pvs", [stored], SETTINGS),
            )
            compile_scene(stored.scene(), SETTINGS)
        return True


class Checkpoints(Reader):
    """puffervec/train/run/checkpoint.py, the config in a manifest, the policies it describes;
    hashes and lengths are made right.
    """

    errors = (CheckpointError, ConfigError)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import torch
        from safetensors.torch import save

        from puffervec.train.act.evaluate import load_policies
        from puffervec.train.config.sections import TrainConfig
        from puffervec.train.config.target import env_spec
        from puffervec.train.policies.registry import build_policy

        self._load: Callable[[Path], Any] = lambda path: load_policies(path, torch.device("cpu"))
        config = TrainConfig.of("probe", policy={"hidden": (8, 4)})
        self.tensors = save(
            dict(build_policy(env_spec(config).groups[0], config.policy).state_dict())
        )
        self.manifest = {
            "format_version": 1, "env": "probe", "spec_hash": "0" * 16,
            "config": {"target": "probe", **config.tables()},
            "counters": {"agent_steps": 100, "updates": 2}, "files": {},
            "policies": {"default": {"class": "MLPPolicy", "group": "agents"}},
        }  # fmt: skip

    def make(self, rng: random.Random) -> bytes:
        """Two parts behind their lengths: the manifest without a hash, and the file of tensors."""
        manifest, tensors = json.dumps(self.manifest).encode(), self.tensors
        which = rng.random()
        if which < 0.3:
            manifest = dump(mutate_tree(rng, copy.deepcopy(self.manifest)))
        elif which < 0.35:
            manifest = mutate_bytes(rng, manifest)
        elif which < 0.9:
            size = struct.unpack("<Q", tensors[:8])[0]
            head = dump(mutate_tree(rng, json.loads(tensors[8 : 8 + size])))
            length = (
                len(head)
                if rng.random() < 0.9
                else rng.choice([0, 1, 2**31, 2**63, 2**64 - 1, len(head) + 1])
            )
            tensors = struct.pack("<Q", length) + head + tensors[8 + size :]
        else:
            tensors = mutate_bytes(rng, tensors)
        return struct.pack("<Q", len(manifest)) + manifest + tensors

    def read(self, data: bytes) -> bool:
        size = struct.unpack("<Q", data[:8])[0]
        manifest, tensors = data[8 : 8 + size], data[8 + size :]
        try:
            tree = json.loads(manifest)
            if isinstance(tree, dict) and tree.get("files") == {}:
                tree["files"] = {"default.safetensors": hashlib.sha256(tensors).hexdigest()}
                manifest = json.dumps(tree).encode()
        except (ValueError, RecursionError):
            pass
        (self.folder / "manifest.json").write_bytes(manifest)
        (self.folder / "default.safetensors").write_bytes(tensors)
        self._load(self.folder)
        return True


class RunConfigs(Reader):
    """puffervec/train/config/sections.py and flags.py: a --config file, laid over the config of an
    env, checked.
    """

    errors = (ConfigError,)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from puffervec.train.config import flags
        from puffervec.train.config.sections import TrainConfig

        self._apply: Callable[[Any, Path], Any] = flags.apply_config_file
        self.bases = [TrainConfig.of(name) for name in ("probe", "tag_grid", "drive")]
        self.trees = [base.tables() for base in self.bases]

    def make(self, rng: random.Random) -> bytes:
        """The number of a base, then "T" and TOML, or "J" and JSON tables."""
        which = rng.randrange(len(self.bases))
        if rng.random() < 0.7:
            return b"%dJ" % which + dump(mutate_tree(rng, copy.deepcopy(self.trees[which])))
        lines = []
        for section, table in self.trees[which].items():
            lines += [
                f"[{section}]",
                *(f"{key} = {json.dumps(value)}" for key, value in table.items()),
            ]
        return b"%dT" % which + mutate_bytes(rng, "\n".join(lines).encode())

    def read(self, data: bytes) -> bool:
        base = self.bases[int(data[:1])]
        if data[1:2] == b"J":
            try:
                tables = json.loads(data[2:])
            except (ValueError, RecursionError):
                return False
            if not isinstance(tables, dict):
                return False
            base.merged(tables).check()
            return True
        path = self.folder / "run.toml"
        path.write_bytes(data[2:])
        self._apply(base, path).check()
        return True


READERS: dict[str, type[Reader]] = {
    "json": JsonScenes, "bins": BinScenes, "sets": SceneSets, "checkpoints": Checkpoints,
    "runconfigs": RunConfigs,
}  # fmt: skip
