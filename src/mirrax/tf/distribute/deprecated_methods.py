"""Methods of the version 1 API that strategies of version 2 still have."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import mirrax
from mirrax.tf.data.datasets import Dataset, as_tensors
from mirrax.tf.data.input_iterator import InputIterator


class DeprecatedMethods:
    """The methods of version 1 that every strategy of TensorFlow has.

    A mix-in for `mirrax.Strategy`.
    """

    isolates_session_state = True

    def make_dataset_iterator(self: Any, dataset: Any) -> InputIterator:
        return InputIterator(self.experimental_distribute_dataset(dataset))

    def make_input_fn_iterator(
        self: Any,
        input_fn: Callable[[mirrax.InputContext], Any],
        replication_mode: Any = mirrax.InputReplicationMode.PER_WORKER,
    ) -> InputIterator:
        if replication_mode is not mirrax.InputReplicationMode.PER_WORKER:
            raise ValueError(
                "Input functions can only be called once per worker. Received: "
                f"replication_mode={replication_mode!r}. Use "
                "InputReplicationMode.PER_WORKER, or "
                "`distribute_datasets_from_function` with `InputOptions`."
            )

        def make(context: mirrax.InputContext) -> Any:
            made = input_fn(context)
            return _Calls(made) if callable(made) else made

        return InputIterator(self.distribute_datasets_from_function(make))

    def experimental_make_numpy_dataset(
        self, numpy_input: Any, session: Any = None
    ) -> Dataset:
        kept = copy.deepcopy(numpy_input)
        return as_tensors(mirrax.data.Dataset.from_tensor_slices(kept))

    def experimental_run(
        self: Any, fn: Callable[..., Any], input_iterator: Any = None
    ) -> Any:
        args = () if input_iterator is None else (input_iterator.get_next(),)
        return self.run(fn, args)

    def experimental_run_v2(
        self: Any, fn: Callable[..., Any], args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.run(fn, args, kwargs)

    def experimental_distribute_datasets_from_function(
        self: Any,
        dataset_fn: Callable[[mirrax.InputContext], Any],
        options: mirrax.InputOptions | None = None,
    ) -> Any:
        return self.distribute_datasets_from_function(dataset_fn, options)

    def unwrap(self: Any, value: Any) -> tuple[Any, ...]:
        return self.experimental_local_results(value)

    def group(self: Any, value: Any, name: str | None = None) -> Any:
        results = self.unwrap(value)
        return results[0] if len(results) == 1 and name is None else None

    def colocate_vars_with(
        self: Any, colocate_with_variable: Any
    ) -> contextlib.AbstractContextManager[None]:
        require_scope(self)
        return self.extended.colocate_vars_with(colocate_with_variable)

    def configure(self: Any, session_config: Any = None, *_: Any, **__: Any) -> None:
        """Applies a configuration; to join a cluster, use a multi-worker strategy."""
        if session_config is not None:
            session_config.apply()

    def update_config_proto(self: Any, config_proto: Any) -> Any:
        updated = copy.deepcopy(config_proto)
        updated.isolate_session_state |= self.isolates_session_state
        return updated


class _Calls:
    """What a function returns, called again and again."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield self._function()


def require_scope(strategy: Any) -> None:
    """Raises unless the current strategy is `strategy`."""
    current = mirrax.get_strategy()
    is_default = not mirrax.has_strategy() and isinstance(strategy, type(current))
    if current is not strategy and not is_default:
        raise RuntimeError(
            'Need to be inside "with strategy.scope()" for '
            f"{strategy!r}. Received: a call in the scope of {current!r}. Enter the "
            "scope first."
        )
