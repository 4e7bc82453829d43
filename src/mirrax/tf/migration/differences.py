"""How names in `mirrax.tf` differ from TensorFlow's."""

from __future__ import annotations

from mirrax.tf.namespaces.missing_names import lookup

_VALUES = "in `tf.function` its Python runs on every call: the shape depends on values"
_CALLED = "in `tf.function` its Python runs on every call, unless `Tout` is empty"
_HOST = "only on the host: in `Dataset.map`, or first in a `tf.keras.Sequential`"
_RANDOM = "the same seed gives other numbers than in TensorFlow (they are JAX's)"
_FORMAT = (
    "a format of its own: it reads no files of TensorFlow, nor TensorFlow its files"
)

DIFFERENCES: dict[str, str] = {
    "tf.Variable": "values have 32 bits, and gradients are dense",
    "tf.compat.v1.ConfigProto": "only fields that JAX has a setting for take effect",
    "tf.config.set_visible_devices": "JAX chooses its devices when it starts",
    "tf.config.run_functions_eagerly": "it affects only functions decorated afterwards",
    "tf.errors.OpError": "it is `Exception`: errors come from Python and JAX",
    "tf.get_variable": "names are not unique, so nothing is reused",
    "tf.float64": "32 bits, unless `jax_enable_x64` is set",
    "tf.int64": "32 bits, unless `jax_enable_x64` is set",
    "tf.RaggedTensor": "one ragged dimension; operations without it say so",
    "tf.SparseTensor": "in datasets and functions it takes the memory of a dense one",
    "tf.keras.layers.IntegerLookup": "only on the host: in `Dataset.map`",
    "tf.keras.layers.StringLookup": _HOST,
    "tf.keras.layers.TextVectorization": _HOST,
    "tf.saved_model": _FORMAT,
    "tf.train.Checkpoint": _FORMAT,
    "tf.train.load_checkpoint": _FORMAT,
    "tf.data.Dataset.load": _FORMAT,
    "tf.py_function": _CALLED,
    "tf.numpy_function": _CALLED,
    "tf.random": _RANDOM,
    "tf.nn.dropout": _RANDOM,
    "tf.strings": "only on the host, outside `tf.function`",
    "tf.unique": _VALUES,
    "tf.boolean_mask": _VALUES,
}


def difference_of(name: str) -> str:
    """Returns how a name, or its module, differs; an empty text if it does not.

    >>> difference_of("tf.random.normal")
    "the same seed gives other numbers than in TensorFlow (they are JAX's)"
    >>> difference_of("tf.exp")
    ''
    """
    return lookup(name, DIFFERENCES) or ""
