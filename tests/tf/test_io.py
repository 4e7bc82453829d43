import io
import struct
import wave
import zlib

import jax
import numpy as np
import pytest

import mirrax
from mirrax import tf


def test_examples_are_written_and_read(tmp_path):
    path = str(tmp_path / "examples")
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=[1.5, 2.5]))
    features = tf.train.Features(feature={"x": feature})
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions("GZIP")) as writer:
        writer.write(tf.train.Example(features=features).SerializeToString())
    spec = {"x": tf.io.FixedLenFeature([2], tf.float32)}
    dataset = tf.data.TFRecordDataset(path, "GZIP")
    parsed = dataset.map(lambda record: tf.io.parse_single_example(record, spec))
    assert [x["x"].tolist() for x in parsed.as_numpy_iterator()] == [[1.5, 2.5]]


def test_writers_take_the_name_of_a_compression(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "x"), "ZLIB") as writer:
        writer.write(b"x")
    assert len(list(tf.data.TFRecordDataset(str(tmp_path / "x"), "ZLIB"))) == 1


def test_files_are_read_and_written(tmp_path):
    path = tmp_path / "folder" / "a.txt"
    tf.io.write_file(str(path), "text")
    assert tf.io.read_file(tf.constant(str(path))).numpy() == b"text"
    found = tf.io.matching_files(str(path.parent / "*.txt"))
    assert found.numpy().tolist() == [str(path).encode()]


def test_gfile_works_on_files(tmp_path):
    gfile = tf.io.gfile
    folder = gfile.join(str(tmp_path), "a", "b")
    gfile.makedirs(folder)
    gfile.mkdir(gfile.join(folder, "c"))
    name = gfile.join(folder, "x")
    with gfile.GFile(name, "w") as file:
        file.write("1")
    gfile.copy(name, name + "2")
    with pytest.raises(tf.errors.AlreadyExistsError, match="overwrite=True"):
        gfile.rename(name, name + "2")
    gfile.rename(name, name + "2", overwrite=True)
    assert not gfile.exists(name)
    assert gfile.glob([name + "*"]) == [name + "2"]
    assert sorted(gfile.listdir(folder)) == ["c", "x2"]
    assert gfile.stat(name + "2").st_size == 1
    assert len(list(gfile.walk(folder))) == 2
    gfile.remove(name + "2")
    gfile.rmtree(folder)
    assert not gfile.isdir(folder)


def test_empty_fields_need_a_default():
    with pytest.raises(ValueError, match="without default must not be empty"):
        tf.io.decode_csv("1,", [tf.int32, tf.float32])


def test_strings_are_split_one_by_one():
    with pytest.raises(NotImplementedError, match="no ragged tensors"):
        tf.strings.split(["a b", "c"])


# Summaries.


def read_events(folder):
    (path,) = folder.glob("events.out.tfevents.*")
    return [
        bytes(r) for r in mirrax.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]


def test_scalars_are_written_as_tensorboard_reads_them(tmp_path):
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        assert tf.summary.scalar("loss", tf.constant(1.5), step=300)
    version, event = read_events(tmp_path)
    assert version.endswith(b"\x1a\x0dbrain.Event:2")
    value = b"\x0a\x04loss\x15" + struct.pack("<f", 1.5)
    summary = b"\x0a" + bytes([len(value)]) + value
    assert event[:1] == b"\x09"
    assert event[9:] == b"\x10\xac\x02" + b"\x2a" + bytes([len(summary)]) + summary


def test_scalars_in_programs_are_written_when_they_run(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path), max_queue=1)

    @tf.function
    def step(x, number):
        tf.summary.scalar("x", x * 2, step=number)

    with writer.as_default():
        for number in range(3):
            step(tf.constant(1.0), tf.constant(number))
        import jax

        jax.effects_barrier()
    writer.close()
    assert len(read_events(tmp_path)) == 4


