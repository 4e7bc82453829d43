"""The names of TensorFlow, for programs that are ported: `import mirrax.tf as tf`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirrax
from mirrax import GradientTape as GradientTape
from mirrax import TensorSpec as TensorSpec
from mirrax import config as config
from mirrax import data as data
from mirrax import variable_creator_scope as variable_creator_scope
from mirrax.tf import compat as compat
from mirrax.tf import contrib as contrib
from mirrax.tf import distribute as distribute
from mirrax.tf import errors as errors
from mirrax.tf.contrib.distribute import get_tower_context as get_tower_context
from mirrax.tf.tensors import *  # noqa: F403
from mirrax.tf.variables import Variable as Variable
from mirrax.tf.variables import VariableAggregation as VariableAggregation
from mirrax.tf.variables import VariableSynchronization as VariableSynchronization
from mirrax.tf.variables import get_variable as get_variable


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: Any = True,
    jit_compile: Any = None,
    reduce_retracing: Any = False,
) -> Any:
    """`tf.function`: Python numbers are part of the program, as in TensorFlow.

    The last three options are accepted and have no meaning here.
    """
    return mirrax.function(func, input_signature=input_signature, static_numbers=True)
