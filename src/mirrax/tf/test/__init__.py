"""`tf.test`: the base class of unit tests, numeric gradients, the devices there are.

`TestCase` is imported when it is first used: a program that is no test need not wait
for Python's and absl's test modules.
"""

import importlib
from typing import Any

from mirrax.tf.namespaces.missing_names import names_of
from mirrax.tf.test.devices import *  # noqa: F403
from mirrax.tf.test.gradients import compute_gradient as compute_gradient

_FROM_UNIT_TESTS = ("TestCase", "get_temp_dir", "main")
_missing = names_of("tf.test")


def __getattr__(name: str) -> Any:
    if name in _FROM_UNIT_TESTS:
        return getattr(importlib.import_module("mirrax.tf.test.unit_tests"), name)
    if name == "mock":
        return importlib.import_module("unittest.mock")
    return _missing(name)
