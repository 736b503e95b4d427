# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The fork server (puffervec/workers/process/fork_server.py): no temporary folder is left, however
a learner and its server end, and a killed server harms no vec env.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.scenarios import Script, run_script
from tests.helpers import thinned

pytestmark = pytest.mark.usefixtures("no_leaks")

LEARNER = """
    import os, sys, time
    import puffervec

    # The kernel frees it when the process is killed, before the children get another parent.
    held = os.memfd_create("held")
    os.write(held, bytes(int(sys.argv[3]) << 20))
    vec = puffervec.make(sys.argv[1], num_envs=2, num_workers=2, start_method=sys.argv[2])
    vec.reset(seed=0)
    print(sorted(name[:5] for name in os.listdir(os.environ["TMPDIR"])), flush=True)
    time.sleep(100)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "method", "held_mib", "kill"),
    thinned(
        2,
        [
            (
                "CartPole-v1",
                "forkserver",
                0,
                os.killpg,
            ),  # with its fork server, as a job manager does
            ("CartPole-v1", "forkserver", 0, os.kill),
            ("probe", "forkserver", 256, os.kill),
            ("probe", "spawn", 0, os.kill),
        ],
    ),
)
def test_a_killed_learner_leaves_no_temporary_folder(
    env: str, method: str, held_mib: int, kill: Callable[[int, int], None], tmp_path: Path
) -> None:
    with Script(LEARNER, env, method, str(held_mib), TMPDIR=str(tmp_path)) as learner:
        assert learner.line() == "[]"
        kill(learner.process.pid, signal.SIGKILL)
        learner.nothing_left()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_server_that_was_killed_is_replaced_and_its_socket_closed(tmp_path: Path) -> None:
    text = """
        import os, signal
        from multiprocessing import forkserver, util
        import puffervec

        counts = []
        for _ in range(3):
            with puffervec.make("CartPole-v1", num_envs=2, num_workers=1,
                                start_method="forkserver") as vec:
                vec.reset(seed=0)
            counts.append(len(os.listdir("/proc/self/fd")))
            os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
        assert counts[1] == counts[2], counts
        # The folder of other users of multiprocessing is still there.
        assert os.path.isdir(util.get_temp_dir())
        print("fine")
    """
    assert run_script(text, TMPDIR=str(tmp_path)) == (0, "fine\n", "")
    assert list(tmp_path.iterdir()) == []


KILLED = """
    import os, signal, sys
    from multiprocessing import forkserver
    import puffervec
    from puffervec.errors import WorkerDied

    def kill_server():
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
        os.waitid(os.P_PID, forkserver._forkserver._forkserver_pid, os.WEXITED | os.WNOWAIT)

    vec = puffervec.make("CartPole-v1", num_envs=2, num_workers=2)
    vec.reset(seed=0)
    kill_server()
    for _ in range(100):
        vec.step([0, 1])
    os.kill(vec.processes[1].pid, signal.SIGKILL)
    try:
        while True:
            vec.step([0, 1])
    except WorkerDied as error:
        print(error)
    vec.close()
    with puffervec.make("CartPole-v1", num_envs=2, num_workers=2) as vec:
        vec.reset(seed=0)
    print("fine")
"""


@pytest.mark.slow
def test_a_killed_server_blames_no_worker() -> None:
    """All go on; of a worker that dies later nobody knows how."""
    status, out, messages = run_script(KILLED)
    said, *_, last = out.splitlines()
    assert (status, last) == (0, "fine"), messages
    assert said.startswith(
        "worker 1 has ended in an unknown way, since the fork server that started it was ended too"
    )