def test_recording_can_be_switched_off(tmp_path):
    assert not tf.summary.scalar("x", 1.0, step=0)
    with tf.summary.create_file_writer(str(tmp_path)).as_default(step=5) as writer:
        assert tf.summary.experimental.get_step() == 5
        with tf.summary.record_if(lambda: False):
            assert not tf.summary.should_record_summaries()
            assert not tf.summary.scalar("x", 1.0)
        tf.summary.experimental.set_step(6)
        assert tf.summary.scalar("x", 1.0)
        tf.summary.flush()
        assert writer is not None
    assert b"\x10\x06" in read_events(tmp_path)[1]


def test_scalars_need_a_step_and_one_number(tmp_path):
    with tf.summary.create_noop_writer().as_default():
        with pytest.raises(ValueError, match="needs a step"):
            tf.summary.scalar("x", 1.0)
        with pytest.raises(ValueError, match=r"one number. Received: shape \(2,\)"):
            tf.summary.scalar("x", [1.0, 2.0], step=1)


def test_images_are_written_as_png_files(tmp_path):
    images = np.zeros((4, 1, 2, 3), np.float32)
    images[0, 0, 1] = [1.0, 0.5, 0.25]
    with tf.summary.create_file_writer(str(tmp_path)).as_default(step=1):
        assert tf.summary.image("picture", images, max_outputs=2)
    _, event = read_events(tmp_path)
    assert b"images" in event
    assert event.count(b"\x89PNG") == 2
    start = event.index(b"IDAT")
    (length,) = struct.unpack(">I", event[start - 4 : start])
    pixels = zlib.decompress(event[start + 4 : start + 4 + length])
    assert list(pixels) == [0, 0, 0, 0, 255, 127, 63]


def test_sounds_are_written_as_wav_files(tmp_path):
    sound = np.array([[[0.0], [1.0], [-1.0]]])
    with tf.summary.create_file_writer(str(tmp_path)).as_default(step=1):
        assert tf.summary.audio("sound", sound, 8000)
    _, event = read_events(tmp_path)
    assert b"audio" in event
    with wave.open(io.BytesIO(event[event.index(b"RIFF") :])) as file:
        assert file.getframerate() == 8000
        samples = np.frombuffer(file.readframes(3), "<i2")
    assert samples.tolist() == [0, 32767, -32767]


def test_images_and_sounds_have_axes_for_each(tmp_path):
    with tf.summary.create_noop_writer().as_default(step=1):
        with pytest.raises(ValueError, match=r"\[k, height, width, channels\]"):
            tf.summary.image("x", np.zeros((2, 2, 3)))
        with pytest.raises(ValueError, match=r"\[k, samples, channels\]"):
            tf.summary.audio("x", np.zeros((2, 3)), 8000)


def test_histograms_and_text_are_written_as_tensorboard_reads_them(tmp_path):
    with tf.summary.create_file_writer(str(tmp_path)).as_default(step=1):
        assert tf.summary.histogram("h", [0.0, 1.0, 2.0, 4.0], buckets=2)
        assert tf.summary.histogram("e", [])
        assert tf.summary.text("t", ["x", "yz"])
    (path,) = tmp_path.iterdir()
    _, spread, empty, text = mirrax.data.TFRecordDataset(str(path))
    assert b"".join([b"\x32\x10", struct.pack("<dd", 2, 4)]) in spread
    assert b"".join([b"\x3a\x10", struct.pack("<dd", 2, 2)]) in spread
    assert b"\x21" + struct.pack("<d", 7) + b"\x29" + struct.pack("<d", 21) in spread
    assert empty.endswith(b"\x0a\x01e\x2a\x00")
    # A tensor of strings (7) of shape [2], and the plugin that shows it.
    tensor = b"\x08\x07\x12\x04\x12\x02\x08\x02\x42\x01x\x42\x02yz"
    assert b"\x42" + bytes([len(tensor)]) + tensor in text
    assert b"\x0a\x04text" in text


def test_histograms_in_programs_are_written_when_they_run(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path), max_queue=1)

    @tf.function
    def program(x):
        tf.summary.histogram("x", x * 2, step=3)

    with writer.as_default():
        program(tf.ones([4]))
        jax.effects_barrier()
    (path,) = tmp_path.iterdir()
    assert len(list(mirrax.data.TFRecordDataset(str(path)))) == 2
