"""Random keys that differ between replicas, in eager and compiled code alike."""

from __future__ import annotations

import jax

from mirrax.context import stack
from mirrax.options import VariableAggregation
from mirrax.variables.variable import Variable


def replica_key(key: jax.Array) -> jax.Array:
    """Returns a key for this replica from a shared key; outside `run`, the key.

    >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    >>> @mirrax.function
    ... def draw(key):
    ...     return jax.random.uniform(replica_key(key))
    >>> first, second = strategy.run(draw, (jax.random.key(0),)).values
    >>> bool(first != second)
    True
    """
    frame = stack.frame()
    if not isinstance(frame, stack.Replica):
        return key
    return jax.random.fold_in(key, frame.context.replica_id_in_sync_group)


class Generator:
    """A source of random keys whose state is a variable, so programs can advance it.

    Create it in the scope of a strategy. Inside `run` each replica gets its own keys,
    equal in eager and compiled code; outside, the keys do not depend on the number of
    replicas.

    Args:
        seed: Any integer.

    >>> generator = Generator(seed=0)
    >>> float(jax.random.uniform(generator.key())) != float(
    ...     jax.random.uniform(generator.key())
    ... )
    True
    """

    def __init__(self, seed: int) -> None:
        self._state = Variable(
            lambda: jax.random.key_data(jax.random.key(seed)),
            trainable=False,
            name="random_key",
            aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
        )

    @property
    def state(self) -> Variable:
        """The variable with the state, to be saved with a model."""
        return self._state

    def checkpoint_contents(self) -> dict[str, Variable]:
        """Returns what `mirrax.train.Checkpoint` saves."""
        return {"state": self._state}

    def key(self) -> jax.Array:
        """Returns a new key."""
        following, fresh = jax.random.split(jax.random.wrap_key_data(self._state.value))
        self._state.assign(jax.random.key_data(following))
        return replica_key(fresh)
