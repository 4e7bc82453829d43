"""`tf.compat.v1`: distribution, training and start-up."""

from mirrax.summary import SummaryMetadata as SummaryMetadata
from mirrax.tf.compat.v1 import app as app
from mirrax.tf.compat.v1 import data as data
from mirrax.tf.compat.v1 import distribute as distribute
from mirrax.tf.compat.v1 import initializers as initializers
from mirrax.tf.compat.v1 import io as io
from mirrax.tf.compat.v1 import logging as logging
from mirrax.tf.compat.v1 import losses as losses
from mirrax.tf.compat.v1 import nn as nn
from mirrax.tf.compat.v1 import saved_model as saved_model
from mirrax.tf.compat.v1 import train as train
from mirrax.tf.compat.v1.config_proto import ConfigProto as ConfigProto
from mirrax.tf.compat.v1.config_proto import GPUOptions as GPUOptions
from mirrax.tf.compat.v1.config_proto import GraphOptions as GraphOptions
from mirrax.tf.compat.v1.config_proto import RPCOptions as RPCOptions
from mirrax.tf.compat.v1.functions import *  # noqa: F403
from mirrax.tf.compat.v1.variable_scopes import AUTO_REUSE as AUTO_REUSE
from mirrax.tf.compat.v1.variable_scopes import VariableScope as VariableScope
from mirrax.tf.compat.v1.variable_scopes import variable_scope as variable_scope
from mirrax.tf.compat.v1.version_2 import same_as_in_version_2
from mirrax.tf.namespaces.missing_names import unavailable
from mirrax.tf.variables.variable import Variable as Variable
from mirrax.tf.variables.variable import VariableAggregation as VariableAggregation
from mirrax.tf.variables.variable import (
    VariableSynchronization as VariableSynchronization,
)
from mirrax.tf.variables.variable import get_variable as get_variable
from mirrax.tf.version import VERSION

python_io = io
Session = unavailable("tf.compat.v1.Session")
__version__ = VERSION

__getattr__ = same_as_in_version_2
