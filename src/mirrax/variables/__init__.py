"""State that lives on the devices of a strategy."""

from mirrax.variables.creation import variable_creator_scope as variable_creator_scope
from mirrax.variables.mirrored import MirroredVariable as MirroredVariable
from mirrax.variables.sync_on_read import SyncOnReadVariable as SyncOnReadVariable
from mirrax.variables.variable import Variable as Variable
