"""Records the losses that TensorFlow prints for whole programs.

Those in `whole_programs/` run in one process, `worker_programs/` on two workers.

Needs TensorFlow 2.21 and tf_keras in an environment of their own, and writes
whole_programs.json:

    python tests/tf/recorded/record_whole_programs.py

The programs say `import tensorflow as tf`; TensorBoard need not be installed. The tests
need neither this program nor TensorFlow.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "whole_programs.json"
PROGRAMS = sorted((HERE / "whole_programs").glob("*.py"))
WORKER_PROGRAMS = sorted((HERE / "worker_programs").glob("*.py"))
# `fit` of Keras 3 fails on several workers of TensorFlow; one gives the same losses.
# That of Keras 2 (the package tf_keras) works.
NUM_WORKERS = {"custom_loop": 2, "keras_2_job": 2, "keras_job": 1}
LEGACY_KERAS = {"keras_2_job": {"TF_USE_LEGACY_KERAS": "1"}}
PORT = 23450


def losses_in(output):
    """Returns the numbers that a program printed, one list for each line."""
    lines = [line.split() for line in output.splitlines() if line.startswith("losses ")]
    return [[float(word) for word in words[1:]] for words in lines]


def record(path):
    """Returns the losses of one program with TensorFlow."""
    lines = path.read_text().splitlines(keepends=True)
    source = "".join(line for line in lines if "callbacks.TensorBoard" not in line)
    command = [sys.executable, "-c", source]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return losses_in(done.stdout)


def record_workers(path):
    """Returns the losses of the first worker with TensorFlow."""
    count = NUM_WORKERS[path.stem]
    cluster = {"worker": [f"127.0.0.1:{PORT + i}" for i in range(count)]}
    with tempfile.TemporaryDirectory() as folder:
        workers = []
        for index in range(count):
            task = {"type": "worker", "index": index}
            config = json.dumps({"cluster": cluster, "task": task})
            environment = os.environ | LEGACY_KERAS.get(path.stem, {})
            environment |= {"TF_CONFIG": config} if count > 1 else {}
            command = [sys.executable, str(path), "--folder", folder]
            workers.append(
                subprocess.Popen(
                    command, stdout=subprocess.PIPE, text=True, env=environment
                )
            )
        outputs = [worker.communicate()[0] for worker in workers]
    return losses_in(outputs[0])


def main():
    found = {path.stem: record(path) for path in PROGRAMS}
    found |= {path.stem: record_workers(path) for path in WORKER_PROGRAMS}
    lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in found]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(lines)} programs in {RESULTS}")


if __name__ == "__main__":
    main()
