"""`tf.compat.v1.train`: the names that are the same in version 2."""

from mirrax.tf.absent import names_of
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

__getattr__ = names_of("tf.compat.v1.train")
