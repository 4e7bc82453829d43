"""Checkpoints."""

from mirrax.train.checkpoint import Checkpoint as Checkpoint
from mirrax.train.checkpoint import LoadStatus as LoadStatus
from mirrax.train.checkpoint_manager import CheckpointManager as CheckpointManager
from mirrax.train.checkpoint_manager import latest_checkpoint as latest_checkpoint
from mirrax.train.inspection import list_variables as list_variables
from mirrax.train.inspection import load_variable as load_variable
