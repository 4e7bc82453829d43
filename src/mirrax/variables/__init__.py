"""Variables: mutable state on the devices of a strategy."""

from mirrax.variables.creator_scope import (
    variable_creator_scope as variable_creator_scope,
)
from mirrax.variables.mirrored_variable import MirroredVariable as MirroredVariable
from mirrax.variables.sharded_variable import ShardedVariable as ShardedVariable
from mirrax.variables.sync_on_read_variable import (
    SyncOnReadVariable as SyncOnReadVariable,
)
from mirrax.variables.variable import Variable as Variable
