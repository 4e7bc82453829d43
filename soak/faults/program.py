"""A small training program in which workers have a fault at a chosen moment.

Started by `soak/faults/soak.py`. Prints `FAULT time` just before the fault, and
`RAISED time type worker phase step` for the error that each worker meets.
"""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import jax.numpy as jnp
import numpy as np

import mirrax
from mirrax import errors
from mirrax.data import Dataset

STEPS = 12
ALL = -1
ATTACKER = pathlib.Path(__file__).with_name("attacker.py")


def say(*words):
    # Not the standard output: a line there may be on its way when the process stops.
    print(*words, file=sys.stderr, flush=True)


class Fault:
    """What happens to this worker, and when; nothing if it is another's."""

    def __init__(self, kind, moment, is_mine, delay):
        self.kind = kind
        self.moment = moment
        self.is_mine = is_mine
        self.delay = delay

    def at(self, moment):
        """Called by the program whenever a moment has come."""
        if self.is_mine and moment == self.moment:
            self.is_mine = False
            self.happen()

    def soon(self, moment):
        """Lets a fault that needs no help of the program happen a little later."""
        timed = self.kind in ("kill", "stop", "pause")
        if self.is_mine and moment == self.moment and timed:
            self.is_mine = False
            threading.Timer(self.delay, self.happen).start()

    def happen(self):
        say("FAULT", time.time())
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.kind == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.kind == "pause":
            wake = f"sleep 1; kill -CONT {os.getpid()}"
            subprocess.Popen(["sh", "-c", wake])
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.kind == "raise":
            raise KeyError("the injected fault")
        elif self.kind == "sleep":
            time.sleep(1000)
        elif self.kind == "late":
            time.sleep(self.delay)
        elif self.kind == "exit":
            os._exit(3)
        elif self.kind == "sys.exit":
            sys.exit(3)
        else:
            subprocess.Popen([sys.executable, str(ATTACKER), self.kind])


def train(fault, folder):
    fault.soon("start-up")
    fault.at("start-up")
    strategy = mirrax.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = mirrax.Variable(jnp.zeros(16))
    save = make_saver(weight, folder) if fault.moment == "save" else None

    def batches():
        for index in range(STEPS):
            if index == STEPS // 2:
                fault.at("data wait")
            yield np.full((4, 16), index, np.float32)

    def read(_):
        spec = mirrax.TensorSpec((4, 16), np.float32)
        return Dataset.from_generator(batches, output_signature=spec)

    @mirrax.function
    def step(batch):
        def replica(batch):
            # This runs while the function is traced, so only on its first call.
            fault.at("compile")
            context = mirrax.get_replica_context()
            change = context.all_reduce("MEAN", batch.mean(0) - weight.value)
            weight.assign_add(0.1 * change)
            return weight.value.sum()

        return strategy.reduce("MEAN", strategy.run(replica, (batch,)), axis=None)

    for index, batch in enumerate(strategy.distribute_datasets_from_function(read)):
        if index == STEPS // 2:
            fault.soon("step")
            fault.at("step")
        if save is not None and index > STEPS // 3:
            fault.soon("save")
            fault.at("save")
            save(index)
        time.sleep(0.02)
        float(step(batch))
    # The others go on to a last evaluation together.
    fault.soon("end")
    fault.at("end")
    for _ in range(50):
        float(step(np.zeros((4, 16), np.float32)))
        time.sleep(0.02)


def make_saver(weight, folder):
    checkpoint = mirrax.train.Checkpoint(weight=weight)
    return mirrax.train.CheckpointManager(checkpoint, folder, max_to_keep=2).save


def main():
    kind, moment, culprit, delay, folder = sys.argv[1:]
    is_mine = int(culprit) in (int(os.environ["RANK"]), ALL)
    fault = Fault(kind, moment, is_mine, float(delay))
    try:
        train(fault, folder)
        say("DONE", time.time())
    except errors.JobError as error:
        name = type(error).__name__
        say("RAISED", time.time(), name, error.worker, error.phase, error.step)
        raise


if __name__ == "__main__":
    main()
