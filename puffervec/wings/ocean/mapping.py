# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Converts the training settings of PufferLib's .ini files to settings of a run of puffervec.

`SETTINGS` has the keys that can be converted, `IGNORED` the reasons why others cannot. Keys of 3.0,
4.0 and 5.0 do not contradict each other, so one table serves all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from puffervec.contract.training import RETURN
from puffervec.wings.ocean.ini import Sections, value_of

# Key -> setting of puffervec with the same meaning and unit.
SETTINGS = {
    "train.total_timesteps": "train.total_timesteps",
    "train.seed": "train.seed",
    "train.learning_rate": "train.lr",
    "train.anneal_lr": "train.anneal_lr",
    "train.optimizer": "train.optimizer",
    "train.gamma": "train.gamma",
    "train.gae_lambda": "train.gae_lambda",
    "train.update_epochs": "train.update_epochs",
    "train.replay_ratio": "train.update_epochs",
    "train.clip_coef": "train.clip",
    "train.vf_coef": "train.value_coef",
    "train.vf_clip_coef": "train.value_clip",
    "train.ent_coef": "train.entropy_coef",
    "train.max_grad_norm": "train.max_grad_norm",
    "train.adam_eps": "train.adam_eps",
    "train.eps": "train.adam_eps",
    "train.bptt_horizon": "train.horizon",
    "train.horizon": "train.horizon",
    "train.minibatch_size": "train.minibatch_size",
    "train.vtrace_rho_clip": "train.vtrace_rho",
    "train.vtrace_c_clip": "train.vtrace_c",
    "train.torch_deterministic": "train.deterministic",
    "vec.total_agents": "vec.num_envs",
    "vec.num_envs": "vec.num_envs",
    "vec.num_buffers": "vec.num_buffers",
    "policy.hidden_size": "policy.hidden",
    "policy.num_layers": "policy.memory_layers",
    "base.rnn_name": "policy.memory",
    "torch.network": "policy.memory",
    "sweep.metric": "the metric of a sweep",
}
_PLACE = "puffervec chooses it for the machine; set it by a flag if you need to"
_FILES = "runs are kept in --log.folder"
_SELFPLAY = "there are no banks of old policies; use policy.map and --opponent"
_SWEEP = "sweeps have their own search"
# Key or section (with a dot at its end) -> reason.
IGNORED = {
    "train.prio_alpha": "rollouts are not replayed by priority",
    "train.prio_beta0": "rollouts are not replayed by priority",
    "train.adam_beta1": "the optimizer's betas are fixed",
    "train.adam_beta2": "the optimizer's betas are fixed",
    "train.beta1": "the optimizer's betas are fixed",
    "train.beta2": "the optimizer's betas are fixed",
    "train.momentum": "the optimizer's betas are fixed",
    "train.min_lr_ratio": "the learning rate falls in a straight line to a tenth",
    "train.anneal_ent_coef": "give train.entropy_coef points instead",
    "train.min_ent_coef_ratio": "give train.entropy_coef points instead",
    "train.batch_size": "a batch is vec.num_envs x train.horizon",
    "train.max_minibatch_size": "train.microbatch_size bounds memory",
    "train.cpu_offload": "rollouts stay where they are collected",
    "train.precision": _PLACE,
    "train.device": _PLACE,
    "train.gpus": _PLACE,
    "train.compile": _PLACE,
    "train.compile_mode": _PLACE,
    "train.compile_fullgraph": _PLACE,
    "train.name": _FILES,
    "train.project": _FILES,
    "train.data_dir": _FILES,
    "train.checkpoint_interval": "checkpoints are written by time: log.checkpoint_interval_s",
    "vec.backend": _PLACE,
    "vec.num_workers": _PLACE,
    "vec.num_threads": _PLACE,
    "vec.batch_size": _PLACE,
    "vec.zero_copy": _PLACE,
    "vec.seed": "train.seed seeds the envs",
    "vec.num_frozen_banks": _SELFPLAY,
    "vec.frozen_bank_pct": _SELFPLAY,
    "selfplay.": _SELFPLAY,
    "policy.expansion_factor": "the cells have one width",
    "policy.": "the networks of PufferLib are not here; policy.kind auto fits the rows",
    "rnn.": "the memory has the width of policy.hidden",
    "torch.": "the networks of PufferLib are not here; policy.kind auto fits the rows",
    "base.": "it names files and devices of PufferLib",
    "sweep.method": _SWEEP,
    "sweep.": _SWEEP,
}
_LOGARITHMIC = ("log_normal", "uniform_pow2")
_WIDTH = 128  # Width of PufferLib's networks if the file does not set it.
# PufferLib's muon, like that of 3.0 (heavyball's), updates all matrices and scales steps like this.
_MUON = "muon_sgd"
# Settings that are whole numbers here. PufferLib's sweeps produce fractions; it truncates them too.
_WHOLE = (
    "total_timesteps",
    "horizon",
    "minibatch_size",
    "seed",
    "num_envs",
    "num_buffers",
    "memory_layers",
)


@dataclass(frozen=True)
class Mapped:
    """An env's .ini file, converted to settings of puffervec.

    Attributes:
        preset: settings of a run by table; empty if the file has no [train].
        metric: metric that a sweep maximizes.
        search: ranges of a sweep by setting.
        ignored: the keys that have no effect, each with its text and the reason for that.
    """

    preset: Mapping[str, Mapping[str, Any]]
    metric: str
    search: Mapping[str, str]
    ignored: tuple[tuple[str, str, str], ...]


