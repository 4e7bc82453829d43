"""Datasets against tf.data, in one interleaved run, and what saving a position takes.

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
    "TFRecord, interleaved": 1,
    "TFRecord, parsed examples": 1,
    "text lines": 5,
    "over two devices": 8,
}
FILES = 8
SAVE_SECONDS, SAVE_BYTES = 1e-3, 4096


def workloads(data, parse, folder):
    """Returns functions that go through a dataset once; `data` is either library.

    `parse` makes arrays of a batch of serialized examples.
    """
    dataset = data.Dataset
    images = np.random.default_rng(0).random((20_000, 64), np.float32)
    labels = np.arange(20_000)
    records = str(folder / "records.tfrecord")
    several = [str(folder / f"several-{i}.tfrecord") for i in range(FILES)]
    examples = str(folder / "examples.tfrecord")
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
        "TFRecord, interleaved": count(
            dataset.from_tensor_slices(several)
            .interleave(
                data.TFRecordDataset,
                cycle_length=FILES,
                num_parallel_calls=data.AUTOTUNE,
            )
            .batch(128)
        ),
        "TFRecord, parsed examples": count(
            data.TFRecordDataset(examples).batch(128).map(parse)
        ),
        "text lines": count(data.TextLineDataset(lines).batch(128)),
    }


def over_two_devices(strategy, dataset):
    images = np.random.default_rng(0).random((20_000, 64), np.float32)
    plan = dataset.from_tensor_slices(images).batch(128)
    distributed = strategy.experimental_distribute_dataset(plan)
    return lambda: sum(1 for _ in distributed)


def write_files(folder):
    from mirrax.data.example import (
        BytesList,
        Example,
        Feature,
        Features,
        FloatList,
        Int64List,
    )
    from mirrax.data.tfrecord_writer import TFRecordWriter

    def write(name, records):
        with TFRecordWriter(str(folder / name)) as writer:
            for record in records:
                writer.write(record)

    def example(i):
        features = {
            "image": Feature(
                float_list=FloatList(value=[i / 7 + j for j in range(64)])
            ),
            "label": Feature(int64_list=Int64List(value=[i % 10])),
            "name": Feature(bytes_list=BytesList(value=[b"example %d" % i])),
        }
        return Example(features=Features(feature=features)).SerializeToString()

    write("records.tfrecord", (b"x" * 200 for _ in range(50_000)))
    for i in range(FILES):
        write(f"several-{i}.tfrecord", (b"x" * 200 for _ in range(6_000)))
    write("examples.tfrecord", map(example, range(20_000)))
    (folder / "lines.txt").write_text("".join(f"line {i}\n" for i in range(200_000)))


def parser(parse_example, features, floats, integers, strings):
    """Returns a function of a batch of serialized examples."""
    wanted = {
        "image": features((64,), floats),
        "label": features((), integers),
        "name": features((), strings),
    }
    return lambda serialized: parse_example(serialized, wanted)


def save_position():
    """Prints what saving a position takes; returns whether that is little enough."""
    import mirrax

    numbers = mirrax.data.Dataset.range(60_000).shuffle(60_000, seed=1).batch(128)
    iterator = iter(numbers.repeat())
    for _ in range(300):
        next(iterator)
    seconds = []
    for _ in range(100):
        start = time.perf_counter()
        state = json.dumps(iterator.save_state())
        seconds.append(time.perf_counter() - start)
    own = statistics.median(seconds)
    kept = own <= SAVE_SECONDS and len(state) <= SAVE_BYTES
    name = "save a full shuffle of 60,000"
    print(
        f"{name:32s} {own * 1e6:6.0f} us, {len(state)} bytes "
        f"(limits {SAVE_SECONDS * 1e6:.0f}, {SAVE_BYTES}: {'ok' if kept else 'MISSED'})"
    )
    return kept


def serve(folder):
    """Runs tf.data: reads names of workloads, answers with seconds."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    parse = parser(
        tf.io.parse_example, tf.io.FixedLenFeature, tf.float32, tf.int64, tf.string
    )
    programs = workloads(tf.data, parse, pathlib.Path(folder))
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
    data = mirrax.data
    features = data.FixedLenFeature
    parse = parser(data.parse_example, features, np.float32, np.int64, bytes)
    ours = workloads(data, parse, folder)
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
    kept &= save_position()
    sys.exit(not kept)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        main(sys.argv[1])
