"""`tf.strings`: functions of byte strings, for input pipelines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mirrax.tf.dtypes import canonical, float32, string
from mirrax.tf.namespaces.operations import Values, operations
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.tensor import string_tensor, tensor


def _each(values: Any, function: Callable[[bytes], Any]) -> Any:
    array = string_tensor(values)
    result = np.empty(array.size, dtype=object)
    result[:] = [function(item) for item in array.flat]
    return result.reshape(array.shape)


def as_string(input: Any, precision: int = -1, *_: Any, **__: Any) -> Any:
    array = np.asarray(input)
    if array.dtype == bool:
        texts = [str(bool(x)).lower() for x in array.reshape(-1)]
    elif np.issubdtype(array.dtype, np.integer):
        texts = [str(int(x)) for x in array.reshape(-1)]
    else:
        digits = 6 if precision < 0 else precision
        texts = [f"{float(x):.{digits}f}" for x in array.reshape(-1)]
    return string_tensor(texts).reshape(array.shape)


def join(inputs: Any, separator: str = "") -> Any:
    arrays = np.broadcast_arrays(*[string_tensor(x) for x in inputs])
    rows = zip(*[array.flat for array in arrays], strict=True)
    joined = [separator.encode().join(row) for row in rows]
    return string_tensor(joined).reshape(arrays[0].shape)


def reduce_join(
    inputs: Any, axis: Any = None, keepdims: bool = False, separator: str = ""
) -> Any:
    """Joins the strings along an axis; all of them by default."""
    between = separator.encode()
    if isinstance(inputs, RaggedTensor):
        return string_tensor([between.join(row.tolist()) for row in inputs])
    array = string_tensor(inputs)
    if axis is None:
        return string_tensor(between.join(array.flat))
    moved = np.moveaxis(np.asarray(array), axis, -1)
    rows = moved.reshape(-1, moved.shape[-1]).tolist()
    joined = string_tensor([between.join(row) for row in rows])
    result = joined.reshape(moved.shape[:-1])
    return np.expand_dims(result, axis) if keepdims else result


def length(input: Values, unit: str = "BYTE") -> Any:
    is_bytes = unit == "BYTE"
    count = len if is_bytes else lambda text: len(text.decode())
    return tensor(_each(input, count).astype(np.int32))


def _on_text(function: Callable[[str], str]) -> Callable[[bytes], bytes]:
    """Returns a function of texts as one of bytes, which may be no valid UTF-8."""
    kind = "utf-8", "surrogateescape"
    return lambda text: function(text.decode(*kind)).encode(*kind)


def lower(input: Values, encoding: str = "") -> Any:
    return string_tensor(_each(input, _on_text(str.lower) if encoding else bytes.lower))


def upper(input: Values, encoding: str = "") -> Any:
    return string_tensor(_each(input, _on_text(str.upper) if encoding else bytes.upper))


def strip(input: Values) -> Any:
    return string_tensor(_each(input, bytes.strip))


def substr(input: Values, pos: int, len: int, unit: str = "BYTE") -> Any:
    return string_tensor(_each(input, lambda text: text[pos : pos + len]))


def regex_replace(
    input: Values, pattern: str, rewrite: str, replace_global: bool = True
) -> Any:
    count = 0 if replace_global else 1
    # Python reads `\0` as a character, not as the whole match.
    new = re.sub(r"\\(\d)|\\\\", lambda m: rf"\g<{m[1]}>" if m[1] else m[0], rewrite)
    matcher = re.compile(pattern, re.ASCII)
    replace = _on_text(lambda text: matcher.sub(new, text, count=count))
    return string_tensor(_each(input, replace))


def regex_full_match(input: Values, pattern: str) -> Any:
    matches = re.compile(pattern, re.ASCII).fullmatch
    found = _each(
        input, lambda text: matches(text.decode(errors="surrogateescape")) is not None
    )
    return tensor(found.astype(bool))


def split(input: Any, sep: str | None = None, maxsplit: int = -1) -> Any:
    """Returns the parts of a string; of several strings, a ragged tensor."""
    mark = sep.encode() if sep else None
    return _parts(input, lambda text: text.split(mark, maxsplit))


def unicode_split(input: Any, input_encoding: str = "UTF-8", *_: Any, **__: Any) -> Any:
    """Returns the characters of a string; of several strings, a ragged tensor."""
    return _parts(input, lambda text: [x.encode() for x in text.decode()])


def bytes_split(input: Any) -> Any:
    """Returns the bytes of a string; of several strings, a ragged tensor."""
    return _parts(input, lambda text: [text[i : i + 1] for i in range(len(text))])


def unicode_decode(
    input: Any, input_encoding: str, errors: str = "replace", *_: Any, **__: Any
) -> Any:
    """Returns the code points of a string; of several strings, a ragged tensor."""
    return _parts(input, lambda x: map(ord, x.decode(input_encoding, errors)), np.int32)


def unicode_encode(input: Any, output_encoding: str, *_: Any, **__: Any) -> Any:
    """Returns rows of code points as strings."""
    if not isinstance(input, RaggedTensor) and np.ndim(input) < 2:
        return string_tensor(
            "".join(map(chr, np.asarray(input))).encode(output_encoding)
        )
    rows = ["".join(map(chr, np.asarray(row))) for row in input]
    return string_tensor([text.encode(output_encoding) for text in rows])


def _parts(
    input: Any, function: Callable[[bytes], Iterable[Any]], dtype: Any = string
) -> Any:
    array = string_tensor(input)
    if not array.ndim:
        return tensor(list(function(array.item())), dtype)
    if array.ndim > 1:
        raise NotImplementedError(
            "Strings are split in a list of one dimension. Received: shape "
            f"{array.shape}. Use `tf.reshape(x, [-1])` first."
        )
    return RaggedTensor.from_rows([list(function(x)) for x in array.flat], dtype)


def to_number(input: Any, out_type: Any = float32) -> Any:
    kind = canonical(out_type)
    return tensor(_each(input, lambda text: kind.type(text.decode())).astype(kind))


operations(globals())
