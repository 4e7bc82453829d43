"""`Dataset.save` and `Dataset.load`.

A directory contains `elements.tfrecord`, one record in NumPy's format per element, and
`structure.json`, the element spec.
"""

from __future__ import annotations

import io
import json
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import mirrax
from mirrax.tf.errors import NotFoundError
from mirrax.tf.host_tensors import host

_ELEMENTS, _STRUCTURE = "elements.tfrecord", "structure.json"


def save(dataset: Any, path: Any) -> None:
    """Writes all elements of a dataset into a directory; creates it if needed."""
    folder = pathlib.Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with mirrax.data.TFRecordWriter(str(folder / _ELEMENTS)) as writer:
        for element in dataset:
            leaves = jax.tree.leaves(element)
            writer.write(_encoded([np.asarray(leaf) for leaf in leaves]))
    (folder / _STRUCTURE).write_text(json.dumps(_described(dataset.element_spec)))


def load(path: Any, show: Callable[[Any], Any]) -> Any:
    """Returns the dataset that `save` wrote, converted by `show`."""
    folder = pathlib.Path(path)
    if not (folder / _STRUCTURE).exists():
        raise NotFoundError(
            f"There is no saved dataset in '{folder}'. Write one with "
            "`Dataset.save`; TensorFlow's format can not be read."
        )
    spec = _built(json.loads((folder / _STRUCTURE).read_text()))
    structure = jax.tree.structure(spec)

    def elements() -> Any:
        for record in mirrax.data.TFRecordDataset(str(folder / _ELEMENTS)):
            content = record.item() if hasattr(record, "item") else record
            yield jax.tree.unflatten(structure, _decoded(content))

    return show(mirrax.data.Dataset.from_generator(elements, spec))


def _encoded(arrays: list[np.ndarray[Any, Any]]) -> bytes:
    file = io.BytesIO()
    for array in arrays:
        if array.dtype.kind == "O":
            # The end of each string, then the bytes of all strings.
            texts = [bytes(text) for text in array.reshape(-1)]
            ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
            np.save(file, ends.reshape(array.shape))
            np.save(file, np.frombuffer(b"".join(texts), np.uint8))
        else:
            np.save(file, array)
            np.save(file, np.zeros(0, np.float32))
    return file.getvalue()


def _decoded(content: bytes) -> list[Any]:
    file, arrays = io.BytesIO(content), []
    while file.tell() < len(content):
        first, second = np.load(file), np.load(file)
        arrays.append(first if second.dtype != np.uint8 else _texts(first, second))
    return arrays


def _texts(ends: Any, content: Any) -> Any:
    starts = [0, *ends.reshape(-1)[:-1].tolist()]
    pairs = zip(starts, ends.reshape(-1).tolist(), strict=True)
    joined = content.tobytes()
    texts = np.empty(ends.size, object)
    texts[:] = [joined[start:end] for start, end in pairs]
    return host(texts.reshape(ends.shape)) if ends.ndim else texts[0]


def _described(spec: Any) -> Any:
    """Returns nested specs as JSON values."""
    if isinstance(spec, dict):
        return {"dict": {key: _described(spec[key]) for key in sorted(spec)}}
    if isinstance(spec, tuple | list):
        kind = "tuple" if isinstance(spec, tuple) else "list"
        return {kind: [_described(item) for item in spec]}
    name = "string" if spec.dtype.kind in "OSU" else spec.dtype.name
    return {"shape": None if spec.shape is None else list(spec.shape), "dtype": name}


def _built(described: Any) -> Any:
    """Returns the nested specs that JSON values describe."""
    if "dict" in described:
        return {key: _built(item) for key, item in described["dict"].items()}
    if "tuple" in described:
        return tuple(_built(item) for item in described["tuple"])
    if "list" in described:
        return [_built(item) for item in described["list"]]
    kind = described["dtype"]
    dtype = np.dtype(object) if kind == "string" else np.dtype(kind)
    return mirrax.TensorSpec(described["shape"], dtype)
