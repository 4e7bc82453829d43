"""Two launchers on two machines, which are network namespaces of this one."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.cluster import programs

PROGRAM = str(pathlib.Path(programs.__file__))
NAMES = (f"mirrax-a-{os.getpid()}", f"mirrax-b-{os.getpid()}")
# The name of a network device has 15 characters at most.
DEVICES = (f"mxa{os.getpid()}", f"mxb{os.getpid()}")
ADDRESSES = ("10.213.77.1", "10.213.77.2")
HOSTS = ",".join(f"{address}:7000" for address in ADDRESSES)

pytestmark = pytest.mark.slow


def make_machines():
    """Two namespaces with a cable between them; raises where that is not allowed."""
    run = lambda *words: subprocess.run(  # noqa: E731
        ["ip", *words], check=True, capture_output=True
    )
    for name in NAMES:
        run("netns", "add", name)
    first, second = DEVICES
    run("link", "add", first, "type", "veth", "peer", "name", second)
    for name, address, device in zip(NAMES, ADDRESSES, DEVICES):
        run("link", "set", device, "netns", name)
        run("-n", name, "address", "add", f"{address}/24", "dev", device)
        run("-n", name, "link", "set", device, "up")
        run("-n", name, "link", "set", "lo", "up")


def remove_machines():
    for name in NAMES:
        subprocess.run(
            ["ip", "netns", "delete", name], capture_output=True, check=False
        )


@pytest.fixture
def machines():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("Network namespaces need root and the command ip.")
    remove_machines()
    try:
        make_machines()
    except subprocess.CalledProcessError as error:
        remove_machines()
        pytest.skip(f"No network namespaces here: {error.stderr.decode().strip()}.")
    yield
    remove_machines()


@contextlib.contextmanager
def launch(index, *arguments, **variables):
    command = ["ip", "netns", "exec", NAMES[index], sys.executable, "-m"]
    command += ["mirrax.launch", "--hosts", HOSTS, "--host-index", str(index)]
    process = subprocess.Popen(
        [*command, PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "MIRRAX_SECRET": "known on both",
            **variables,
        },
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_workers_of_two_machines_train_together(machines):
    # The first machine is done earlier, and stays for the sake of the second.
    late = {"TEST_SLEEP": "12"}
    with launch(0, "none", "0") as first, launch(1, "none", "0", **late) as second:
        for process in (first, second):
            output, _ = process.communicate(timeout=240)
            if process is first:
                assert "The workers here have ended. Waiting for those of" in output
            # On a busy machine one may say that it waits for the other to join.
            lines = [line for line in output.splitlines() if "aiting for" not in line]
            lines = [line for line in lines if " to join." not in line]
            assert (process.returncode, lines) == (0, [])


def test_machine_with_one_worker_tells_how_it_died(machines):
    with launch(0, "kill", "0") as first, launch(1, "kill", "0") as second:
        assert first.wait(timeout=240) == 137
        output, _ = second.communicate(timeout=240)
        assert second.returncode == 137
        assert "died: killed by SIGKILL" in output


def test_death_of_a_machine_is_seen_on_the_other(machines):
    quick = {"MIRRAX_SILENCE_TIMEOUT": "10"}
    with (
        launch(0, "sleep", "5", **quick) as first,
        launch(1, "sleep", "1", **quick) as second,
    ):
        # Worker 1 sleeps after some steps; then its machine is gone without a word.
        deadline = time.monotonic() + 240
        for line in first.stdout:
            assert time.monotonic() < deadline
            if "has waited" in line:
                break
        subprocess.run(
            ["ip", "-n", NAMES[1], "link", "set", DEVICES[1], "down"], check=True
        )
        output, _ = first.communicate(timeout=240)
        assert first.returncode == 75
        assert "WorkerLost: worker 1" in output
        second.send_signal(signal.SIGTERM)
