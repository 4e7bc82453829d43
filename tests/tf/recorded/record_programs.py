"""Records the losses that TensorFlow gives for the programs in `programs/`.

Needs TensorFlow 2.21 in an environment of its own, and writes programs.json beside it:

    python tests/tf/recorded/record_programs.py

Every program has `train(tf, np)`, which returns its losses, and is the same for
TensorFlow and for `mirrax.tf`. The tests need neither this program nor TensorFlow.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "programs.json"
PROGRAMS = sorted((HERE / "programs").glob("*.py"))


def load(path):
    """Returns the module at `path`."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def losses_of(path):
    """Returns the losses of one program with TensorFlow, in this process."""
    import numpy as np
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration()] * 4
    tf.config.set_logical_device_configuration(cpu, devices)
    return load(path).train(tf, np)


def main(arguments):
    if arguments:
        print(json.dumps(losses_of(pathlib.Path(arguments[0]))))
        return
    lines = []
    for path in PROGRAMS:
        # In TensorFlow, strategies of different sizes do not work in one process.
        command = [sys.executable, __file__, str(path)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        lines.append(f"{json.dumps(path.stem)}: {done.stdout.splitlines()[-1]}")
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(lines)} programs in {RESULTS}")


if __name__ == "__main__":
    main(sys.argv[1:])
