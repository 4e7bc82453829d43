"""Keeping what a program has learned: checkpoints."""

from mirrax.train.checkpoint import Checkpoint as Checkpoint
from mirrax.train.checkpoint import LoadStatus as LoadStatus
from mirrax.train.manager import CheckpointManager as CheckpointManager
from mirrax.train.manager import latest_checkpoint as latest_checkpoint
