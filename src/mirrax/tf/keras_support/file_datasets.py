"""Functions of `tf.keras.utils` that return datasets."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from mirrax.tf.data.datasets import Dataset
from mirrax.tf.image.resizing import resize
from mirrax.tf.io.images import read_image
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.tensor import string_tensor

_IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
_MODES = {"grayscale": 1, "rgb": 3, "rgba": 4}


def timeseries_dataset_from_array(
    data: Any,
    targets: Any,
    sequence_length: int,
    sequence_stride: int = 1,
    sampling_rate: int = 1,
    batch_size: int | None = 128,
    shuffle: bool = False,
    seed: int | None = None,
    start_index: int | None = None,
    end_index: int | None = None,
) -> Any:
    """Returns the windows of a series, with the target of each one's first row."""
    rows = np.asarray(data)[start_index:end_index]
    span = (sequence_length - 1) * sampling_rate + 1
    count = len(rows) - span + 1
    if targets is not None:
        goals = np.asarray(targets)[start_index:end_index]
        count = min(count, len(goals))
    starts = np.arange(0, max(0, count), sequence_stride)
    if shuffle:
        np.random.default_rng(seed).shuffle(starts)
    windows = rows[starts[:, None] + np.arange(0, span, sampling_rate)]
    arrays = windows if targets is None else (windows, goals[starts])
    dataset = Dataset.from_tensor_slices(arrays)
    return dataset if batch_size is None else dataset.batch(batch_size)


def image_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Any = None,
    color_mode: str = "rgb",
    batch_size: int | None = 32,
    image_size: Any = (256, 256),
    interpolation: str = "bilinear",
    **options: Any,
) -> Any:
    """Returns a dataset of the images in the folders of a directory."""

    def load(path: Any) -> Any:
        pixels = read_image(path, _MODES[color_mode])
        return host(np.asarray(resize(pixels, image_size, interpolation)))

    given = (labels, label_mode, class_names, batch_size)
    return _from_files(directory, _IMAGES, load, *given, **options)


def text_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Any = None,
    batch_size: int | None = 32,
    max_length: int | None = None,
    **options: Any,
) -> Any:
    """Returns a dataset of the texts in the folders of a directory."""

    def load(path: Any) -> Any:
        return string_tensor(pathlib.Path(path.item().decode()).read_bytes())

    if max_length is not None:
        raise NotImplementedError(
            "Texts are read whole. Received: max_length="
            f"{max_length}. Use `tf.strings.substr` in `Dataset.map`."
        )
    given = (labels, label_mode, class_names, batch_size)
    return _from_files(directory, (".txt",), load, *given, **options)


def _from_files(
    directory: Any,
    suffixes: tuple[str, ...],
    load: Any,
    labels: Any,
    label_mode: str | None,
    class_names: Any,
    batch_size: int | None,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    verbose: bool = True,
    **_: Any,
) -> Any:
    root = pathlib.Path(directory)
    folders = sorted(path.name for path in root.iterdir() if path.is_dir())
    names = list(class_names or folders) if labels == "inferred" else []
    found = [
        (path, index)
        for index, name in enumerate(names or ["."])
        for path in sorted((root / name).rglob("*"))
        if path.suffix.lower() in suffixes
    ]
    if verbose:
        print(f"Found {len(found)} files belonging to {len(names)} classes.")
    paths = np.array([str(path).encode() for path, _ in found], object)
    numbers = np.array([number for _, number in found], np.int32)
    if isinstance(labels, list | tuple):
        numbers = np.asarray(labels, np.int32)
    if shuffle:
        # The order in which Keras holds files out.
        order = np.random.RandomState(seed).permutation(len(paths))
        paths, numbers = paths[order], numbers[order]
    count = len(paths) - int(len(paths) * (validation_split or 0))
    if verbose and validation_split:
        if subset in ("training", "both"):
            print(f"Using {count} files for training.")
        if subset in ("validation", "both"):
            print(f"Using {len(paths) - count} files for validation.")

    def element(path: Any, number: Any) -> Any:
        if labels is None or label_mode is None:
            return load(path)
        if label_mode == "categorical":
            return load(path), np.eye(len(names), dtype=np.float32)[int(number)]
        if label_mode == "binary":
            return load(path), np.array([number], np.float32)
        return load(path), number

    def dataset(chosen: slice) -> Any:
        made: Any = Dataset.from_tensor_slices((paths[chosen], numbers[chosen]))
        if shuffle:
            made = made.shuffle(max(1, 8 * (batch_size or 128)), seed=seed)
        made = made.map(element)
        if batch_size is not None:
            made = made.batch(batch_size)
        vars(made)["class_names"] = names
        vars(made)["file_paths"] = [path.decode() for path in paths[chosen]]
        return made

    parts = [dataset(slice(count)), dataset(slice(count, None))]
    return parts if subset == "both" else parts[subset == "validation"]
