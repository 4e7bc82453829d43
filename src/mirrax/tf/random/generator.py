"""`tf.random.Generator`."""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import mirrax
from mirrax.tf.dtypes import canonical, uint32
from mirrax.tf.random import drawing


class Algorithm(enum.Enum):
    """TensorFlow's algorithms; ignored, JAX has its own."""

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


def _method(draw: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(self: Generator, *args: Any, name: Any = None, **kwargs: Any) -> Any:
        return draw(self._source.key(), *args, **kwargs)

    return drawn


class Generator:
    """A stateful random number generator; `from_seed` creates one.

    Created in the scope of a strategy, it gives each replica different numbers.
    """

    def __init__(self, source: mirrax.random.Generator) -> None:
        self._source = source

    @classmethod
    def from_seed(cls, seed: int, alg: Any = None) -> Generator:
        return cls(mirrax.random.Generator(int(seed)))

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        return cls.from_seed(secrets.randbits(31))

    @classmethod
    def from_state(cls, state: Any, alg: Any = None) -> Generator:
        """Returns a generator that continues from the `state` of another one."""
        made = cls.from_seed(0)
        made.reset(state)
        return made

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any = None) -> Generator:
        """Returns a generator from a number and a position, which has two numbers."""
        made = cls.from_seed(0)
        made.reset_from_key_counter(key, counter)
        return made

    @property
    def state(self) -> Any:
        return self._source.state

    def checkpoint_contents(self) -> dict[str, Any]:
        """Returns what a checkpoint saves."""
        return self._source.checkpoint_contents()

    @property
    def key(self) -> Any:
        return self._source.state.value

    @property
    def algorithm(self) -> int:
        return Algorithm.THREEFRY.value

    def reset_from_seed(self, seed: int) -> None:
        self._source.state.assign(jax.random.key_data(jax.random.key(int(seed))))

    def reset(self, state: Any) -> None:
        """Continues from the `state` of this generator or of another one."""
        data = jnp.asarray(getattr(state, "value", state), jnp.uint32)
        if data.shape != self.state.shape:
            raise ValueError(
                "A generator continues from a state of its own kind. Received: shape "
                f"{data.shape} in place of {tuple(self.state.shape)}. Use the `state` "
                "of a generator, or `reset_from_key_counter`."
            )
        self._source.state.assign(data)

    def reset_from_key_counter(self, key: Any, counter: Any) -> None:
        """Restarts from a number and a position, which has two numbers."""
        made = jax.random.key(jnp.asarray(key, jnp.uint32).reshape(-1)[0])
        for number in jnp.asarray(counter, jnp.uint32).reshape(-1):
            made = jax.random.fold_in(made, number)
        self._source.state.assign(jax.random.key_data(made))

    def skip(self, delta: Any) -> None:
        """Jumps ahead; the same `delta` from the same state gives the same state."""
        key = jax.random.wrap_key_data(jnp.asarray(self._source.state.value))
        ahead = jax.random.fold_in(key, jnp.asarray(delta, jnp.uint32))
        self._source.state.assign(jax.random.key_data(ahead))

    binomial = _method(drawing.binomial)
    normal = _method(drawing.normal)
    truncated_normal = _method(drawing.truncated_normal)
    uniform = _method(drawing.uniform)

    def uniform_full_int(
        self, shape: Any, dtype: Any = uint32, name: Any = None
    ) -> Any:
        return jax.random.bits(self._source.key(), tuple(shape)).astype(
            canonical(dtype)
        )

    def make_seeds(self, count: int = 1) -> Any:
        """Returns seeds for stateless functions, in an array of shape [2, count]."""
        keys = jax.random.split(self._source.key(), count)
        return jax.random.key_data(keys).T.astype(jnp.int32)

    def split(self, count: int = 1) -> list[Generator]:
        """Returns independent new generators."""
        keys = jax.random.split(self._source.key(), count)
        seeds = [int(data[0]) for data in jax.random.key_data(keys)]
        return [Generator.from_seed(seed) for seed in seeds]


_shared: list[Generator] = []


def get_global_generator() -> Generator:
    """Returns the global generator; creates it on first use."""
    if not _shared:
        _shared.append(Generator.from_non_deterministic_state())
    return _shared[0]


def set_global_generator(generator: Generator) -> None:
    _shared[:] = [generator]
