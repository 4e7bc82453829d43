"""Keras models that train on all replicas of the strategy they were created under.

`fit` and the like are Keras' own, on batches that are split between the replicas and on
replicated variables; XLA inserts the collectives. So each step computes what one device
would compute on the whole batch.
"""

from __future__ import annotations

import collections
import contextlib
import inspect
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import keras

from mirrax import user_frames
from mirrax.context import guards, stack
from mirrax.integrations.keras import (
    callbacks,
    hooks,
    internals,
    multi_worker,
    step_memory,
)
from mirrax.integrations.keras.input import (
    DatasetAdapter,
    as_input,
    prefetch_batches,
    shard_batch,
)
from mirrax.integrations.keras.variable_hooks import adopt

_NOTHING = contextlib.nullcontext()
_NUM_SLOTS = "_mirrax_num_slots"

_strategies: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def install() -> None:
    """Makes models record their strategy and use it."""
    trainer = hooks.defining_class(keras.Model, "fit")
    hooks.wrap(trainer, "__init__", _remember)
    hooks.wrap(keras.Model, "__call__", _call)
    # Where Keras checks whether a model overrides `compile`.
    hooks.wrap(hooks.defining_class(keras.Model, "compile"), "compile", _in_scope)
    for name in ("fit", "evaluate", "predict"):
        hooks.wrap(trainer, name, _over_batches)
    for name in ("train_on_batch", "test_on_batch", "predict_on_batch"):
        hooks.wrap(trainer, name, _on_batch)
    for name in ("train", "test", "predict"):
        hooks.wrap(trainer, f"make_{name}_function", _make_function)
    hooks.wrap(*internals.GET_BATCHES, _get_batches)
    hooks.wrap(*internals.GET_STATE, _get_state)
    hooks.wrap(*internals.ITERATE_STEP, _iterate_step)
    hooks.wrap(*internals.PLACE_BATCH, _place_batch)


def strategy_of(model: Any) -> Any:
    """Returns the strategy in whose scope a model was created; None without one."""
    return _strategies.get(model)


def _remember(original: Callable[..., None], model: Any) -> None:
    original(model)
    strategy = hooks.current_strategy()
    if strategy is not None:
        _strategies[model] = strategy


def _call(original: Callable[..., Any], model: Any, *args: Any, **kw: Any) -> Any:
    """Calls a model; the first call, which creates variables, in the scope."""
    strategy = None if model.built else strategy_of(model)
    if strategy is None or stack.frame() is not None:
        return original(model, *args, **kw)
    with strategy.scope():
        return original(model, *args, **kw)


def _in_scope(original: Callable[..., Any], model: Any, *args: Any, **kw: Any) -> Any:
    strategy = strategy_of(model)
    with without_scope() if strategy is None else strategy.scope():
        return original(model, *args, **kw)


def _over_batches(
    original: Callable[..., Any], model: Any, *args: Any, **kw: Any
) -> Any:
    strategy = strategy_of(model)
    given = inspect.signature(original).bind(model, *args, **kw).arguments
    extra = given.pop("kwargs", {})
    rest = (given.get(name) for name in ("y", "sample_weight", "class_weight"))
    given["x"] = x = as_input(given.get("x"), strategy, *rest)
    if "validation_data" in given:
        held_out = as_input(given["validation_data"], strategy, None, None)
        given["validation_data"] = held_out
    quiet = _without_warning() if isinstance(x, DatasetAdapter) else _NOTHING
    if strategy is None:
        if original.__name__ == "fit":
            _warn_of_scope(model, "fit")
        with without_scope(), quiet:
            return original(**{"self": model, **given, **extra})
    topology = strategy.topology
    if not strategy.is_chief:
        given["verbose"] = 0
    name = original.__name__
    is_fit = name == "fit"
    own = callbacks.prepared(given.get("callbacks"), model, strategy, is_fit)
    with _fitting(model, strategy, name), own as given["callbacks"], quiet:
        if is_fit:
            multi_worker.sync_numpy_random(topology)
        result = original(**{"self": model, **given, **extra})
    if is_fit:
        multi_worker.wait_for_files(topology)
    return result


def _on_batch(original: Callable[..., Any], model: Any, *args: Any, **kw: Any) -> Any:
    strategy = strategy_of(model)
    if strategy is None:
        if original.__name__ == "train_on_batch":
            _warn_of_scope(model, "train_on_batch")
        with without_scope():
            return original(model, *args, **kw)
    arguments = inspect.signature(original).bind(model, *args, **kw).arguments
    topology = strategy.topology
    given = {name: arguments.get(name) for name in ("x", "y", "sample_weight")}
    multi_worker.require_same_batch(given, topology)
    if original.__name__ == "predict_on_batch":
        # Keras does not call `_place_batch` here.
        arguments["x"] = shard_batch(arguments["x"], topology)
    with _fitting(model, strategy, original.__name__):
        return original(**{"self": model, **arguments})


def _warn_of_scope(model: Any, name: str) -> None:
    """Warns if a model that belongs to no strategy is trained in a scope."""
    frame = stack.frame()
    if type(frame) is stack.CrossReplica and not frame.strategy.topology.is_single:
        user_frames.warn(
            "A model that trains on all replicas must be created in the scope of the "
            f"strategy. Received: `{name}` in a scope, of {model.name!r}, which was "
            "created in none and trains on one device. Create it inside `with "
            "strategy.scope():`."
        )


