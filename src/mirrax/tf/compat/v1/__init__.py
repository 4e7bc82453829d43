"""`tf.compat.v1`: distribution, training and start-up."""

from mirrax.summary import SummaryMetadata as SummaryMetadata
from mirrax.tf.compat.v1 import app as app
from mirrax.tf.compat.v1 import data as data
from mirrax.tf.compat.v1 import distribute as distribute
from mirrax.tf.compat.v1 import logging as logging
from mirrax.tf.compat.v1 import losses as losses
from mirrax.tf.compat.v1 import train as train
from mirrax.tf.compat.v1.assignments import assign as assign
from mirrax.tf.compat.v1.assignments import assign_add as assign_add
from mirrax.tf.compat.v1.assignments import assign_sub as assign_sub
from mirrax.tf.compat.v1.assignments import div as div
from mirrax.tf.compat.v1.assignments import to_double as to_double
from mirrax.tf.compat.v1.assignments import to_float as to_float
from mirrax.tf.compat.v1.assignments import to_int32 as to_int32
from mirrax.tf.compat.v1.assignments import to_int64 as to_int64
from mirrax.tf.compat.v1.config_proto import ConfigProto as ConfigProto
from mirrax.tf.compat.v1.config_proto import GPUOptions as GPUOptions
from mirrax.tf.compat.v1.config_proto import GraphOptions as GraphOptions
from mirrax.tf.compat.v1.config_proto import RPCOptions as RPCOptions
from mirrax.tf.compat.v1.start import disable_eager_execution as disable_eager_execution
from mirrax.tf.compat.v1.start import disable_v2_behavior as disable_v2_behavior
from mirrax.tf.compat.v1.start import enable_control_flow_v2 as enable_control_flow_v2
from mirrax.tf.compat.v1.start import enable_eager_execution as enable_eager_execution
from mirrax.tf.compat.v1.start import (
    enable_resource_variables as enable_resource_variables,
)
from mirrax.tf.compat.v1.start import enable_tensor_equality as enable_tensor_equality
from mirrax.tf.compat.v1.start import enable_v2_behavior as enable_v2_behavior
from mirrax.tf.compat.v1.start import enable_v2_tensorshape as enable_v2_tensorshape
from mirrax.tf.compat.v1.start import executing_eagerly as executing_eagerly
from mirrax.tf.compat.v1.start import (
    executing_eagerly_outside_functions as executing_eagerly_outside_functions,
)
from mirrax.tf.compat.v1.start import (
    global_variables_initializer as global_variables_initializer,
)
from mirrax.tf.compat.v1.start import (
    local_variables_initializer as local_variables_initializer,
)
from mirrax.tf.compat.v1.start import reset_default_graph as reset_default_graph
from mirrax.tf.compat.v1.start import tables_initializer as tables_initializer
from mirrax.tf.compat.v1.variable_scopes import AUTO_REUSE as AUTO_REUSE
from mirrax.tf.compat.v1.variable_scopes import VariableScope as VariableScope
from mirrax.tf.compat.v1.variable_scopes import variable_scope as variable_scope
from mirrax.tf.compat.v1.version_2 import same_as_in_version_2
from mirrax.tf.missing_names import unavailable
from mirrax.tf.variables.variable import Variable as Variable
from mirrax.tf.variables.variable import VariableAggregation as VariableAggregation
from mirrax.tf.variables.variable import (
    VariableSynchronization as VariableSynchronization,
)
from mirrax.tf.variables.variable import get_variable as get_variable

Session = unavailable("tf.compat.v1.Session")

__getattr__ = same_as_in_version_2
