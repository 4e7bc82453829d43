"""Runs the conformance programs against a tf-shaped namespace, in fresh processes.

    python tests/conformance/check.py [pattern ...]        one process, 4 CPU devices
    python tests/conformance/check.py --mw [pattern ...]   one process for each task
    python tests/conformance/check.py --mw --devices-per-worker 2 [pattern ...]

The last compares what does not depend on the number of devices; see `independent.py`.
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
# In place of the index of a task.
ALONE = -1


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


def compare_alone(path: pathlib.Path, module: str) -> Comparison:
    """Returns the comparison of a program that runs in one process."""
    got, note = _run_alone(module, path)
    return Comparison(got, expected(path)["result"], note)


def compare_on_workers(
    paths: Sequence[pathlib.Path], module: str, num_devices: int = 1
) -> Iterator[tuple[pathlib.Path, Comparison]]:
    """Yields comparisons of multi-worker programs, one for each cluster of a program.

    All programs for one cluster run in the same processes, one after another. With
    several devices per worker, only what does not depend on them is compared.
    """
    views = {path.stem: lambda tasks: tasks for path in paths}
    if num_devices > 1:
        views = load(HERE / "independent.py").INDEPENDENT
    groups: dict[str, list[tuple[pathlib.Path, Any]]] = {}
    for path in paths:
        for entry in expected(path)["clusters"] if path.stem in views else ():
            shape = json.dumps(entry["cluster"], sort_keys=True)
            groups.setdefault(shape, []).append((path, entry["tasks"]))
    for shape, group in groups.items():
        programs = [path for path, _ in group]
        answers, note = _run_cluster(module, programs, json.loads(shape), num_devices)
        for path, tasks in group:
            view = views[path.stem]
            got = {i: answer[path.stem] for i, answer in answers.items()}
            yield path, Comparison(view(got) if got else None, view(tasks), note)


def _run_alone(module: str, path: pathlib.Path) -> tuple[Any, str]:
    process = _start(module, [path], _environment(NUM_DEVICES))
    answers, note = _answer_of(process, 1, seconds=300)
    return answers.get(path.stem), note


def _run_cluster(
    module: str,
    paths: Sequence[pathlib.Path],
    shape: dict[str, int],
    num_devices: int = 1,
) -> tuple[dict[str, Any], str]:
    jobs = _choose_addresses(shape)
    tasks = [(job, i) for job in ("chief", "worker") for i in range(shape.get(job, 0))]
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for index, (job, i) in enumerate(tasks):
            config = {"cluster": jobs, "task": {"type": job, "index": i}}
            environment = _environment(num_devices) | {
                "MIRRAX_DEVICES_PER_WORKER": str(num_devices),
                "MW_SHARED_DIR": folder,
                "MW_TASKS": str(len(tasks)),
                "TF_CONFIG": json.dumps(config),
            }
            processes.append(_start(module, paths, environment, index))
        outcomes = [_answer_of(p, len(paths), seconds=600) for p in processes]
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
    module: str,
    paths: Sequence[pathlib.Path],
    environment: dict[str, str],
    index: int = ALONE,
) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", module, str(index)]
    command += map(str, paths)
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def _answer_of(
    process: subprocess.Popen[str], num_programs: int, seconds: float
) -> tuple[dict[str, Any], str]:
    """Returns the answer of each program, and why one is missing."""
    reason = ""
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        reason = f"timed out after {seconds} s\n"
    answers: dict[str, Any] = {}
    for line in stdout.splitlines():
        if line.startswith(RESULT_MARK):
            answers |= json.loads(line.removeprefix(RESULT_MARK))
    if len(answers) == num_programs:
        return answers, ""
    last_lines = "\n".join(stderr.strip().splitlines()[-3:])
    return answers, reason + (last_lines or f"exit code {process.returncode}")


def _run_child(module: str, index: int, paths: Sequence[pathlib.Path]) -> None:
    """Runs programs in this process and prints the answer of each."""
    tf = importlib.import_module(module)
    is_alone = index == ALONE
    if module == "tensorflow" and is_alone:
        devices = [tf.config.LogicalDeviceConfiguration()] * NUM_DEVICES
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, devices)
    for path in paths:
        case = load(path).case
        answer = case(tf, np) if is_alone else case(tf, np, index)
        # What is no plain answer becomes a text that no answer equals.
        text = json.dumps({path.stem: answer}, default=str)
        print(RESULT_MARK + text, flush=True)
    if not is_alone:
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
    parser.add_argument("--devices-per-worker", type=int, default=1, help="with --mw")
    parser.add_argument("--list", type=pathlib.Path, help="a file of exact names")
    return parser.parse_args(arguments)


def _compare_all(
    paths: Sequence[pathlib.Path], options: argparse.Namespace
) -> Iterator[tuple[pathlib.Path, list[Comparison]]]:
    if not options.mw:
        yield from ((path, [compare_alone(path, options.module)]) for path in paths)
        return
    found: dict[pathlib.Path, list[Comparison]] = {}
    for path, comparison in compare_on_workers(
        paths, options.module, options.devices_per_worker
    ):
        found.setdefault(path, []).append(comparison)
    yield from found.items()


def main(arguments: Sequence[str]) -> int:
    """Checks the chosen programs and returns the exit code."""
    options = _parse(arguments)
    patterns = options.patterns
    if options.list:
        patterns = [f"^{re.escape(name)}$" for name in options.list.read_text().split()]
    chosen = [
        path
        for path in find_programs("multi_worker" if options.mw else "cases")
        if not patterns or any(re.search(p, path.stem) for p in patterns)
    ]
    num_same, different = 0, []
    for path, comparisons in _compare_all(chosen, options):
        wrong = [c for c in comparisons if not same(c.got, c.want)]
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
        child_module, child_index, *child_paths = sys.argv[2:]
        _run_child(child_module, int(child_index), list(map(pathlib.Path, child_paths)))
    else:
        sys.exit(main(sys.argv[1:]))