@contextlib.contextmanager
def _without_warning() -> Iterator[None]:
    """Ignores Keras' warning about the end of a dataset of unknown size."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        yield


@contextlib.contextmanager
def _fitting(model: Any, strategy: Any, name: str) -> Iterator[None]:
    guards.require_cross_replica(f"`model.{name}`")
    with strategy.scope(), stack.entered(hooks.Fitting(strategy)):
        adopt(multi_worker.variables_of(model), strategy)
        yield


@contextlib.contextmanager
def without_scope() -> Iterator[None]:
    """Leaves the current scope, for a model that was not created in one."""
    is_kept = isinstance(stack.frame(), stack.Replica | hooks.ChiefOnly)
    with contextlib.nullcontext() if is_kept else stack.entered(None):
        yield


def _make_function(
    original: Callable[..., Any], model: Any, *args: Any, **kw: Any
) -> Any:
    strategy = strategy_of(model)
    if strategy is None:
        return original(model, *args, **kw)
    _require_step(model, original.__name__.split("_")[1])
    _forget_other_slots(model)
    if getattr(model, original.__name__.removeprefix("make_")) is None:
        # Variables of metrics that were created elsewhere are known only now.
        adopt(multi_worker.variables_of(model), strategy)
    with _distribution_of(strategy).scope(), _passing_state(strategy):
        made = original(model, *args, **kw)
    is_for_predict = original.__name__ == "make_predict_function"
    if is_for_predict and not strategy.topology.is_local and made is None:
        # It was created just now; otherwise Keras returns the existing one.
        function = multi_worker.gathered(model.predict_function, strategy.topology)
        model.predict_function = function
    return made


def _forget_other_slots(model: Any) -> None:
    """Makes the training step anew if the optimizer has other variables than before.

    The step knows how many. A schedule takes the place of the one for a learning rate.
    """
    optimizer = getattr(model, "optimizer", None)
    count = 0 if optimizer is None else len(optimizer.variables)
    if model.__dict__.setdefault(_NUM_SLOTS, count) != count:
        model.__dict__[_NUM_SLOTS] = count
        model.train_function = None


def _iterate_step(
    original: Callable[..., Any], model: Any, step_function: Any, *args: Any, **kw: Any
) -> Any:
    strategy = strategy_of(model)
    if strategy is not None and hasattr(step_function, "lower"):
        step_function = step_memory.remembered(step_function, model, strategy)
    return original(model, step_function, *args, **kw)


def _require_step(model: Any, what: str) -> None:
    """Raises if a custom step is not written for the JAX backend."""
    step = getattr(model, f"{what}_step")
    try:
        inspect.signature(step).bind("state", "data")
    except TypeError:
        result = "outputs, state" if what == "predict" else "logs, state"
        raise TypeError(
            f"On the JAX backend Keras calls `{what}_step(self, state, data)`, which "
            f"returns `{result}`. Received: {type(model).__name__}.{what}_step"
            f"{inspect.signature(step)}. Write it so (see Keras' guide 'Customizing "
            "what happens in fit() with JAX'), or call a step of TensorFlow's kind in "
            "a loop of your own: `strategy.run(step, args=(batch,))`."
        ) from None


def _distribution_of(strategy: Any) -> Any:
    devices = [f"{d.platform}:{d.id}" for d in strategy.topology.devices]
    mesh = keras.distribution.DeviceMesh((len(devices),), ("replica",), devices)
    return keras.distribution.DataParallel(device_mesh=mesh, auto_shard_dataset=False)


def _get_batches(original: Callable[..., Any], iterator: Any) -> Any:
    frame = stack.frame()
    if not isinstance(frame, hooks.Fitting):
        return original(iterator)
    topology = frame.strategy.topology
    batches = iterator.data_adapter.get_jax_iterator()
    if not isinstance(iterator.data_adapter, DatasetAdapter) and not topology.is_local:
        batches = multi_worker.same_batches(batches, topology)
    return prefetch_batches(batches, topology)


def _get_state(original: Callable[..., Any], model: Any, *args: Any, **kw: Any) -> Any:
    """Returns the arrays of the variables, which Keras donates to the next step."""
    strategy = strategy_of(model)
    if strategy is None:
        return original(model, *args, **kw)
    # Moving averages that became the weights, for example, share one array with them,
    # and a step donates it, even if only one of them is part of its state.
    variables = {
        id(variable): variable for variable in multi_worker.variables_of(model)
    }
    count = collections.Counter(map(id, map(internals.array_of, variables.values())))
    with _passing_state(strategy):
        state = original(model, *args, **kw)
    return jax.tree.map(lambda x: jnp.copy(x) if count[id(x)] > 1 else x, state)


def _passing_state(strategy: Any) -> contextlib.AbstractContextManager[None]:
    return stack.entered(hooks.PassingState(strategy))


def _place_batch(
    original: Callable[..., Any], batch: Any, *args: Any, **kw: Any
) -> Any:
    frame = stack.frame()
    if not isinstance(frame, hooks.Fitting):
        return original(batch, *args, **kw)
    return shard_batch(batch, frame.strategy.topology)
