"""Event files are written as TensorBoard reads them."""

import contextvars
import io
import struct
import wave
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import summary


def read_events(folder):
    (path,) = folder.glob("events.out.tfevents.*")
    return [
        bytes(r) for r in mirrax.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]


def test_scalars_are_written_as_tensorboard_reads_them(tmp_path):
    with summary.create_file_writer(str(tmp_path)).as_default():
        assert summary.scalar("loss", jnp.asarray(1.5), step=300)
    version, event = read_events(tmp_path)
    assert version.endswith(b"\x1a\x0dbrain.Event:2")
    value = b"\x0a\x04loss\x15" + struct.pack("<f", 1.5)
    whole = b"\x0a" + bytes([len(value)]) + value
    assert event[:1] == b"\x09"
    assert event[9:] == b"\x10\xac\x02" + b"\x2a" + bytes([len(whole)]) + whole


def test_scalars_in_programs_are_written_when_they_run(tmp_path):
    writer = summary.create_file_writer(str(tmp_path), max_queue=1)

    @mirrax.function
    def step(x, number):
        summary.scalar("x", x * 2, step=number)

    with writer.as_default():
        for number in range(3):
            step(jnp.asarray(1.0), number)
        jax.effects_barrier()
    writer.close()
    assert len(read_events(tmp_path)) == 4


def test_variables_and_lists_in_programs_are_written(tmp_path):
    variable = mirrax.Variable(2.0)
    with summary.create_file_writer(str(tmp_path)).as_default():

        @mirrax.function
        def step(number):
            summary.histogram("x", [variable, variable.value], step=number)

        step(mirrax.Variable(3))
        jax.effects_barrier()
    assert b"\x10\x03" in read_events(tmp_path)[1]


@pytest.mark.parametrize("step", [2**40, np.int64(2**40)])
def test_steps_may_be_large(tmp_path, step):
    with summary.create_file_writer(str(tmp_path)).as_default():
        summary.scalar("x", 1.0, step=step)
    assert read_events(tmp_path)[1][9:].startswith(b"\x10\x80\x80\x80\x80\x80\x20")


def test_histogram_leaves_out_what_is_not_finite(tmp_path):
    with summary.create_file_writer(str(tmp_path)).as_default(step=1):
        assert summary.histogram("x", [1.0, np.nan, 3.0, np.inf], buckets=2)
        assert summary.histogram("x", [np.nan])
    _, event, empty = read_events(tmp_path)
    assert struct.pack("<d", 3.0) in event
    assert struct.pack("<2d", 1, 1) in event
    assert empty.endswith(b"\x2a\x00")


def test_images_have_up_to_four_channels():
    with pytest.raises(ValueError, match=r"1 to 4 channels.*\(1, 2, 2, 5\)"):
        summary.image("x", np.zeros((1, 2, 2, 5)), step=1)


def test_recording_can_be_switched_off(tmp_path):
    assert not summary.scalar("x", 1.0, step=0)
    with summary.create_file_writer(str(tmp_path)).as_default(step=5) as writer:
        assert summary.get_step() == 5
        with summary.record_if(lambda: False):
            assert not summary.should_record_summaries()
            assert not summary.scalar("x", 1.0)
        summary.set_step(6)
        assert summary.scalar("x", 1.0)
        summary.flush()
        assert writer is not None
    assert b"\x10\x06" in read_events(tmp_path)[1]


def test_scalars_need_a_step_and_one_number(tmp_path):
    with summary.create_noop_writer().as_default():
        with pytest.raises(ValueError, match="needs a step"):
            summary.scalar("x", 1.0)
        with pytest.raises(ValueError, match=r"one number. Received: shape \(2,\)"):
            summary.scalar("x", [1.0, 2.0], step=1)


def test_images_are_written_as_png_files(tmp_path):
    images = np.zeros((4, 1, 2, 3), np.float32)
    images[0, 0, 1] = [1.0, 0.5, 0.25]
    with summary.create_file_writer(str(tmp_path)).as_default(step=1):
        assert summary.image("picture", images, max_outputs=2)
    _, event = read_events(tmp_path)
    assert b"images" in event
    assert event.count(b"\x89PNG") == 2
    start = event.index(b"IDAT")
    (length,) = struct.unpack(">I", event[start - 4 : start])
    pixels = zlib.decompress(event[start + 4 : start + 4 + length])
    assert list(pixels) == [0, 0, 0, 0, 255, 127, 63]


def test_sounds_are_written_as_wav_files(tmp_path):
    sound = np.array([[[0.0], [1.0], [-1.0]]])
    with summary.create_file_writer(str(tmp_path)).as_default(step=1):
        assert summary.audio("sound", sound, 8000)
    _, event = read_events(tmp_path)
    assert b"audio" in event
    with wave.open(io.BytesIO(event[event.index(b"RIFF") :])) as file:
        assert file.getframerate() == 8000
        samples = np.frombuffer(file.readframes(3), "<i2")
    assert samples.tolist() == [0, 32767, -32767]


def test_images_and_sounds_have_axes_for_each(tmp_path):
    with summary.create_noop_writer().as_default(step=1):
        with pytest.raises(ValueError, match=r"\[k, height, width, channels\]"):
            summary.image("x", np.zeros((2, 2, 3)))
        with pytest.raises(ValueError, match=r"\[k, samples, channels\]"):
            summary.audio("x", np.zeros((2, 3)), 8000)


def test_histograms_and_text_are_written_as_tensorboard_reads_them(tmp_path):
    with summary.create_file_writer(str(tmp_path)).as_default(step=1):
        assert summary.histogram("h", [0.0, 1.0, 2.0, 4.0], buckets=2)
        assert summary.histogram("e", [])
        assert summary.text("t", ["x", "yz"])
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
    writer = summary.create_file_writer(str(tmp_path), max_queue=1)

    @mirrax.function
    def program(x):
        summary.histogram("x", x * 2, step=3)

    with writer.as_default():
        program(jnp.ones(4))
        jax.effects_barrier()
    (path,) = tmp_path.iterdir()
    assert len(list(mirrax.data.TFRecordDataset(str(path)))) == 2


def test_tensors_are_written_for_their_plugin(tmp_path):
    metadata = summary.SummaryMetadata()
    metadata.plugin_data.plugin_name = "curves"
    with summary.create_file_writer(str(tmp_path)).as_default(step=1):
        assert summary.write("numbers", jnp.array([1.0, 2.0]), metadata=metadata)
        assert summary.write("text", "abc")
    _, numbers, text = read_events(tmp_path)
    # A tensor of floats (1) of shape [2], with its bytes.
    tensor = b"\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08" + struct.pack("<ff", 1, 2)
    assert tensor in numbers
    assert b"\x0a\x06curves" in numbers
    assert b"\x42\x03abc" in text


def test_writer_can_be_the_default_from_now_on(tmp_path):
    def program():
        summary.create_file_writer(str(tmp_path), max_queue=1).set_as_default(step=2)
        assert summary.scalar("x", 1.0)

    contextvars.copy_context().run(program)
    assert len(read_events(tmp_path)) == 2
