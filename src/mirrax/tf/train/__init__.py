"""`tf.train`: checkpoints, examples and `ClusterSpec`."""

from mirrax.cluster_resolver import ClusterDef as ClusterDef
from mirrax.cluster_resolver import ClusterSpec as ClusterSpec
from mirrax.cluster_resolver import JobDef as JobDef
from mirrax.data import example
from mirrax.tf.train import experimental as experimental
from mirrax.tf.train.checkpoints import Checkpoint as Checkpoint
from mirrax.tf.train.checkpoints import CheckpointManager as CheckpointManager
from mirrax.tf.train.checkpoints import CheckpointOptions as CheckpointOptions
from mirrax.tf.train.checkpoints import checkpoints_iterator as checkpoints_iterator
from mirrax.tf.train.checkpoints import get_checkpoint_state as get_checkpoint_state
from mirrax.tf.train.checkpoints import latest_checkpoint as latest_checkpoint
from mirrax.tf.train.checkpoints import list_variables as list_variables
from mirrax.tf.train.checkpoints import load_checkpoint as load_checkpoint
from mirrax.tf.train.checkpoints import load_variable as load_variable
from mirrax.tf.train.moving_average import (
    ExponentialMovingAverage as ExponentialMovingAverage,
)

BytesList = example.BytesList
Example = example.Example
Feature = example.Feature
Features = example.Features
FloatList = example.FloatList
Int64List = example.Int64List
