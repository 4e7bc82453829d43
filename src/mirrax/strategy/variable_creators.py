"""Creates the variables of a strategy's scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrax.collectives import worker_exchange
from mirrax.collectives.reduce import Collective
from mirrax.context import stack
from mirrax.options import VariableSynchronization
from mirrax.variables import validation
from mirrax.variables.mirrored_variable import MirroredVariable
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable


def create_mirrored(
    owner: Any, collective: Collective, next_creator: Callable[..., Any], **kwargs: Any
) -> Any:
    """Returns a variable with a copy on every replica of `collective`."""
    wanted = kwargs.pop("synchronization", VariableSynchronization.AUTO)
    if wanted is VariableSynchronization.NONE:
        raise ValueError(
            "Copies of a variable must be synchronized on write or on read. Received: "
            "synchronization=NONE. Use ON_WRITE (the default) or ON_READ."
        )
    name = kwargs.get("name") or "Variable"
    array = validation.initial_array(kwargs.get("initial_value"), kwargs.get("dtype"))
    creators = stack.creators()
    if len(creators) > 1 and creators[0] is not owner._creator:
        # Creators around the scope are called for each copy.
        for index in range(collective.topology.num_replicas):
            copy = dict(kwargs, name=f"{name}/replica_{index}" if index else name)
            made = next_creator(**dict(copy, initial_value=array))
            if index == 0:
                array = made.value
                kwargs["trainable"] = made.trainable
    array = worker_exchange.from_first(collective.topology, f"variable {name}", array)
    is_on_read = wanted is VariableSynchronization.ON_READ
    kind = SyncOnReadVariable if is_on_read else MirroredVariable
    if wanted is VariableSynchronization.AUTO:
        wanted = VariableSynchronization.ON_WRITE
    arguments = dict(kwargs, initial_value=array, synchronization=wanted, owner=owner)
    return kind(collective, **arguments)


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
