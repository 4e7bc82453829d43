"""Flax NNX: modules, optimizers and metrics work inside `run`.

NNX has no hook for reads and writes of variables. So during a trace or an eager `run`
two slots of `nnx.Variable` are replaced by descriptors. Outside, Flax is unchanged.
"""

from mirrax.integrations.flax.library import FlaxLibrary as FlaxLibrary
