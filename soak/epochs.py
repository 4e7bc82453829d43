"""Goes through datasets epoch after epoch: memory, threads and files must not grow.

    python soak/epochs.py [number of epochs]

Every epoch trains on arrays, reads files in threads, leaves an iterator in the middle,
and goes on from a saved position. What the process holds after the first quarter is
compared with what it holds at the end.
"""

import gc
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time

import numpy as np

import mirrax
from mirrax.data import AUTOTUNE, Dataset, TFRecordDataset, TFRecordWriter

EPOCHS = 200
FILES, RECORDS = 4, 500
# What an allocator may keep; a leak of one small batch per epoch is several times that.
MEMORY_LIMIT = 4 << 20


def write_files(folder):
    """Returns the names of files of records, each eight numbers."""
    rng = np.random.default_rng(0)
    names = [str(folder / f"{i}.tfrecord") for i in range(FILES)]
    for name in names:
        with TFRecordWriter(name) as writer:
            for _ in range(RECORDS):
                writer.write(rng.random(512).tobytes())
    return names


def decode(record):
    return np.frombuffer(record, np.float64)


def files(names):
    """Returns a dataset that has threads at every stage."""
    records = Dataset.from_tensor_slices(names).shuffle(FILES)
    records = records.interleave(TFRecordDataset, num_parallel_calls=AUTOTUNE)
    return records.shuffle(100).map(decode, num_parallel_calls=4).batch(50)


def epoch(strategy, step, in_memory, from_files):
    """Takes every way through the datasets, once."""
    for batch in in_memory:
        strategy.run(step, args=(batch,))
    rows = sum(len(part) for batch in from_files for part in batch.values)
    assert rows == FILES * RECORDS
    left = iter(from_files)
    for _ in range(3):
        next(left)
    resumed = iter(from_files)
    resumed.restore_state(left.save_state())
    del left
    rest = sum(len(part) for batch in resumed for part in batch.values)
    assert rest == FILES * RECORDS - 150


def held():
    """Returns the bytes, threads and open files of this process."""
    gc.collect()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    num_files = len(os.listdir("/proc/self/fd"))
    num_bytes = pages * os.sysconf("SC_PAGE_SIZE")
    return num_bytes, threading.active_count(), num_files


def main(num_epochs):
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    images = np.random.default_rng(0).random((2000, 256), np.float32)
    arrays = Dataset.from_tensor_slices(images).shuffle(2000).map(lambda x: x * 2)
    in_memory = strategy.experimental_distribute_dataset(arrays.batch(128))
    names = write_files(pathlib.Path(tempfile.mkdtemp()))
    from_files = strategy.experimental_distribute_dataset(files(names))
    step = mirrax.function(lambda x: x.sum())

    history = []
    start = time.perf_counter()
    for number in range(num_epochs):
        epoch(strategy, step, in_memory, from_files)
        history.append(held())
        if (number + 1) % 20 == 0:
            num_bytes, num_threads, num_files = history[-1]
            print(
                f"epoch {number + 1:4d}: {num_bytes / 2**20:7.1f} MB, {num_threads} "
                f"threads, {num_files} files, {time.perf_counter() - start:.0f} s",
                flush=True,
            )
    quarter = num_epochs // 4
    early, late = history[quarter : 2 * quarter], history[-quarter:]
    before, after = ([statistics.median(x) for x in zip(*h)] for h in (early, late))
    growth = after[0] - before[0]
    kept = growth <= MEMORY_LIMIT and after[1:] == before[1:]
    print(
        f"growth: {growth / 2**20:+.2f} MB (limit {MEMORY_LIMIT / 2**20:.0f}), "
        f"{after[1] - before[1]:+.0f} threads, {after[2] - before[2]:+.0f} files: "
        f"{'ok' if kept else 'MISSED'}"
    )
    sys.exit(not kept)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else EPOCHS)
