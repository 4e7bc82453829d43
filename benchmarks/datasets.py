"""Datasets against tf.data, in one interleaved run.

    python benchmarks/datasets.py PYTHON

PYTHON is an interpreter of an environment that has TensorFlow; it runs in a process of
its own, and the two take turns. Printed is how many times faster Mirrax is.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROUNDS = 7
LIMITS = {
    "in memory: shuffle, batch": 8,
    "map, then batch": 20,
    "batch, then map": 4,
    "TFRecord, in sequence": 1,
    "text lines": 5,
    "over two devices": 8,
}


def workloads(data, folder):
    """Returns functions that go through a dataset once; `data` is either library."""
    dataset = data.Dataset
    images = np.random.default_rng(0).random((20_000, 64), np.float32)
    labels = np.arange(20_000)
    records = str(folder / "records.tfrecord")
    lines = str(folder / "lines.txt")

    def count(plan):
        return lambda: sum(1 for _ in plan)

    return {
        "in memory: shuffle, batch": count(
            dataset.from_tensor_slices((images, labels)).shuffle(20_000).batch(128)
        ),
        "map, then batch": count(
            dataset.from_tensor_slices(images).map(lambda x: x * 2.0 - 1.0).batch(128)
        ),
        "batch, then map": count(
            dataset.from_tensor_slices(images).batch(128).map(lambda x: x * 2.0 - 1.0)
        ),
        "TFRecord, in sequence": count(data.TFRecordDataset(records).batch(128)),
        "text lines": count(data.TextLineDataset(lines).batch(128)),
    }


def over_two_devices(strategy, dataset):
    images = np.random.default_rng(0).random((20_000, 64), np.float32)
    plan = dataset.from_tensor_slices(images).batch(128)
    distributed = strategy.experimental_distribute_dataset(plan)
    return lambda: sum(1 for _ in distributed)


def write_files(folder):
    import mirrax.data.tfrecord_writer

    writer_type = mirrax.data.tfrecord_writer.TFRecordWriter
    with writer_type(str(folder / "records.tfrecord")) as writer:
        for _ in range(50_000):
            writer.write(b"x" * 200)
    (folder / "lines.txt").write_text("".join(f"line {i}\n" for i in range(200_000)))


def serve(folder):
    """Runs tf.data: reads names of workloads, answers with seconds."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    programs = workloads(tf.data, pathlib.Path(folder))
    programs["over two devices"] = over_two_devices(strategy, tf.data.Dataset)
    for line in sys.stdin:
        start = time.perf_counter()
        programs[line.strip()]()
        print(json.dumps(time.perf_counter() - start), flush=True)


def main(python):
    import mirrax

    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    folder = pathlib.Path(tempfile.mkdtemp())
    write_files(folder)
    ours = workloads(mirrax.data, folder)
    ours["over two devices"] = over_two_devices(strategy, mirrax.data.Dataset)
    peer = subprocess.Popen(
        [python, __file__, "--serve", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def theirs(name):
        peer.stdin.write(f"{name}\n")
        peer.stdin.flush()
        return json.loads(peer.stdout.readline())

    kept = True
    for name, limit in LIMITS.items():
        ratios = []
        for turn in range(ROUNDS + 1):
            start = time.perf_counter()
            ours[name]()
            own = time.perf_counter() - start
            ratio = theirs(name) / own
            if turn:
                ratios.append(ratio)
        ratio = statistics.median(ratios)
        kept &= ratio >= limit
        verdict = "ok" if ratio >= limit else "MISSED"
        print(f"{name:32s} {ratio:6.1f} times faster (limit {limit}: {verdict})")
    peer.kill()
    sys.exit(not kept)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        main(sys.argv[1])
