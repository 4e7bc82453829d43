"""`tf.compat.v1.train`: optimizers, learning rates, and names from version 2."""

from mirrax.tf.compat.v1.global_step import create_global_step as create_global_step
from mirrax.tf.compat.v1.global_step import get_global_step as get_global_step
from mirrax.tf.compat.v1.global_step import (
    get_or_create_global_step as get_or_create_global_step,
)
from mirrax.tf.compat.v1.global_step import global_step as global_step
from mirrax.tf.compat.v1.learning_rates import cosine_decay as cosine_decay
from mirrax.tf.compat.v1.learning_rates import exponential_decay as exponential_decay
from mirrax.tf.compat.v1.learning_rates import inverse_time_decay as inverse_time_decay
from mirrax.tf.compat.v1.learning_rates import natural_exp_decay as natural_exp_decay
from mirrax.tf.compat.v1.learning_rates import piecewise_constant as piecewise_constant
from mirrax.tf.compat.v1.learning_rates import (
    piecewise_constant_decay as piecewise_constant_decay,
)
from mirrax.tf.compat.v1.learning_rates import polynomial_decay as polynomial_decay
from mirrax.tf.compat.v1.optimizers import AdadeltaOptimizer as AdadeltaOptimizer
from mirrax.tf.compat.v1.optimizers import AdagradOptimizer as AdagradOptimizer
from mirrax.tf.compat.v1.optimizers import AdamOptimizer as AdamOptimizer
from mirrax.tf.compat.v1.optimizers import FtrlOptimizer as FtrlOptimizer
from mirrax.tf.compat.v1.optimizers import (
    GradientDescentOptimizer as GradientDescentOptimizer,
)
from mirrax.tf.compat.v1.optimizers import MomentumOptimizer as MomentumOptimizer
from mirrax.tf.compat.v1.optimizers import Optimizer as Optimizer
from mirrax.tf.compat.v1.optimizers import RMSPropOptimizer as RMSPropOptimizer
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
