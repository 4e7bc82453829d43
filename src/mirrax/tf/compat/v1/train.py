"""`tf.compat.v1.train`: optimizers, learning rates, and names from version 2."""

from mirrax.tf.compat.v1.global_step import create_global_step as create_global_step
from mirrax.tf.compat.v1.global_step import get_global_step as get_global_step
from mirrax.tf.compat.v1.global_step import (
    get_or_create_global_step as get_or_create_global_step,
)
from mirrax.tf.compat.v1.global_step import global_step as global_step
from mirrax.tf.compat.v1.learning_rates import *  # noqa: F403
from mirrax.tf.compat.v1.optimizers import *  # noqa: F403
from mirrax.tf.train import *  # noqa: F403
from mirrax.tf.train.checkpoints import checkpoint_exists as checkpoint_exists
