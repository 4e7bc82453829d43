"""`tf.compat.v1.train`: optimizers, learning rates, and names from version 2."""

from mirrax.tf.compat.v1.global_step import create_global_step as create_global_step
from mirrax.tf.compat.v1.global_step import get_global_step as get_global_step
from mirrax.tf.compat.v1.global_step import (
    get_or_create_global_step as get_or_create_global_step,
)
from mirrax.tf.compat.v1.global_step import global_step as global_step
from mirrax.tf.compat.v1.learning_rates import *  # noqa: F403
from mirrax.tf.compat.v1.optimizers import *  # noqa: F403
from mirrax.tf.missing_names import names_of
from mirrax.tf.train import BytesList as BytesList
from mirrax.tf.train import Checkpoint as Checkpoint
from mirrax.tf.train import CheckpointManager as CheckpointManager
from mirrax.tf.train import ClusterSpec as ClusterSpec
from mirrax.tf.train import Example as Example
from mirrax.tf.train import Feature as Feature
from mirrax.tf.train import Features as Features
from mirrax.tf.train import FloatList as FloatList
from mirrax.tf.train import Int64List as Int64List
from mirrax.tf.train import latest_checkpoint as latest_checkpoint
from mirrax.tf.train import list_variables as list_variables
from mirrax.tf.train import load_variable as load_variable
from mirrax.tf.train.moving_average import (
    ExponentialMovingAverage as ExponentialMovingAverage,
)

__getattr__ = names_of("tf.compat.v1.train")
