"""TensorFlow's API on Mirrax, for ported programs: `import mirrax.tf as tf`."""

from __future__ import annotations

from mirrax import TensorSpec as TensorSpec
from mirrax import variable_creator_scope as variable_creator_scope
from mirrax.tf import autodiff as autodiff
from mirrax.tf import autograph as autograph
from mirrax.tf import bitwise as bitwise
from mirrax.tf import compat as compat
from mirrax.tf import config as config
from mirrax.tf import contrib as contrib
from mirrax.tf import data as data
from mirrax.tf import debugging as debugging
from mirrax.tf import distribute as distribute
from mirrax.tf import dtypes as dtypes
from mirrax.tf import errors as errors
from mirrax.tf import experimental as experimental
from mirrax.tf import image as image
from mirrax.tf import io as io
from mirrax.tf import linalg as linalg
from mirrax.tf import lookup as lookup
from mirrax.tf import math as math
from mirrax.tf import nest as nest
from mirrax.tf import nn as nn
from mirrax.tf import profiler as profiler
from mirrax.tf import ragged as ragged
from mirrax.tf import random as random
from mirrax.tf import saved_model as saved_model
from mirrax.tf import signal as signal
from mirrax.tf import sparse as sparse
from mirrax.tf import strings as strings
from mirrax.tf import summary as summary
from mirrax.tf import test as test
from mirrax.tf import tpu as tpu
from mirrax.tf import train as train
from mirrax.tf import version as version
from mirrax.tf.compat.v1.functions import (
    enable_eager_execution as enable_eager_execution,
)
from mirrax.tf.contrib.distribute import get_tower_context as get_tower_context
from mirrax.tf.data.specs import OptionalSpec as OptionalSpec
from mirrax.tf.debugging import Assert as Assert
from mirrax.tf.debugging import assert_equal as assert_equal
from mirrax.tf.debugging import assert_greater as assert_greater
from mirrax.tf.debugging import assert_less as assert_less
from mirrax.tf.debugging import assert_rank as assert_rank
from mirrax.tf.device_specs import DeviceSpec as DeviceSpec
from mirrax.tf.dtypes import *  # noqa: F403
from mirrax.tf.functions.control_flow import *  # noqa: F403
from mirrax.tf.functions.function import *  # noqa: F403
from mirrax.tf.functions.python_functions import *  # noqa: F403
from mirrax.tf.keras_support.namespace import load
from mirrax.tf.linalg import einsum as einsum
from mirrax.tf.linalg import matmul as matmul
from mirrax.tf.linalg import norm as norm
from mirrax.tf.linalg import tensordot as tensordot
from mirrax.tf.math import truediv as realdiv  # noqa: F401
from mirrax.tf.math.clipping import *  # noqa: F403
from mirrax.tf.math.elementwise import *  # noqa: F403
from mirrax.tf.math.reductions import *  # noqa: F403
from mirrax.tf.math.segments import *  # noqa: F403
from mirrax.tf.namespaces.missing_names import name_replacements
from mirrax.tf.scripts.installer import install as install
from mirrax.tf.scripts.installer import register_aliases
from mirrax.tf.strings import as_string as as_string
from mirrax.tf.tensors.creation import *  # noqa: F403
from mirrax.tf.tensors.indexed_slices import IndexedSlices as IndexedSlices
from mirrax.tf.tensors.indexing import *  # noqa: F403
from mirrax.tf.tensors.ragged_tensors import RaggedTensor as RaggedTensor
from mirrax.tf.tensors.ragged_tensors import RaggedTensorSpec as RaggedTensorSpec
from mirrax.tf.tensors.shapes import *  # noqa: F403
from mirrax.tf.tensors.sparse_tensors import SparseTensor as SparseTensor
from mirrax.tf.tensors.sparse_tensors import SparseTensorSpec as SparseTensorSpec
from mirrax.tf.tensors.tensor import Tensor as Tensor
from mirrax.tf.tensors.tensor import TypeSpec as TypeSpec
from mirrax.tf.tensors.tensor import type_spec_from_value as type_spec_from_value
from mirrax.tf.tensors.tensor_arrays import TensorArray as TensorArray
from mirrax.tf.tensors.tensor_shape import TensorShape as TensorShape
from mirrax.tf.variables.initializers import *  # noqa: F403
from mirrax.tf.variables.module import Module as Module
from mirrax.tf.variables.name_scopes import name_scope as name_scope
from mirrax.tf.variables.variable import Variable as Variable
from mirrax.tf.variables.variable import VariableAggregation as VariableAggregation
from mirrax.tf.variables.variable import (
    VariableSynchronization as VariableSynchronization,
)
from mirrax.tf.variables.variable import get_variable as get_variable

__version__ = version.VERSION
"""The TensorFlow release whose API this follows."""

__getattr__ = load

register_aliases()
name_replacements()
