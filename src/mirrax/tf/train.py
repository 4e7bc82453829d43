"""`tf.train`: checkpoints, examples, and who takes part in a cluster."""

from __future__ import annotations

from mirrax.cluster_resolver import ClusterSpec as ClusterSpec
from mirrax.data import example
from mirrax.tf.absent import names_of

BytesList = example.BytesList
Example = example.Example
Feature = example.Feature
Features = example.Features
FloatList = example.FloatList
Int64List = example.Int64List

__getattr__ = names_of("tf.train")