def mapped(sections: Sections, agents: int, logged: tuple[str, ...]) -> Mapped:
    """Convert the sections of an .ini file.

    Args:
        sections: sections of the file, over those of its default.ini.
        agents: number of agents per env.
        logged: names of the numbers that the env logs.
    """
    preset: dict[str, dict[str, Any]] = {}
    ignored: list[tuple[str, str, str]] = []
    metric, search = RETURN, {}
    for section, keys in sections.items():
        if section == "env":
            continue
        if section.startswith("sweep."):
            name, text = _range(section.removeprefix("sweep."), keys)
            if name:
                search[name] = text
            else:
                ignored.append((section, "", text))
            continue
        for key, text in keys.items():
            path, value = f"{section}.{key}", value_of(text)
            if path == "sweep.metric":
                if text in logged:
                    metric = f"env/{text}"
            elif reason := _take(path, value, preset):
                ignored.append((path, text, reason))
    if "train" not in sections:
        preset = {}
    return Mapped(_fitting(preset, sections, agents), metric, search, tuple(ignored))


def _take(path: str, value: Any, preset: dict[str, dict[str, Any]]) -> str:
    """Add a key to the preset; return the reason if the key is ignored, else ""."""
    if path not in SETTINGS:
        section = path.partition(".")[0] + "."
        return IGNORED.get(path) or IGNORED.get(section) or "it is unknown here"
    table, _, name = SETTINGS[path].partition(".")
    if value in ("auto", "None", ""):
        return "" if value == "None" else _PLACE
    if name in _WHOLE and isinstance(value, float):
        value = int(value)
    match path:
        case "train.replay_ratio":
            value = max(1, round(value))
        case "train.vtrace_rho_clip" | "train.vtrace_c_clip":
            if not value > 0:
                return "the bound must be positive"
            preset.setdefault("train", {})["vtrace"] = True
        case "train.optimizer":
            if value not in ("adam", "muon"):
                return "the optimizers are adam and muon"
            value = _MUON if value == "muon" else value
        case "train.anneal_lr" | "train.torch_deterministic":
            value = bool(value)
        case "vec.num_buffers":
            if value not in (1, 2):
                return "there are 1 or 2 buffers"
        case "policy.hidden_size":
            value = (int(value),)
        case "base.rnn_name" | "torch.network":
            value = "mingru" if value == "MinGRU" else "lstm" if path == "base.rnn_name" else ""
            if not value:
                return "the memories are mingru and lstm"
    preset.setdefault(table, {})[name] = value
    return ""


def _fitting(
    preset: dict[str, dict[str, Any]], sections: Sections, agents: int
) -> Mapping[str, Mapping[str, Any]]:
    """Return the preset with numbers of envs and samples that are compatible."""
    if not preset:
        return {}
    vec, train, policy = (preset.setdefault(name, {}) for name in ("vec", "train", "policy"))
    train.setdefault("optimizer", _MUON)  # 4.0 and 5.0 have no other one.
    policy.setdefault("hidden", (_WIDTH,))
    policy["normalize"] = False  # Their networks get the observations as they are.
    if "total_agents" in sections.get("vec", {}):
        policy["bias"] = False  # Layers of 4.0 and 5.0 have no bias.
        envs = value_of(sections["vec"]["total_agents"]) // agents
        if "num_layers" in sections.get("policy", {}):
            policy.setdefault("memory", "mingru")
    else:  # 3.0: num_envs counts copies of a class, each of which makes several envs.
        each = value_of(sections.get("env", {}).get("num_envs", "1"))
        envs = vec.get("num_envs", 1) * (each if isinstance(each, int) else 1)
    if policy.get("memory") != "mingru":
        policy.pop("memory_layers", None)
    buffers = vec.get("num_buffers", 2)
    vec["num_envs"] = max(buffers, int(envs) // buffers * buffers)
    batch = vec["num_envs"] * agents * train.get("horizon", 64)
    size = min(int(train.get("minibatch_size", 0)), batch)
    while size and batch % size:
        size -= 1
    train["minibatch_size"] = size
    return {name: table for name, table in preset.items() if table}


def _range(path: str, keys: Mapping[str, str]) -> tuple[str, str]:
    """Return (setting, range in the notation of flags), or ("", reason why it is ignored)."""
    name = path if path.startswith("env.") else SETTINGS.get(path, "")
    if "." not in name or name in ("policy.memory", "policy.hidden"):
        section = path.partition(".")[0] + "."
        return "", IGNORED.get(path) or IGNORED.get(section) or _SWEEP
    low, high = (value_of(keys.get(bound, "")) for bound in ("min", "max"))
    numbers = all(isinstance(bound, (int, float)) for bound in (low, high))
    if not numbers or not low < high:
        return "", "it has no range of numbers"
    kind = keys.get("distribution", "")
    whole = "int" in kind
    if name == "train.update_epochs":
        whole, low, high = True, max(1, round(low)), max(2, round(high))
    if name in ("train.total_timesteps", "train.minibatch_size") or name.startswith("vec."):
        return "", "a sweep keeps the budget and the batch"
    whole = whole or name.partition(".")[2] in _WHOLE
    texts = [str(int(bound)) if whole else f"{bound:g}" for bound in (low, high)]
    if kind == "uniform_pow2" and low >= 1:
        powers = (2**n for n in range(int(high).bit_length()))
        return name, "/".join(str(power) for power in powers if power >= low)
    log = ":log" if kind in _LOGARITHMIC and low > 0 and not whole else ""
    return name, f"{texts[0]}:{texts[1]}{log}"


def lines(ignored: tuple[tuple[str, str, str], ...]) -> tuple[str, ...]:
    """Return one line for each ignored key: the key and the reason."""
    return tuple(f"{re.sub(r'^sweep[.]', 'sweep ', key)}: {why}" for key, _, why in ignored)
