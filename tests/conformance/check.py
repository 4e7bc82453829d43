"""Runs the conformance programs against a tf-shaped namespace, in fresh processes.

    python tests/conformance/check.py [pattern ...]        one process, 4 CPU devices
    python tests/conformance/check.py --mw [pattern ...]   one process for each task

Prints each program's name with `ok` or `FAIL`; exits with 1 when anything differs. With
`--module tensorflow` the suite is checked against TensorFlow itself.
"""

import argparse
import importlib
import importlib.util
import json
import math
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
NUM_DEVICES = 4
RESULT_MARK = "@@RESULT@@"


class Comparison(NamedTuple):
    """What one run of a program answered, and what TensorFlow answered."""

    got: Any
    want: Any
    note: str


def find_programs(folder: str = "cases") -> list[pathlib.Path]:
    """Returns the programs of a folder, by number."""
    return sorted((HERE / folder).glob("*.py"))


def load(path: pathlib.Path) -> Any:
    """Returns the module at `path`."""
    spec = importlib.util.spec_from_file_location(f"case_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def expected(path: pathlib.Path) -> Any:
    """Returns the recorded answer to the program at `path`."""
    folder = {"cases": "expected", "multi_worker": "expected_mw"}[path.parent.name]
    return json.loads((HERE / folder / f"{path.stem}.json").read_text())


def same(a: Any, b: Any) -> bool:
    """Whether two answers agree.

    Floats compare within a tolerance; everything else must be equal, except that the
    64-bit types count as the 32-bit ones, which are JAX's default.
    """
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, str) and isinstance(b, str):
        return _in_32_bits(a) == _in_32_bits(b)
    return bool(a == b)


def _in_32_bits(text: str) -> str:
    return text.replace("int64", "int32").replace("float64", "float32")


def compare(path: pathlib.Path, module: str) -> Iterator[Comparison]:
    """Yields one comparison, or one for each cluster of a multi-worker program."""
    want = expected(path)
    if "clusters" not in want:
        got, note = _run_alone(module, path)
        yield Comparison(got, want["result"], note)
        return
    for entry in want["clusters"]:
        answers, note = _run_cluster(module, path, entry["cluster"])
        yield Comparison(answers, entry["tasks"], note)


def _run_alone(module: str, path: pathlib.Path) -> tuple[Any, str]:
    return _answer_of(_start(module, path, _environment(NUM_DEVICES)), seconds=300)


def _run_cluster(
    module: str, path: pathlib.Path, shape: dict[str, int]
) -> tuple[dict[str, Any], str]:
    jobs = _choose_addresses(shape)
    tasks = [(job, i) for job in ("chief", "worker") for i in range(shape.get(job, 0))]
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for index, (job, i) in enumerate(tasks):
            config = {"cluster": jobs, "task": {"type": job, "index": i}}
            environment = _environment(1) | {
                "MW_SHARED_DIR": folder,
                "MW_TASKS": str(len(tasks)),
                "TF_CONFIG": json.dumps(config),
            }
            processes.append(_start(module, path, environment, str(index)))
        outcomes = [_answer_of(process, seconds=180) for process in processes]
    answers = {str(i): got for i, (got, note) in enumerate(outcomes) if not note}
    notes = [f"task {i}: {note}" for i, (_, note) in enumerate(outcomes) if note]
    return answers, "\n".join(notes)


def _choose_addresses(shape: dict[str, int]) -> dict[str, list[str]]:
    # All sockets are open at once, so that no port is given out twice.
    sockets = {job: [socket.socket() for _ in range(n)] for job, n in shape.items()}
    addresses: dict[str, list[str]] = {job: [] for job in shape}
    for job, group in sockets.items():
        for each in group:
            each.bind(("127.0.0.1", 0))
            addresses[job].append(f"127.0.0.1:{each.getsockname()[1]}")
    for group in sockets.values():
        for each in group:
            each.close()
    return addresses


def _environment(num_devices: int) -> dict[str, str]:
    flag = f"--xla_force_host_platform_device_count={num_devices}"
    environment = os.environ | {
        "CUDA_VISIBLE_DEVICES": "-1",
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip(),
    }
    environment.pop("TF_CONFIG", None)
    return environment


def _start(
    module: str, path: pathlib.Path, environment: dict[str, str], *index: str
) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", module, str(path), *index]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def _answer_of(process: subprocess.Popen[str], seconds: float) -> tuple[Any, str]:
    """Returns a program's answer, and why there is none."""
    reason = ""
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        reason = f"timed out after {seconds} s\n"
    lines = [line for line in stdout.splitlines() if line.startswith(RESULT_MARK)]
    if lines:
        return json.loads(lines[-1].removeprefix(RESULT_MARK)), ""
    last_lines = "\n".join(stderr.strip().splitlines()[-3:])
    return None, reason + (last_lines or f"exit code {process.returncode}")


def _run_child(module: str, path: pathlib.Path, index: int | None) -> None:
    """Runs one program in this process and prints its answer."""
    tf = importlib.import_module(module)
    if module == "tensorflow" and index is None:
        devices = [tf.config.LogicalDeviceConfiguration()] * NUM_DEVICES
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, devices)
    case = load(path).case
    if index is None:
        print(RESULT_MARK + json.dumps(case(tf, np)), flush=True)
        return
    print(RESULT_MARK + json.dumps(case(tf, np, index)), flush=True)
    _wait_for_all_tasks(index)
    # A task that leaves in the ordinary way would wait for peers that are gone.
    os._exit(0)


def _wait_for_all_tasks(index: int, seconds: float = 60) -> None:
    folder = pathlib.Path(os.environ["MW_SHARED_DIR"])
    (folder / f"done{index}").touch()
    deadline = time.monotonic() + seconds
    while len(list(folder.glob("done*"))) < int(os.environ["MW_TASKS"]):
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", help="regular expressions on names")
    parser.add_argument("--module", default="mirrax.tf", help="the namespace to check")
    parser.add_argument("--mw", action="store_true", help="the multi-worker programs")
    parser.add_argument("--list", type=pathlib.Path, help="a file of exact names")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Checks the chosen programs and returns the exit code."""
    options = _parse(arguments)
    patterns = options.patterns
    if options.list:
        patterns = [f"^{re.escape(name)}$" for name in options.list.read_text().split()]
    num_same, different = 0, []
    for path in find_programs("multi_worker" if options.mw else "cases"):
        if patterns and not any(re.search(p, path.stem) for p in patterns):
            continue
        wrong = [c for c in compare(path, options.module) if not same(c.got, c.want)]
        print("FAIL" if wrong else "ok  ", path.stem, flush=True)
        num_same += not wrong
        if wrong:
            different.append(path.stem)
        for comparison in wrong:
            print("     want", json.dumps(comparison.want)[:700])
            print("     got ", json.dumps(comparison.got)[:700])
            print("     " + comparison.note.replace("\n", "\n     "))
    print(f"{num_same} ok, {len(different)} differ", *different)
    return 1 if different else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child_module, child_path, *child_index = sys.argv[2:]
        _run_child(
            child_module,
            pathlib.Path(child_path),
            int(child_index[0]) if child_index else None,
        )
    else:
        sys.exit(main(sys.argv[1:]))
