"""`tf.keras.Sequential` models that begin with a layer for texts.

JAX has no strings, so such a layer is no part of the model: it runs on the host, on
what calls of the model, `fit`, `evaluate`, `predict` and the like are given.
"""

from __future__ import annotations

import functools
from typing import Any

from mirrax.tf.data.datasets import Dataset
from mirrax.tf.keras_support.lookup_layers import StringLookup
from mirrax.tf.keras_support.steps import trainer_of, wrap
from mirrax.tf.keras_support.text_layers import TextVectorization
from mirrax.tf.tensors.tensor import holds_strings

_LAYERS = "_mirrax_text_layers"
_KINDS = (StringLookup, TextVectorization)
_METHODS = (
    "fit",
    "evaluate",
    "predict",
    "train_on_batch",
    "test_on_batch",
    "predict_on_batch",
)


@functools.cache
def install(sequential: type) -> None:
    """Lets a `keras.Sequential` begin with layers for texts."""
    for name in _METHODS:
        wrap(trainer_of(sequential), name, _on_indices)
    wrap(sequential, "add", _add)
    wrap(sequential, "get_config", _refuse_config)
    wrap(sequential, "__call__", _call)


def _call(
    original: Any, model: Any, inputs: Any = None, *args: Any, **kwargs: Any
) -> Any:
    return original(model, _indices(model, inputs), *args, **kwargs)


def _add(original: Any, model: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
    if model.layers or not _is_for_texts(layer):
        original(model, layer, *args, **kwargs)
    elif type(layer) in _KINDS:
        # Not an attribute, which Keras would track.
        vars(model)[_LAYERS] = [*_text_layers(model), layer]


def _is_for_texts(layer: Any) -> bool:
    is_input = getattr(layer, "dtype", None) == "string"
    return is_input or type(layer) in _KINDS


def _text_layers(model: Any) -> Any:
    return vars(model).get(_LAYERS, ())


def _on_indices(
    original: Any, model: Any, x: Any = None, *args: Any, **kwargs: Any
) -> Any:
    if not _text_layers(model):
        return original(model, x, *args, **kwargs)
    given = kwargs.get("validation_data")
    if isinstance(given, tuple | list):
        kwargs["validation_data"] = (_indices(model, given[0]), *given[1:])
    elif given is not None:
        kwargs["validation_data"] = _data(model, given)
    return original(model, _data(model, x), *args, **kwargs)


def _data(model: Any, data: Any) -> Any:
    if not isinstance(data, Dataset):
        return _indices(model, data)
    # An element is the texts, or the texts, the labels and maybe weights.
    return data.map(
        lambda x, *rest: (_indices(model, x), *rest) if rest else _indices(model, x)
    )


def _indices(model: Any, given: Any) -> Any:
    """Returns the indices of texts; those that `fit` has looked up as they are."""
    if not holds_strings(given):
        return given
    return functools.reduce(lambda x, layer: layer(x), _text_layers(model), given)


def _refuse_config(original: Any, model: Any) -> Any:
    if _text_layers(model):
        raise NotImplementedError(
            "A model that begins with a layer for texts cannot be saved or copied. "
            f"Received: {model.name!r}, which begins with "
            f"{_text_layers(model)[0].name!r}. Save the layers after it as a model, "
            "and the vocabulary (`get_vocabulary()`) as a file."
        )
    return original(model)
