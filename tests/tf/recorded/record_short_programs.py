"""Records what TensorFlow answers to the functions in `short_programs/`.

Needs TensorFlow 2.21 in an environment of its own, and writes short_programs.json
beside it:

    python tests/tf/recorded/record_short_programs.py

Every function takes `tf` and `np`; an error is recorded by the name of its class. The
tests need neither this program nor TensorFlow.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "short_programs.json"
MODULES = sorted((HERE / "short_programs").glob("*.py"))
ROOT = HERE.parents[2]


def functions_of(path):
    """Returns the functions of the module at `path`, by their names."""
    if str(ROOT) not in sys.path:
        # Run as a script, this program finds no `tests` to import from.
        sys.path.insert(0, str(ROOT))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {
        name: value
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and not isinstance(value, type)
    }


def answer_of(function, tf, np):
    """Returns the answer as JSON has it."""
    try:
        return json.loads(json.dumps(_plain(function(tf, np), np)))
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__[:-2]]
        return {"error": kinds[0], "kinds": kinds}


def _plain(value, np):
    """Returns tensors with their dtypes; of nests, those of what they hold."""
    if isinstance(value, dict):
        return {str(key): _plain(item, np) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, list | tuple):
        return [_plain(item, np) for item in value]
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype.kind in "OSU":
        return {"dtype": "string", "values": _plain(array.tolist(), np)}
    if array.dtype.name == "bfloat16":
        return {"dtype": "bfloat16", "values": array.astype(np.float32).tolist()}
    return {"dtype": array.dtype.name, "values": array.tolist()}


def record(path):
    """Returns the answers of TensorFlow to one module, in this process."""
    import numpy as np
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration()] * 4
    tf.config.set_logical_device_configuration(cpu, devices)
    found = functions_of(path)
    return {name: answer_of(function, tf, np) for name, function in found.items()}


def main(arguments):
    if arguments:
        print(json.dumps(record(pathlib.Path(arguments[0]))))
        return
    lines = []
    for path in MODULES:
        command = [sys.executable, __file__, str(path)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        answers = json.loads(done.stdout.splitlines()[-1])
        lines += [f'"{path.stem}.{k}": {json.dumps(v)}' for k, v in answers.items()]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(lines)} answers in {RESULTS}")


if __name__ == "__main__":
    main(sys.argv[1:])
