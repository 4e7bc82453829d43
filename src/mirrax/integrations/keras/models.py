"""Keras models that train on all replicas of the strategy they were created under.

`fit` and the like run as Keras wrote them, on batches that are split between the
replicas and on variables that every replica holds; XLA does the rest. So each step
computes what one device would compute on the whole batch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras

from mirrax.context import guards, stack
from mirrax.integrations.keras import hooks, internals
from mirrax.integrations.keras.input import as_input, place, place_all
from mirrax.integrations.keras.variables import adopt

_strategies: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True)
class Fitting(stack.CrossReplica):
    """Code of Keras that works on the batches of a model of `strategy`."""


def install() -> None:
    """Makes models remember their strategy, and use it."""
    hooks.wrap(keras.Model, "__new__", _remember)
    hooks.wrap(keras.Model, "__call__", _call)
    hooks.wrap(keras.Model, "compile", _in_scope)
    for name in ("fit", "evaluate", "predict"):
        hooks.wrap(keras.Model, name, _over_batches)
    for name in ("train_on_batch", "test_on_batch", "predict_on_batch"):
        hooks.wrap(keras.Model, name, _on_batch)
    for name in ("train", "test", "predict"):
        hooks.wrap(keras.Model, f"make_{name}_function", _make_function)
    hooks.wrap(*internals.GET_BATCHES, _get_batches)


def strategy_of(model: Any) -> Any:
    """Returns the strategy in whose scope a model was created; None without one."""
    return _strategies.get(model)


def _remember(original: Callable[..., Any], cls: type, *args: Any, **kw: Any) -> Any:
    model = original(cls, *args, **kw)
    strategy = hooks.strategy_in_force()
    if strategy is not None:
        _strategies[model] = strategy
    return model


def _call(original: Callable[..., Any], model: Any, *args: Any, **kw: Any) -> Any:
    """Calls a model; its first call, which creates variables, in the scope."""
    strategy = None if model.built else strategy_of(model)
    if strategy is None or stack.frame() is not None:
        return original(model, *args, **kw)
    with strategy.scope():
        return original(model, *args, **kw)


def _in_scope(original: Callable[..., Any], model: Any, *args: Any, **kw: Any) -> Any:
    strategy = strategy_of(model)
    with contextlib.nullcontext() if strategy is None else strategy.scope():
        return original(model, *args, **kw)


def _over_batches(
    original: Callable[..., Any], model: Any, *args: Any, **kw: Any
) -> Any:
    strategy = strategy_of(model)
    if strategy is None:
        with _left_alone():
            return original(model, *args, **kw)
    arguments = inspect.signature(original).bind(model, *args, **kw).arguments
    extra = arguments.pop("kwargs", {})
    arguments["x"] = as_input(
        arguments.get("x"),
        arguments.get("y"),
        arguments.get("sample_weight"),
        arguments.get("class_weight"),
    )
    if "validation_data" in arguments:
        arguments["validation_data"] = as_input(
            arguments["validation_data"], None, None
        )
    with _fitting(model, strategy, original.__name__):
        return original(**{"self": model, **arguments, **extra})


def _on_batch(original: Callable[..., Any], model: Any, *args: Any, **kw: Any) -> Any:
    strategy = strategy_of(model)
    if strategy is None:
        with _left_alone():
            return original(model, *args, **kw)
    arguments = inspect.signature(original).bind(model, *args, **kw).arguments
    for name in ("x", "y", "sample_weight"):
        if name in arguments:
            arguments[name] = place(arguments[name], strategy.topology)
    with _fitting(model, strategy, original.__name__):
        return original(**{"self": model, **arguments})


@contextlib.contextmanager
def _fitting(model: Any, strategy: Any, name: str) -> Iterator[None]:
    guards.require_cross_replica(f"`model.{name}`")
    with strategy.scope(), stack.entered(Fitting(strategy)):
        adopt(_variables_of(model), strategy)
        yield


@contextlib.contextmanager
def _left_alone() -> Iterator[None]:
    """Keeps a model without a strategy out of the training of another one."""
    frame = stack.frame()
    if isinstance(frame, Fitting):
        with stack.entered(stack.CrossReplica(frame.strategy)):
            yield
    else:
        yield


def _variables_of(model: Any) -> list[Any]:
    optimizer = getattr(model, "optimizer", None)
    slots = [] if optimizer is None else optimizer.variables
    return [*model.variables, *slots, *model.metrics_variables]


def _make_function(
    original: Callable[..., Any], model: Any, *args: Any, **kw: Any
) -> Any:
    """Makes the compiled step; its variables stay whole on every replica."""
    strategy = strategy_of(model)
    if strategy is None:
        return original(model, *args, **kw)
    with _distribution_of(strategy).scope():
        return original(model, *args, **kw)


@functools.lru_cache(maxsize=16)
def _distribution_of(strategy: Any) -> Any:
    """Returns the strategy in Keras' own words."""
    devices = [f"{d.platform}:{d.id}" for d in strategy.topology.devices]
    mesh = keras.distribution.DeviceMesh((len(devices),), ("replica",), devices)
    return keras.distribution.DataParallel(device_mesh=mesh, auto_shard_dataset=False)


def _get_batches(original: Callable[..., Any], iterator: Any) -> Any:
    frame = stack.frame()
    if not isinstance(frame, Fitting):
        return original(iterator)
    batches = iterator.data_adapter.get_jax_iterator()
    return place_all(batches, frame.strategy.topology)
