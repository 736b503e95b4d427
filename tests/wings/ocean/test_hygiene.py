# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean: envs of PufferLib that crash, hang, write past their rows or keep memory.

Envs that give up by themselves (exit, assert) are in test_generations.py.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

import puffervec
from puffervec.errors import ConfigError, WorkerDied, WorkerError, WorkerTimeout
from puffervec.vec.vector_env import VectorEnv
from tests.builds import source_folder

FAULTY = """
#include <stdlib.h>
#include <string.h>
typedef float obs_t;
#include "pufferenv.h"

#define OBS_SIZE 2
#define NUM_ATNS 1
#define ACT_SIZES {2}

struct Log {
    float score;
    float n;
};

struct Env {
    Log log;
    Agent agents[1];
    int num_agents;
    int tag;
    int boundary_reached;
    unsigned int rng;
    int fault, at, tick;
    char* kept;
};

int forever = 1;

__attribute__((noinline)) static int divide(int by) { return 100 / by; }
__attribute__((noinline)) static void write_far(float* row) { row[1u << 30] = 1; }
__attribute__((noinline)) static void write_beside(float* row, int count) { row[count] = 7; }
__attribute__((noinline)) static int recurse(int depth) {
    volatile char room[4096];
    room[depth % 4096] = (char)depth;
    return recurse(depth + 1) + room[0];
}
__attribute__((noinline)) static void spin(void) {
    while (*(volatile int*)&forever) {}
}

void puf_reset(Env* env) {
    env->tick = 0;
    env->agents[0].observations[0] = rand_r(&env->rng) % 10;
    if (env->fault == 6) env->kept = malloc(100000); // and the last one is lost
    if (env->fault == 6) memset(env->kept, 1, 100000);
}

void puf_step(Env* env) {
    env->tick += 1;
    float* row = env->agents[0].observations;
    row[1] = env->tick;
    if (env->tick == env->at) {
        switch (env->fault) {
        case 1: row[0] = divide(env->num_agents - 1); break;
        case 2: write_far(row); break;
        case 3: row[0] = recurse(0); break;
        case 4: spin(); break;
        case 5: write_beside(row, -1); break;
        }
    }
    if (env->tick == 20) {
        env->agents[0].terminals[0] = 1;
        env->log.n += 1;
        puf_reset(env);
    }
}

void puf_render(Env* env) {}

void puf_close(Env* env) { free(env->kept); }

void puf_init(Env* env, Dict* kwargs) {
    env->num_agents = 1;
    env->fault = dict_get(kwargs, "fault");
    env->at = dict_get(kwargs, "at");
    if (env->fault == 0) env->kept = malloc(100000);
    if (env->fault == 0) memset(env->kept, 1, 100000);
}

void puf_log(Log* log, Dict* out) { dict_set(out, "score", log->score); }
"""
DIVIDE, FAR, RECURSE, SPIN, BESIDE, LOSE = 1, 2, 3, 4, 5, 6


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> str:
    source_folder()
    folder = tmp_path_factory.mktemp("faulty") / "faulty"
    folder.mkdir()
    (folder / "faulty.h").write_text(FAULTY)
    (folder / "faulty.ini").write_text("[env]\nfault = 0\nat = 5\n")
    return f"ocean:{folder}"


def run(vec: VectorEnv, steps: int = 30) -> None:
    vec.reset(seed=0)
    for _ in range(steps):
        vec.step([0] * vec.num_agents)


@pytest.mark.normal_build("a sanitizer has reports of its own")
@pytest.mark.parametrize(
    ("fault", "signal", "function"),
    [(DIVIDE, "SIGFPE", "divide"), (FAR, "SIGSEGV", "write_far"), (RECURSE, "SIGSEGV", "recurse")],
    ids=["divides by zero", "writes far away", "calls itself for ever"],
)
def test_a_crash_names_env_step_and_function(
    faulty: str, fault: int, signal: str, function: str, no_leaks: None
) -> None:
    with (
        puffervec.make(faulty, num_envs=4, num_workers=2, env_kwargs={"fault": fault}) as vec,
        pytest.raises(
            WorkerDied,
            match=rf"{signal}.* in step 5 of env \d, in the C function {function} of faulty",
        ),
    ):
        run(vec)


@pytest.mark.normal_build("a sanitizer has reports of its own")
def test_an_env_that_never_returns_is_named(faulty: str, no_leaks: None) -> None:
    settings = {"fault": SPIN}
    with (
        puffervec.make(
            faulty, num_envs=4, num_workers=2, env_kwargs=settings, timeout_s=1.0
        ) as vec,
        pytest.raises(
            WorkerTimeout, match=r"in step 5 of env \d, in the C function \w+ of faulty"
        ) as raised,
    ):
        run(vec)
    assert "spin+0x" in raised.value.trace


