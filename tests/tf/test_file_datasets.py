"""Datasets of files and of windows, which Keras makes with TensorFlow."""

import numpy as np
import pytest

from mirrax import tf

utils = tf.keras.utils


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(["a", "b"]):
        (tmp_path / name).mkdir()
        for i in range(3):
            pixels = np.full((4, 5, 3), 10 * i + number, np.uint8)
            tf.io.write_file(tmp_path / name / f"{i}.png", tf.io.encode_png(pixels))
            tf.io.write_file(tmp_path / name / f"{i}.txt", f"{name} {i}")
    return tmp_path


def test_images_of_folders(folder):
    dataset = utils.image_dataset_from_directory(
        folder, image_size=(8, 6), batch_size=4, shuffle=False
    )
    assert dataset.class_names == ["a", "b"]
    first, last = dataset
    assert first[0].shape == (4, 8, 6, 3)
    assert first[1].numpy().tolist() == [0, 0, 0, 1]
    assert last[0][:, 0, 0, 0].tolist() == [11, 21]


def test_images_are_split_for_validation(folder):
    train, validation = utils.image_dataset_from_directory(
        folder, label_mode="categorical", validation_split=0.34, subset="both", seed=1
    )
    assert len(list(train.unbatch())) == 4
    images, labels = next(iter(validation))
    assert images.shape == (2, 256, 256, 3)
    assert labels.shape == (2, 2)


def test_texts_of_folders(folder):
    dataset = utils.text_dataset_from_directory(folder, batch_size=2, shuffle=False)
    texts, labels = next(iter(dataset))
    assert texts.numpy().tolist() == [b"a 0", b"a 1"]
    assert labels.numpy().tolist() == [0, 0]


def test_windows_of_a_series():
    numbers = np.arange(10)
    dataset = utils.timeseries_dataset_from_array(
        numbers, numbers * 2, 3, sampling_rate=2, batch_size=4
    )
    first, last = dataset
    assert first[0].tolist() == [[0, 2, 4], [1, 3, 5], [2, 4, 6], [3, 5, 7]]
    assert last[1].tolist() == [8, 10]


def test_image_files_are_decoded(folder):
    content = tf.io.read_file(folder / "a" / "1.png")
    assert tf.image.decode_png(content).shape == (4, 5, 3)
    gray = tf.io.decode_image(content, channels=1, dtype=tf.float32)
    np.testing.assert_allclose(gray, np.full((4, 5, 1), 10 / 255), 1e-6)
    again = tf.io.decode_jpeg(tf.io.encode_jpeg(np.full((8, 8, 3), 99, np.uint8)))
    assert abs(int(again[0, 0, 0]) - 99) < 3
