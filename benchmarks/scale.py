"""How far it goes: thousands of simulated workers, programs of hundreds of replicas.

    python benchmarks/scale.py [--workers 1000 5000] [--replicas 8 64 512]

The coordinator is the real one, in a process of its own; its workers are sockets of
this process that speak the real protocol. Programs are traced and compiled, not run.
Results are written to `benchmarks/scale.json`.
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import pathlib
import re
import resource
import selectors
import socket
import subprocess
import sys
import time

import psutil

from mirrax.cluster.coordinator.process import Coordinator
from mirrax.cluster.failure import PhaseReport
from mirrax.cluster.job_options import JobOptions
from mirrax.cluster.membership import Worker, summarize_workers
from mirrax.cluster.net import handshake
from mirrax.cluster.net.messages import MAX_MESSAGE_BYTES, Decoder, Message, encode

RESULTS = pathlib.Path(__file__).resolve().parent / "scale.json"
KEY = b"benchmark"
HEARTBEAT_SECONDS = 0.5
STUCK_SECONDS = 5.0
# So many workers connect before the first of them must have been admitted.
AT_ONCE = 100
DEADLINE_SECONDS = 300


class Simulated:
    """One worker: a socket that joins, sends its progress and notes what it hears."""

    def __init__(self, index, address, configuration):
        self.index = index
        self.heard = {}
        self._configuration = configuration
        self._decoder = Decoder(MAX_MESSAGE_BYTES)
        self.socket = socket.create_connection(address, timeout=60)
        self.socket.setblocking(True)

    def read(self):
        """Handles what has arrived."""
        for message in self._decoder.feed(self.socket.recv(1 << 18)):
            self.heard.setdefault(message.kind, time.perf_counter())
            if message.kind == "challenge":
                body = {"worker": self.index, "pid": 1, "hostname": "simulated"}
                body |= {"role": "worker", "configuration": self._configuration}
                self.send(handshake.make_hello(KEY, message, body))
            elif message.kind == "get_stack":
                self.send(Message("stack", {"line": "train.py:1", "text": "in train"}))

    def send(self, message):
        self.socket.sendall(encode(message))


class Simulation:
    """A coordinator, and its workers in this process."""

    def __init__(self, num_workers):
        workers = [
            Worker("worker", i, f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}:2222")
            for i in range(num_workers)
        ]
        self.coordinator = Coordinator(
            host="127.0.0.1",
            port=0,
            key=KEY,
            workers=workers,
            options=JobOptions(join_timeout=DEADLINE_SECONDS),
        )
        self.process = psutil.Process(self.coordinator.process_id)
        configuration = {"workers": summarize_workers(workers)}
        self._selector = selectors.DefaultSelector()
        self._progress = {}
        for index in range(num_workers):
            self.set_progress(index, count=0)
        self._next_heartbeat = 0.0
        start = time.perf_counter()
        self.workers = []
        for index in range(num_workers):
            address = "127.0.0.1", self.coordinator.port
            worker = Simulated(index, address, configuration)
            self.workers.append(worker)
            self._selector.register(worker.socket, selectors.EVENT_READ, worker)
            if index % AT_ONCE == AT_ONCE - 1:
                self.wait_for("answer")
        self.seconds_to_join = self.wait_for("start") - start

    def set_progress(self, index, **fields):
        """Sets what a worker says about itself from now on."""
        self._progress[index] = encode(
            Message("progress", PhaseReport(**fields).as_fields())
        )

    def pump(self, timeout=0.02):
        """Reads what has arrived, and sends heartbeats when they are due."""
        for key, _ in self._selector.select(timeout):
            key.data.read()
        now = time.perf_counter()
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + HEARTBEAT_SECONDS
            for worker in self.workers:
                if "answer" in worker.heard:
                    worker.socket.sendall(self._progress[worker.index])

    def run(self, seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.pump()

    def wait_for(self, kind):
        """Returns when the last worker has heard of it."""
        end = time.perf_counter() + DEADLINE_SECONDS
        while any(kind not in worker.heard for worker in self.workers):
            self.pump()
            if time.perf_counter() > end:
                raise SystemExit(f"Not all workers heard {kind!r}.")
        return max(worker.heard[kind] for worker in self.workers)

    def end_worker(self, index):
        """Ends a worker as a kill does."""
        worker = self.workers.pop(index)
        self._selector.unregister(worker.socket)
        worker.socket.close()

    def close(self):
        for worker in self.workers:
            worker.socket.close()
        self._selector.close()
        self.coordinator.stop()


def measure_coordinator(num_workers):
    """Returns seconds and memory of one job's life."""
    job = Simulation(num_workers)
    try:
        for worker in job.workers:
            job.set_progress(worker.index, count=5, phase="step", step=5)
        job.run(2.0)
        before = cpu_seconds(job.process)
        job.run(4.0)
        after = cpu_seconds(job.process)
        busy = (after - before) / 4.0
        memory = job.process.memory_info().rss
        start = time.perf_counter()
        fields = {"topic": "order of programs"}
        for worker in job.workers:
            worker.send(Message("exchange", fields, b"x" * 64))
        exchange = job.wait_for("exchanged") - start
        after = cpu_seconds(job.process)
        start = time.perf_counter()
        job.end_worker(num_workers // 2)
        death = job.wait_for("failure") - start
        at_death = cpu_seconds(job.process) - after
    finally:
        job.close()
    return {
        "workers": num_workers,
        "seconds_to_join": job.seconds_to_join,
        "share_of_a_core_for_heartbeats": busy,
        "coordinator_mebibytes": memory / 2**20,
        "seconds_of_an_exchange": exchange,
        "seconds_until_all_know_of_a_death": death,
        "cpu_seconds_for_a_death": at_death,
        "seconds_until_all_know_of_a_stuck_worker": measure_stuck(num_workers),
    }


def cpu_seconds(process):
    times = process.cpu_times()
    return times.user + times.system


def measure_stuck(num_workers):
    """Returns the seconds from the limit of a wait until all know who is stuck."""
    job = Simulation(num_workers)
    try:
        stuck = num_workers // 2
        start = time.perf_counter()
        while any("failure" not in worker.heard for worker in job.workers):
            waited = time.perf_counter() - start
            for worker in job.workers:
                fields = {"count": 7, "phase": "step", "step": 7, "waiting": waited}
                if worker.index == stuck:
                    fields = {"count": 6, "phase": "step", "step": 6}
                job.set_progress(worker.index, limit=STUCK_SECONDS, **fields)
            job.run(HEARTBEAT_SECONDS)
            if waited > DEADLINE_SECONDS:
                raise SystemExit("Nobody found the stuck worker.")
        return max(w.heard["failure"] for w in job.workers) - start - STUCK_SECONDS
    finally:
        job.close()


def measure_program(num_replicas):
    """Runs in a process of its own; prints what the program of a step contains."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import mirrax

    mirrax.config.set_logical_devices("CPU", num_replicas)
    strategy = mirrax.MirroredStrategy([f"CPU:{i}" for i in range(num_replicas)])
    random = np.random.default_rng(0)
    sizes = [64, 128, 128, 10]
    with strategy.scope():
        variables = [
            mirrax.Variable(random.normal(size=shape).astype(np.float32))
            for pair in itertools.pairwise(sizes)
            for shape in (pair, pair[1:])
        ]

    def loss_of(x, y):
        for w, b in zip(variables[::2], variables[1::2]):
            x = jnp.tanh(x @ w.value + b.value)
        return jnp.square(x - y[:, None]).mean() / num_replicas

    def step(x, y):
        loss, grads = mirrax.value_and_grad(loss_of, variables)(x, y)
        context = mirrax.get_replica_context()
        grads, loss = context.all_reduce("SUM", (grads, loss))
        for variable, grad in zip(variables, grads, strict=True):
            variable.assign_sub(0.1 * grad)
        return loss

    program = mirrax.function(step)
    rows = 4 * num_replicas
    arrays = np.ones((rows, sizes[0]), np.float32), np.ones(rows, np.float32)
    dataset = mirrax.data.Dataset.from_tensor_slices(arrays).batch(rows)
    begin = time.perf_counter()
    batch = next(iter(strategy.experimental_distribute_dataset(dataset)))
    jax.block_until_ready([variable.value for variable in variables])
    placing = time.perf_counter() - begin
    found = []
    compile_lowered = jax.stages.Lowered.compile

    class CompiledError(Exception):
        """Ends the call before the program runs, for which there are too few cores."""

    def compile_and_stop(self, *args, **kwargs):
        trace = time.thread_time() - start
        begin = time.perf_counter()
        text = compile_lowered(self, *args, **kwargs).as_text()
        found.append((text, trace, time.perf_counter() - begin))
        raise CompiledError

    jax.stages.Lowered.compile = compile_and_stop
    # Of this thread: on many devices, JAX has threads that are busy at the start.
    start = time.thread_time()
    with contextlib.suppress(CompiledError):
        strategy.run(program, args=batch)
    text, trace, compilation = found[0]
    facts = describe_collectives(text)
    facts |= {"cpu_seconds_to_trace": trace, "seconds_to_compile": compilation}
    facts |= {"seconds_to_place_a_batch": placing, "program_bytes": len(text)}
    print(json.dumps({"replicas": num_replicas, **facts}))


def describe_collectives(text):
    """Returns how many collectives a compiled program has, and their bytes.

    >>> line = "%sum = (f32[2,3]{1,0}, f32[]) all-reduce(%a, %b), channel_id=1"
    >>> describe_collectives(line)
    {'collectives': 1, 'bytes_reduced_per_replica': 28}
    """
    pattern = r"= (.*?) (all-reduce|all-gather|all-to-all|reduce-scatter)(-start)?\("
    found = re.findall(pattern, text)
    elements = [
        math.prod(int(size) for size in dims.split(",") if size)
        for shapes, _, _ in found
        for dims in re.findall(r"f32\[([\d,]*)\]", shapes)
    ]
    return {
        "collectives": len(found),
        "bytes_reduced_per_replica": 4 * sum(elements),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="*", default=[100, 1000, 5000])
    parser.add_argument("--replicas", type=int, nargs="*", default=[2, 8, 64, 512])
    parser.add_argument("--program", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    options = parser.parse_args()
    if options.program:
        measure_program(options.program)
        return
    results = {"cores": os.cpu_count(), "programs": [], "coordinator": []}
    for replicas in options.replicas:
        command = [sys.executable, __file__, "--program", str(replicas)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"{replicas} replicas: {done.stderr.strip().splitlines()[-1]}")
            continue
        results["programs"].append(json.loads(done.stdout.splitlines()[-1]))
        show(results["programs"][-1])
        options.results.write_text(json.dumps(results, indent=1) + "\n")
    for workers in options.workers:
        if (limit := raise_file_limit(4 * workers)) < 4 * workers:
            print(f"{workers} workers need a higher limit of open files than {limit}")
            continue
        results["coordinator"].append(measure_coordinator(workers))
        show(results["coordinator"][-1])
        options.results.write_text(json.dumps(results, indent=1) + "\n")


def raise_file_limit(wanted):
    """Lets this process and the coordinator open more files; returns how many.

    The coordinator takes fewer than four sockets for each worker. Only an
    administrator may raise the second limit.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (max(most, wanted), most):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            return limit
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def show(facts):
    cells = [
        f"{name.replace('_', ' ')} {value:,.3g}"
        if isinstance(value, float)
        else f"{name.replace('_', ' ')} {value:,}"
        for name, value in facts.items()
    ]
    print("; ".join(cells), flush=True)


if __name__ == "__main__":
    main()
