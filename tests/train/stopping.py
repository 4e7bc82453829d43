"""Launches `resumed.py` or a program like it, and reads what it prints."""

import os
import pathlib
import re
import subprocess
import sys
import threading
import time

from tests.train import resumed

PROGRAM = str(pathlib.Path(resumed.__file__))


class Launched:
    """A launcher with its output so far.

    Args:
        directory: Where the program keeps its checkpoints.
        num_steps, interval, moment, state: See `resumed.py`.
        options: More options of the launcher.
        program: Another program with these arguments.
    """

    def __init__(
        self,
        directory,
        num_steps,
        interval,
        *options,
        moment="",
        state="mirrored",
        program=PROGRAM,
    ):
        command = [sys.executable, "-m", "mirrax.launch", *options, program]
        command += [str(directory), str(num_steps), str(interval), moment, state]
        self.lines = []
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self):
        return "\n".join(self.lines)

    def wait_for(self, pattern, count=1, timeout=240):
        """Waits for lines that match; returns their first groups."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            found = re.findall(pattern, self.output, flags=re.MULTILINE)
            if len(found) >= count:
                return found
            if self.process.poll() is not None and not self._reader.is_alive():
                break
            time.sleep(0.01)
        raise AssertionError(f"There was no {pattern!r} in:\n{self.output}")

    def worker_pids(self):
        """Returns the newest process of each worker so far."""
        found = re.findall(r"^\[worker (\d+)\] pid (\d+)$", self.output, re.MULTILINE)
        return {int(index): int(pid) for index, pid in found}

    def worker_pid(self, index, attempt=1):
        """Returns the process of a worker, which may not have come so far yet."""
        found = self.wait_for(rf"^\[worker {index}\] pid (\d+)$", attempt)
        return int(found[attempt - 1])

    def finish(self, timeout=240):
        """Waits for the end; returns the exit code."""
        try:
            code = self.process.wait(timeout)
        finally:
            self.process.kill()
            self.process.wait()
        self._reader.join(timeout)
        self.process.stdout.close()
        return code

    def digests(self):
        return set(re.findall(r"digest (\w+)$", self.output, re.MULTILINE))

    def steps(self):
        """Returns the numbers of the steps, in the order of the output."""
        return [int(n) for n in re.findall(r"step (\d+) [\d.]+$", self.output, re.M)]

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
