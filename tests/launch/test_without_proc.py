"""Systems without /proc, such as macOS: every read of it fails, except by psutil."""

import os
import subprocess
import sys

import pytest

# Run by Python at the start of each process.
SITE = """
import builtins, io, os, sys

def refuse(function):
    def call(path=".", *args, **kwargs):
        if isinstance(path, (str, bytes, os.PathLike)):
            frame, text = sys._getframe(1), os.fsdecode(path)
            while text.startswith("/proc") and "psutil" not in frame.f_code.co_filename:
                frame = frame.f_back
                if frame is None:
                    raise FileNotFoundError(2, "There is no /proc", text)
        return function(path, *args, **kwargs)
    return call

builtins.open = io.open = refuse(open)
for name in ("open", "listdir", "scandir", "readlink", "stat"):
    setattr(os, name, refuse(getattr(os, name)))
"""
LOCAL = """
import jax
import mirrax
from mirrax.devices import cpu_threads

jax.config.update("jax_num_cpu_devices", 2)
for strategy in (mirrax.MirroredStrategy(), mirrax.OneDeviceStrategy("CPU:0")):
    ids = strategy.run(lambda: mirrax.get_replica_context().replica_id_in_sync_group)
    print(int(strategy.reduce("SUM", ids, axis=None)))
print(cpu_threads._count_running_threads(1000))
"""
WORKER = """
import os, signal, sys
import mirrax

strategy = mirrax.MultiWorkerMirroredStrategy()
ids = strategy.run(lambda: mirrax.get_replica_context().replica_id_in_sync_group)
print("sum", int(strategy.reduce("SUM", ids, axis=None)))
if strategy.cluster_resolver.task_id == 1:
    os.kill(os.getpid(), signal.SIGKILL)
strategy.reduce("SUM", ids, axis=None)
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SITE)

    def run_program(program, *command):
        script = tmp_path / "script.py"
        script.write_text(program)
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        environment.pop("PJRT_NPROC", None)
        environment.pop("XLA_FLAGS", None)
        return subprocess.run(
            [sys.executable, *command, str(script)],
            env=environment | {"JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return run_program


def test_strategies_of_one_machine_need_no_proc(run):
    outcome = run(LOCAL)
    assert outcome.stdout.split() == ["1", "0", "0"], outcome.stderr


def test_proc_is_gone_in_these_tests(run):
    outcome = run("print(open('/proc/self/stat').read())")
    assert "FileNotFoundError: [Errno 2] There is no /proc" in outcome.stderr


@pytest.mark.slow
def test_launched_workers_need_no_proc_even_when_one_dies(run):
    outcome = run(WORKER, "-m", "mirrax.launch", "-n", "2")
    assert outcome.returncode == 137, outcome.stdout
    assert outcome.stdout.count("sum 1") == 2
    assert "mirrax.errors.WorkerLost: worker 1" in outcome.stdout
