"""An elastic job that loses one of three machines, which returns later."""

import itertools
import os
import re
import signal
import time

import mirrax
from tests.free_ports import find_free_ports
from tests.launch import elastic
from tests.train.stopping import Launched

STEPS = 60


def shrink_and_grow(directory, hosts):
    """Runs the job on three machines, then two, then three; checks its samples.

    Returns the seconds from the loss of a machine to the next step.
    """

    def launch(index):
        options = ["--hosts", ",".join(hosts), "--host-index", str(index)]
        options += ["--max-restarts", "5", "--elastic", "2:3"]
        return Launched(directory, STEPS, 2, *options, program=elastic.__file__)

    launched = [launch(index) for index in range(3)]
    leader = launched[0]
    try:
        leader.wait_for("step 4 on 3")
        launched[2].process.kill()
        lost_at = time.monotonic()
        leader.wait_for("Continuing with 2 of 3 machines")
        leader.wait_for(r"step \d+ on 2")
        seconds = time.monotonic() - lost_at
        launched.append(launch(2))
        launched[3].wait_for("waits for the next attempt")
        os.kill(launched[1].worker_pid(1, attempt=2), signal.SIGKILL)
        (directory / "go").touch()
        assert leader.finish() == 0, leader.output
        assert [one.finish() for one in launched[1:]] == [0, -signal.SIGKILL, 0]
    finally:
        for one in launched:
            one.process.kill()
    check_samples(leader.output)
    return seconds


def check_samples(output):
    """Checks that every step had the samples of an undisturbed run."""
    samples = re.findall(r"step (\d+) on \d: (.*)$", output, re.MULTILINE)
    dataset = mirrax.data.Dataset.range(36).shuffle(36, seed=1).batch(12).repeat()
    expected = [str(batch.tolist()) for batch in itertools.islice(dataset, STEPS)]
    assert {expected[int(step)] == found for step, found in samples} == {True}
    assert {int(step) for step, _ in samples} == set(range(STEPS))
    sizes = re.findall(r"step \d+ on (\d)", output)
    assert [size for size, _ in itertools.groupby(sizes)] == ["3", "2", "3"]


def find_hosts(count):
    """Returns addresses of this machine, each with two free ports in a row."""
    ports = find_free_ports(2 * count)[::2]
    return tuple(f"127.0.0.1:{port}" for port in ports)
