"""Flax NNX: modules, optimizers and metrics take part in `run` as they are.

NNX has no place where reads and writes of variables could be intercepted, so during a
trace or an eager `run` two slots of `nnx.Variable` are replaced by descriptors that ask
us first. Outside, everything is as Flax made it.
"""

from mirrax.integrations.flax.library import FlaxLibrary as FlaxLibrary