@pytest.mark.guarded_build
def test_a_write_beside_the_rows_is_found(faulty: str) -> None:
    with (
        puffervec.make(faulty, num_envs=4, backend="serial", env_kwargs={"fault": BESIDE}) as vec,
        pytest.raises(WorkerError, match="observations"),
    ):
        run(vec)


class Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")
        + ("uordblks", "fordblks", "keepcost")
    )


def bytes_in_use() -> int:
    """Return what C code has allocated and not freed. What the process has from the system says
    less: lost bytes may lie where other code has freed some.
    """
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)


def growth(turn: Callable[[], object], turns: int) -> int:
    """Return by how many bytes C's heap has grown after `turns` turns, after a warm-up."""
    sizes = []
    for _ in range(2):
        for _ in range(turns):
            turn()
        gc.collect()
        sizes.append(bytes_in_use())
    return sizes[1] - sizes[0]


LIMIT = 2_000_000  # An env has 100,000 bytes, so 20 that are not freed show.


@pytest.mark.normal_build("a sanitizer keeps what is freed")
def test_nothing_stays_of_envs_that_are_made_and_closed(faulty: str) -> None:
    def turn() -> None:
        with puffervec.make(faulty, num_envs=8, backend="serial") as vec:
            run(vec, 2)

    assert growth(turn, 15) < LIMIT  # 15 x 8 x 100,000, were they kept


@pytest.mark.normal_build("a sanitizer keeps what is freed")
def test_nothing_stays_of_resets_with_seeds(faulty: str) -> None:
    """They make an env anew."""
    with puffervec.make(faulty, num_envs=8, backend="serial") as vec:
        assert growth(lambda: vec.reset(seed=3), 30) < LIMIT


TOGETHER = """
#define MY_VEC_INIT
#define MY_VEC_CLOSE
Env* my_vec_init(int* count, int* starts, int* counts, Dict* vec, Dict* kwargs) {
    *count = counts[0] = (int)dict_get(vec, "total_agents");
    Env* envs = calloc(*count, sizeof(Env));
    char* shared = malloc(100000);
    memset(shared, 1, 100000);
    for (int i = 0; i < *count; i++) {
        puf_init(&envs[i], kwargs);
        envs[i].shared = shared;
    }
    return envs;
}
void my_vec_close(Env* envs) {
    free(envs[0].shared);
    free(envs);
}
"""


@pytest.mark.normal_build("a sanitizer keeps what is freed")
def test_nothing_stays_of_envs_that_are_made_together(tmp_path: Path) -> None:
    """The second half makes the envs of the first half, too."""
    source_folder()
    folder = tmp_path / "faulty"
    folder.mkdir()
    text = FAULTY.replace("char* kept;", "char* kept; char* shared;")
    (folder / "faulty.h").write_text(text + TOGETHER)
    (folder / "faulty.ini").write_text("[env]\nfault = 0\nat = 5\n")

    def turn() -> None:
        puffervec.make(f"ocean:{folder}", num_envs=8, num_buffers=2, backend="serial").close()

    # 15 x 4 x 100,000, were the envs of the other half kept, and half of it for what is shared.
    assert growth(turn, 15) < LIMIT


@pytest.mark.normal_build("a sanitizer keeps what is freed")
def test_an_env_that_loses_memory_is_seen_by_the_same_limit(faulty: str) -> None:
    with puffervec.make(faulty, num_envs=8, backend="serial", env_kwargs={"fault": LOSE}) as vec:
        vec.reset(seed=0)
        assert growth(lambda: run_on(vec), 5) > LIMIT


def run_on(vec: VectorEnv) -> None:
    """Step through two episodes."""
    for _ in range(42):
        vec.step([0] * vec.num_agents)


def test_mistakes_of_the_author_are_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "faulty"
    folder.mkdir()
    header = folder / "faulty.h"
    for wrong, right, words in [
        ("env->agents[0].terminals[0] = 1;", "env->agents[0].terminal[0] = 1;", "terminal"),
        ("rand_r(&env->rng) % 10", "spin_the_wheel(env)", "spin_the_wheel"),
        ("int fault, at, tick;", "int fault, at, tick", "expected"),
        ("#define NUM_ATNS 1\n", "", "NUM_ATNS"),
        ("void puf_close(Env* env) { free(env->kept); }", "", "puf_close"),
    ]:
        text = FAULTY.replace(wrong, right)
        assert text != FAULTY
        header.write_text(text)
        with pytest.raises(ConfigError, match=words) as raised:
            puffervec.make(f"ocean:{folder}", backend="serial", env_kwargs={"fault": 0, "at": 5})
        assert "\n" not in str(raised.value)
        assert "faulty.h:" in str(raised.value) or words in ("NUM_ATNS", "puf_close")
