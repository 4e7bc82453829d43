"""`tf.compat`."""

import importlib
from typing import Any

from mirrax.tf.compat import v1 as v1
from mirrax.tf.compat.texts import as_bytes as as_bytes
from mirrax.tf.compat.texts import as_str as as_str
from mirrax.tf.compat.texts import as_str_any as as_str_any
from mirrax.tf.compat.texts import as_text as as_text
from mirrax.tf.compat.texts import bytes_or_text_types as bytes_or_text_types
from mirrax.tf.compat.texts import complex_types as complex_types
from mirrax.tf.compat.texts import dimension_at_index as dimension_at_index
from mirrax.tf.compat.texts import dimension_value as dimension_value
from mirrax.tf.compat.texts import integral_types as integral_types
from mirrax.tf.compat.texts import path_to_str as path_to_str
from mirrax.tf.compat.texts import real_types as real_types
from mirrax.tf.missing_names import names_of

_missing = names_of("tf.compat")


def __getattr__(name: str) -> Any:
    # Imported late: `mirrax.tf` imports this module.
    return importlib.import_module("mirrax.tf") if name == "v2" else _missing(name)
