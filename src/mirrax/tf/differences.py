"""How names in `mirrax.tf` differ from TensorFlow's."""

from __future__ import annotations

_RANDOM = "the same seed gives other numbers than in TensorFlow (they are JAX's)"
_ONCE = "it is traced once for all replicas, and `if` on a tensor needs `tf.cond`"

DIFFERENCES: dict[str, str] = {
    "tf.Variable": "values have 32 bits, and gradients are dense",
    "tf.compat.v1.ConfigProto": "only fields that JAX has a setting for take effect",
    "tf.config.set_visible_devices": "JAX chooses its devices when it starts",
    "tf.config.run_functions_eagerly": "it affects only functions decorated afterwards",
    "tf.errors.OpError": "it is `Exception`: errors come from Python and JAX",
    "tf.function": _ONCE,
    "tf.get_variable": "names are not unique, so nothing is reused",
    "tf.float64": "32 bits, unless `jax_enable_x64` is set",
    "tf.int64": "32 bits, unless `jax_enable_x64` is set",
    "tf.py_function": "only outside `tf.function`",
    "tf.numpy_function": "only outside `tf.function`",
    "tf.random": _RANDOM,
    "tf.nn.dropout": _RANDOM,
    "tf.strings": "only on the host, outside `tf.function`",
    "tf.unique": "only outside `tf.function`: its shape depends on values",
    "tf.boolean_mask": "only outside `tf.function`: its shape depends on values",
}


def difference_of(name: str) -> str:
    """Returns how a name, or its module, differs; an empty text if it does not.

    >>> difference_of("tf.random.normal")
    "the same seed gives other numbers than in TensorFlow (they are JAX's)"
    >>> difference_of("tf.exp")
    ''
    """
    parts = name.split(".")
    for length in range(len(parts), 1, -1):
        found = DIFFERENCES.get(".".join(parts[:length]))
        if found is not None:
            return found
    return ""
