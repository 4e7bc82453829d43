"""Names of version 1 that version 2 has under the same or another name."""

from __future__ import annotations

import importlib
from typing import Any

from mirrax.tf.compat.v1 import app, initializers
from mirrax.tf.migration.replacements import REPLACEMENTS
from mirrax.tf.namespaces.missing_names import names_of

_missing = names_of("tf.compat.v1")

# Version 2 has moved many functions into these modules, and kept their names.
_MODULES = ("math", "debugging", "io", "strings", "linalg", "compat", "errors")

_RENAMED = {
    **{
        f"{name}_initializer": f"compat.v1.initializers.{name}"
        for name, kind in vars(initializers).items()
        if isinstance(kind, type) and name.islower()
    },
    "gfile": "io.gfile",
    "lin_space": "linspace",
    "matrix_band_part": "linalg.band_part",
    "matrix_determinant": "linalg.det",
    "matrix_diag": "linalg.diag",
    "matrix_diag_part": "linalg.diag_part",
    "matrix_inverse": "linalg.inv",
    "matrix_solve": "linalg.solve",
    "matrix_triangular_solve": "linalg.triangular_solve",
    "py_func": "numpy_function",
    "random_crop": "image.random_crop",
    "random_gamma": "random.gamma",
    "random_normal": "random.normal",
    "random_poisson": "random.poisson",
    "random_shuffle": "random.shuffle",
    "random_uniform": "random.uniform",
    "reverse_v2": "reverse",
    "set_random_seed": "random.set_seed",
    "string_join": "strings.join",
    "string_strip": "strings.strip",
    "string_to_number": "strings.to_number",
    "truncated_normal": "random.truncated_normal",
    "where_v2": "where",
}


def same_as_in_version_2(name: str) -> Any:
    """Looks a name up in version 2; the `__getattr__` of `tf.compat.v1`."""
    if name == "flags":
        return app.flags
    is_gone = f"tf.compat.v1.{name}" in REPLACEMENTS
    if is_gone or name.startswith("__"):
        return _missing(name)
    places = (_RENAMED.get(name, name), *(f"{module}.{name}" for module in _MODULES))
    for place in places:
        found = _find(place)
        if found is not None:
            return found
    return _missing(name)


def _find(place: str) -> Any:
    # Imported late: `mirrax.tf` imports this module.
    value: Any = importlib.import_module("mirrax.tf")
    for part in place.split("."):
        value = getattr(value, part, None)
    return value
