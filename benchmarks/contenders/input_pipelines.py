"""Input pipelines, written once for the names that Mirrax and tf.data share."""

import pathlib

import numpy as np

NUM_FILES = 8


def make(data, parse, strategy, pipeline, folder, rows):
    """Returns what goes through a pipeline of `data`, which is either library."""
    plan = _plan(data, parse, pipeline, pathlib.Path(folder), rows)
    if pipeline == "over replicas":
        plan = strategy.experimental_distribute_dataset(plan)

    def run(repeats):
        for _ in range(repeats):
            count = sum(1 for _ in plan)
        return float(count)

    return run


def _plan(data, parse, pipeline, folder, rows):
    dataset = data.Dataset
    several = [str(folder / f"several-{i}.tfrecord") for i in range(NUM_FILES)]
    if pipeline in ("TFRecord", "examples"):
        records = data.TFRecordDataset(str(folder / f"{pipeline}.tfrecord")).batch(128)
        return records if pipeline == "TFRecord" else records.map(parse)
    if pipeline == "interleaved":
        options = {"cycle_length": NUM_FILES, "num_parallel_calls": data.AUTOTUNE}
        files = dataset.from_tensor_slices(several)
        return files.interleave(data.TFRecordDataset, **options).batch(128)
    if pipeline == "text lines":
        return data.TextLineDataset(str(folder / "lines.txt")).batch(128)
    images = np.random.default_rng(0).random((rows, 64), np.float32)
    slices = dataset.from_tensor_slices(images)
    if pipeline == "shuffle, batch":
        pairs = dataset.from_tensor_slices((images, np.arange(rows)))
        return pairs.shuffle(rows).batch(128)
    if pipeline == "map, batch":
        return slices.map(lambda x: x * 2.0 - 1.0).batch(128)
    if pipeline == "batch, map":
        return slices.batch(128).map(lambda x: x * 2.0 - 1.0)
    return slices.batch(128)


def parser(parse_example, feature, floats, integers, strings):
    """Returns a function of a batch of serialized examples."""
    wanted = {
        "image": feature((64,), floats),
        "label": feature((), integers),
        "name": feature((), strings),
    }
    return lambda serialized: parse_example(serialized, wanted)


def write_files(folder):
    """Writes what the pipelines read; needs Mirrax."""
    from mirrax.data.example import (
        BytesList,
        Example,
        Feature,
        Features,
        FloatList,
        Int64List,
    )
    from mirrax.data.file_formats.tfrecord import TFRecordWriter

    def write(name, records):
        with TFRecordWriter(str(folder / f"{name}.tfrecord")) as writer:
            for record in records:
                writer.write(record)

    def example(i):
        floats = FloatList(value=[i / 7 + j for j in range(64)])
        features = {
            "image": Feature(float_list=floats),
            "label": Feature(int64_list=Int64List(value=[i % 10])),
            "name": Feature(bytes_list=BytesList(value=[b"example %d" % i])),
        }
        return Example(features=Features(feature=features)).SerializeToString()

    write("TFRecord", (b"x" * 200 for _ in range(50_000)))
    for i in range(NUM_FILES):
        write(f"several-{i}", (b"x" * 200 for _ in range(6_000)))
    write("examples", map(example, range(20_000)))
    (folder / "lines.txt").write_text("".join(f"line {i}\n" for i in range(200_000)))
