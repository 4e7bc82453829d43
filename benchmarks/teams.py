"""Contenders: their environments, their processes, and requests to them."""

import ast
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTENDERS = pathlib.Path(__file__).resolve().parent / "contenders"
START_SECONDS = 240


class MissingError(Exception):
    """A contender that cannot take part, and why."""


class FailedError(Exception):
    """A contender that could not do what it was asked to."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """Who does a workload: the contender's name, and how it runs.

    Args:
        contender: The file `contenders/with_<name>.py`.
        variant: A word for that file, where it has more than one way.
        workers: The number of processes.
        replicas: The number of devices in each.
    """

    contender: str
    variant: str = ""
    workers: int = 1
    replicas: int = 2

    def __str__(self):
        name = f"{self.contender} {self.variant}".strip()
        return f"{name}, {self.workers} x {self.replicas} replicas"


@functools.cache
def constants_of(contender):
    """Returns the constants of a contender's file, without running it."""
    tree = ast.parse((CONTENDERS / f"with_{contender}.py").read_text())
    assigned = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    names = ("ENVIRONMENT", "REQUIRES", "HAS_A_PROCESS_FOR_EACH_REPLICA")
    return {
        name: ast.literal_eval(assigned[name]) for name in names if name in assigned
    }


@functools.cache
def python_of(contender):
    """Returns the interpreter of a contender, in an environment made on demand."""
    constants = constants_of(contender)
    if "ENVIRONMENT" not in constants:
        return sys.executable
    folder = ROOT / f".venv-bench-{constants['ENVIRONMENT']}"
    python = folder / "bin" / "python"
    mark = folder / f".has-{contender}"
    wanted = "\n".join(constants["REQUIRES"])
    if mark.exists() and mark.read_text() == wanted:
        return str(python)
    print(f"==> installing {' '.join(constants['REQUIRES'])} into {folder.name}")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    commands = [] if python.exists() else [[sys.executable, "-m", "venv", folder]]
    for command in [*commands, [*pip, *constants["REQUIRES"]]]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise MissingError(f"{contender} cannot be installed: {last}")
    mark.write_text(wanted)
    return str(python)


class Team:
    """The processes of one entry, which answer requests."""

    def __init__(self, entry):
        python = python_of(entry.contender)
        count, replicas = entry.workers, entry.replicas
        if constants_of(entry.contender).get("HAS_A_PROCESS_FOR_EACH_REPLICA"):
            count, replicas = count * replicas, 1
        self.entry = entry
        ports = find_ports(count)
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._processes = []
        for worker in range(count):
            facts = {"worker": worker, "ports": ports, "replicas": replicas}
            facts["variant"] = entry.variant
            environment = os.environ | {
                "BENCH_TEAM": json.dumps(facts),
                # The cores are shared fairly, as `mirrax launch` does.
                "OMP_NUM_THREADS": str(max(1, os.cpu_count() // count)),
            }
            self._processes.append(
                subprocess.Popen(
                    [python, CONTENDERS / f"with_{entry.contender}.py"],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    text=True,
                )
            )
        self._answers = [queue.Queue() for _ in self._processes]
        for process, answers in zip(self._processes, self._answers, strict=True):
            threading.Thread(target=_read, args=(process, answers), daemon=True).start()

    def wait_until_ready(self):
        """Waits for the start of all processes, which tell their versions."""
        self.versions = self._gather(START_SECONDS)[0]["versions"]

    def ask(self, row, workload, repeats, timeout=120):
        """Returns the seconds of one repeat on the slowest worker, and the value."""
        line = json.dumps({**workload, "row": row, "repeats": repeats})
        for process in self._processes:
            try:
                process.stdin.write(f"{line}\n")
                process.stdin.flush()
            except BrokenPipeError:
                raise FailedError(self._explain("it has ended")) from None
        answers = self._gather(timeout)
        return max(a["seconds"] for a in answers) / repeats, answers[0]["value"]

    def close(self):
        """Ends the processes."""
        for process in self._processes:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()

    def _gather(self, timeout):
        end = time.monotonic() + timeout
        answers = []
        for waiting in self._answers:
            try:
                answer = waiting.get(timeout=max(0.1, end - time.monotonic()))
            except queue.Empty:
                raise FailedError(self._explain(f"no answer for {timeout} s")) from None
            if answer is None or "error" in answer:
                why = "it has ended" if answer is None else answer["error"]
                raise FailedError(self._explain(why))
            answers.append(answer)
        return answers

    def _explain(self, why):
        self._log.seek(0)
        lines = [line for line in self._log.read().splitlines() if line.strip()]
        last = (lines or ["no output"])[-1]
        return f"{self.entry.contender}: {' '.join(why.split())[:300]} ({last[:300]})"


def _read(process, answers):
    for line in process.stdout:
        if line.startswith("{"):
            answers.put(json.loads(line))
    answers.put(None)


def find_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
