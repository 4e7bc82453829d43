"""Checkpoints, training loops that resume and show progress, exported functions."""

from mirrax.train.checkpoints.checkpoint import Checkpoint as Checkpoint
from mirrax.train.checkpoints.checkpoint_manager import (
    CheckpointManager as CheckpointManager,
)
from mirrax.train.checkpoints.deferred_restore import LoadStatus as LoadStatus
from mirrax.train.checkpoints.inspection import list_variables as list_variables
from mirrax.train.checkpoints.inspection import load_checkpoint as load_checkpoint
from mirrax.train.checkpoints.inspection import load_variable as load_variable
from mirrax.train.checkpoints.numbered_checkpoints import (
    latest_checkpoint as latest_checkpoint,
)
from mirrax.train.checkpoints.saved_objects import is_stateful as is_stateful
from mirrax.train.export import export as export
from mirrax.train.load_exported import ExportedFunctions as ExportedFunctions
from mirrax.train.load_exported import is_exported as is_exported
from mirrax.train.load_exported import load_exported as load_exported
from mirrax.train.preemption import PreemptionWatcher as PreemptionWatcher
from mirrax.train.progress import Progress as Progress
from mirrax.train.progress import ProgressReport as ProgressReport
from mirrax.train.resumable import resumable as resumable
