"""The scope of a strategy, and the variables that are created in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from mirrax.collectives import worker_exchange
from mirrax.collectives.reduce import Collective
from mirrax.context import guards, stack
from mirrax.options import VariableSynchronization
from mirrax.strategy.sharding import choose_layout
from mirrax.variables import validation
from mirrax.variables.mirrored_variable import MirroredVariable
from mirrax.variables.out_of_memory import SHARD_STATE, advise
from mirrax.variables.sharded_variable import ShardedVariable
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable

S = TypeVar("S")


class Scope(contextlib.AbstractContextManager[S]):
    """The scope of a strategy, which may be entered again, also inside itself.

    Args:
        frame: The context that code in the scope runs in.
        creator: Creates the variables of the scope.
    """

    def __init__(self, strategy: S, frame: stack.Frame, creator: stack.Creator) -> None:
        self._strategy = strategy
        self._frame = frame
        self._creator = creator
        self._entered: list[contextlib.ExitStack] = []

    def __enter__(self) -> S:
        guards.require_same_strategy("`strategy.scope()`", self._strategy)
        frame = stack.frame()
        is_inside = frame is not None and frame.strategy is self._strategy
        with contextlib.ExitStack() as contexts:
            contexts.enter_context(stack.entered(self._frame))
            if not is_inside:
                contexts.enter_context(stack.creating(self._creator))
            self._entered.append(contexts.pop_all())
        return self._strategy

    def __exit__(self, *error: object) -> None:
        self._entered.pop().close()


def create_mirrored(
    owner: Any, collective: Collective, next_creator: Callable[..., Any], **kwargs: Any
) -> Any:
    """Returns a variable with a copy on every replica of `collective`."""
    name = kwargs.get("name") or "Variable"
    wanted = kwargs.pop("synchronization", VariableSynchronization.AUTO)
    sharded = kwargs.get("sharded")
    _check_options(name, wanted, sharded)
    try:
        given = kwargs.get("initial_value")
        array = validation.initial_array(given, kwargs.get("dtype"))
    except jax.errors.JaxRuntimeError as error:
        # Of the variables before it, there may be several copies.
        if owner.shard_bytes is None and collective.topology.num_replicas > 1:
            advise(error, [], SHARD_STATE)
        raise
    creators = stack.creators()
    if len(creators) > 1 and creators[0] is not owner._creator:
        # Creators around the scope are called for each copy.
        for index in range(collective.topology.num_replicas):
            copy = dict(kwargs, name=f"{name}/replica_{index}" if index else name)
            made = next_creator(**dict(copy, initial_value=array))
            if index == 0:
                array = jnp.copy(made.value)
                kwargs["trainable"] = made.trainable
    array = worker_exchange.from_first(collective.topology, f"variable {name}", array)
    # What the user says about this variable comes before what the strategy says.
    min_bytes = {None: owner.shard_bytes, True: 0, False: None}[sharded]
    layout = choose_layout(array, collective.topology, min_bytes, can_pad=True)
    kind: type[Any] = MirroredVariable if layout is None else ShardedVariable
    if wanted is VariableSynchronization.ON_READ:
        kind = SyncOnReadVariable
    elif wanted is VariableSynchronization.AUTO:
        wanted = VariableSynchronization.ON_WRITE
    own = validation.OwnArray(array)
    arguments = dict(kwargs, initial_value=own, synchronization=wanted, owner=owner)
    return kind(collective, **arguments)


def _check_options(name: str, wanted: VariableSynchronization, sharded: Any) -> None:
    if wanted is VariableSynchronization.NONE:
        raise ValueError(
            "`NONE` variable synchronization mode is not supported with copies on "
            "several devices. Received: synchronization=NONE. Use ON_WRITE (the "
            "default) or ON_READ."
        )
    if sharded is not None and not isinstance(sharded, bool):
        raise ValueError(
            "`sharded` must be True, False or None, which leaves it to the strategy. "
            f"Received: sharded={sharded!r} for variable '{name}'. For a size in "
            "bytes, use `shard_state` of the strategy."
        )
    if wanted is VariableSynchronization.ON_READ and sharded:
        raise ValueError(
            "A variable that is sharded has one value, of which each replica stores a "
            "part; one that is synchronized on read has a value for each replica. "
            f"Received: variable '{name}' with sharded=True and "
            "synchronization=ON_READ. Leave out one of them."
        )


def create_on_device(
    owner: Any, collective: Collective, next_creator: Callable[..., Any], **kwargs: Any
) -> Any:
    """Returns a plain variable on the one device of `collective`."""
    device = collective.topology.devices[0]
    return next_creator(**dict(kwargs, owner=owner, device=device))


def create_plain(
    owner: Any, collective: Collective, next_creator: Callable[..., Any], **kwargs: Any
) -> Any:
    """Returns a plain variable."""
    return next_creator(**kwargs)
