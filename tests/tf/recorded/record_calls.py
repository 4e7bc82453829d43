"""Records what TensorFlow gives for each of `calls.CALLS`.

Needs TensorFlow 2.21 in an environment of its own, and writes calls.json beside it:

    python tests/tf/recorded/record_calls.py

The tests need neither this program nor TensorFlow.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "calls.json"


def to_plain(value):
    """Returns a result as JSON can hold it."""
    import numpy as np

    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype.kind in "OSU":
        texts = [x.decode() if isinstance(x, bytes) else x for x in array.reshape(-1)]
        return {"dtype": "string", "shape": list(array.shape), "values": texts}
    name = array.dtype.name
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    values = [float(f"{x:.9g}") for x in array.reshape(-1).astype(float)]
    return {"dtype": name, "shape": list(array.shape), "values": values}


def main():
    sys.path.insert(0, str(HERE))
    import tensorflow as tf
    from calls import CALLS, NAMES

    results = {}
    for call in CALLS:
        try:
            results[call] = to_plain(eval(call, {"tf": tf, **NAMES}))
        except Exception as error:
            raise RuntimeError(f"TensorFlow cannot answer {call}.") from error
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in results.items()]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(results)} results in {RESULTS}, from TensorFlow {tf.__version__}")


if __name__ == "__main__":
    main()
