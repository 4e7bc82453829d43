"""`mirrax.function`: Python that is traced once and then runs as one program."""

from __future__ import annotations

import collections
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from mirrax import jax_internals, trees
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.run import closures
from mirrax.run.arguments import (
    DRIVEN,
    are_flat,
    flat_structure,
    slots_of,
    topology_of_workers,
)
from mirrax.run.building import Builder, Given, OnlyPython
from mirrax.run.donation import Donation
from mirrax.run.on_replicas import OnReplicas
from mirrax.run.over_workers import agreed_arguments, agreed_parts
from mirrax.run.programs import MAX_PROGRAMS, Latest, Programs
from mirrax.run.signatures import Signature
from mirrax.trees import Same, Tree
from mirrax.variables import libraries
from mirrax.variables.foreign import Outdated

Drive = Callable[[Sequence[Any], dict[str, Any], bool], Tree]
"""Calls Python with arguments; told whether it decides on values of arrays."""


def function(
    fn: Callable[..., Any] | None = None,
    *,
    input_signature: Sequence[Any] | None = None,
    donate_argnums: int | Sequence[int] = (),
    python_decisions: bool = False,
) -> Any:
    """Returns `fn` as a function that is traced once and then runs compiled.

    It is traced again for new shapes, dtypes and structures only. Arrays and numbers
    are inputs of the program; strings, booleans and other objects are part of it.
    Variables can be read and written inside.

    Give it to `strategy.run`, or put `run` inside it: either way a step is one program.

    Args:
        fn: The function; leave it out to use `@function(...)` with options.
        input_signature: Descriptions that the arguments must fit.
        donate_argnums: Positional arguments whose arrays may be overwritten.
        python_decisions: Whether Python may decide on values of arrays, as in
            `if x > 0:`. The Python of such a function runs on every call; each `run`
            in it is compiled, unless its function decides as well.

    >>> import numpy as np
    >>> @function
    ... def double(x):
    ...     return 2 * x
    >>> double(np.float32(3))
    Array(6., dtype=float32)
    """
    options: dict[str, Any] = {
        "input_signature": input_signature,
        "donate_argnums": donate_argnums,
        "python_decisions": python_decisions,
    }
    if fn is None:
        return functools.partial(function, **options)
    if isinstance(fn, Function):
        return fn
    return Function(fn, **options)


class Function:
    """A function with its compiled programs; made by `mirrax.function`.

    Args:
        fn: The Python function.
        input_signature: Descriptions that the arguments must fit.
        donate_argnums: Positional arguments whose arrays may be overwritten.
        python_decisions: Whether Python may decide on values of arrays.
        drive: What to call where one program cannot do it; by default the Python
            function, with each `run` in it compiled.
        topology: The devices it runs on, if it is the `run` of a strategy.
    """

    runs_eagerly: ClassVar[bool] = False
    """Whether all functions run as plain Python."""

    def __init__(
        self,
        fn: Callable[..., Any],
        input_signature: Sequence[Any] | None = None,
        donate_argnums: int | Sequence[int] = (),
        python_decisions: bool = False,
        drive: Drive | None = None,
        topology: Topology | None = None,
    ) -> None:
        if not callable(fn):
            raise TypeError(f"`mirrax.function` takes a function. Received: {fn!r}.")
        functools.update_wrapper(self, fn)
        self._name = getattr(fn, "__name__", repr(fn))
        self.fn = fn
        self._signature = Signature(self._name, fn, input_signature)
        self.input_signature = self._signature.specs
        self._donation = Donation(self._name, donate_argnums)
        self.python_decisions = python_decisions
        self.programs = Programs(self._name)
        self._drive_instead = drive
        self._topology = topology
        self._created: set[Any] = set()
        self.latest: Latest | None = None
        # Read and written as one, because several threads may call.
        self.latest_over: tuple[Callable[[], Any], Callable[[], Function | None]] = (
            lambda: None,
            lambda: None,
        )
        self._inner: collections.OrderedDict[Any, Function] = collections.OrderedDict()
        self._over: weakref.WeakSet[Function] = weakref.WeakSet()
        self._builder = Builder(
            self._name,
            # Else it would keep us, and everything that was compiled, until Python
            # looks for cycles.
            weakref.WeakMethod(self._call_python),
            self._donation,
            python_decisions,
            topology is not None,
            self.programs.count_trace,
        )

    @property
    def trace_count(self) -> int:
        """How often the function was traced, also for the replicas of strategies."""
        over = sum(function.trace_count for function in list(self._over))
        return self.programs.trace_count + over

    def __call__(self, *args: Any, **kwargs: Any) -> Tree:
        frame = stack.frame()
        if stack.overlay() is not None or Function.runs_eagerly:
            # Part of the trace that is under way, if any.
            return self.fn(*args, **kwargs)
        if isinstance(frame, stack.Replica) and frame.context.num_replicas_in_sync > 1:
            if frame.is_alone:
                # The others may not come here.
                args, kwargs = self.fitted(args, kwargs)
                return self.fn(*args, **kwargs)
            # The replicas of an eager `run` call the program together.
            return frame.context.merge_call(_run_together, (self, args, kwargs))
        args, kwargs = self.fitted(args, kwargs)
        return self.call(args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return functools.partial(self, instance)

    def __set_name__(self, owner: type, name: str) -> None:
        self._signature.is_method = True

    @property
    def is_method(self) -> bool:
        """Whether the first argument is the object that it is called on."""
        return self._signature.is_method

    def fitted(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Returns the arguments of a call as the program takes them, or raises.

        They must fit the input signature.
        """
        return self._signature.fitted(args, kwargs)

    def over(self, strategy: Any, drive: Callable[[OnReplicas], Drive]) -> Function:
        """Returns the function that runs this one on every replica of `strategy`.

        Args:
            strategy: The strategy.
            drive: Makes the function to call where one program cannot do it.
        """
        latest, latest_over = self.latest_over
        found = latest_over() if latest() is strategy else None
        if found is not None:
            return found
        found = strategy.functions.get(self)
        if found is None:
            on_replicas = OnReplicas(self, strategy)
            found = strategy.functions[self] = Function(
                on_replicas,
                self.input_signature,
                self._donation.numbers,
                self.python_decisions,
                drive(on_replicas),
                strategy.topology,
            )
            found._signature.is_method = self._signature.is_method
            self._over.add(found)
        self.latest_over = (weakref.ref(strategy), weakref.ref(found))
        return found

    def compiled(self, fn: Callable[..., Any]) -> Function:
        """Returns `fn`, which this function's Python gives to `run`, as a function.

        A function that is defined anew on each call is found again by its code and by
        what it reaches.
        """
        key = closures.identity(fn)
        found = None if key is None else self._inner.get(key)
        if found is None:
            found = Function(fn, python_decisions=self.python_decisions)
            self.remember(key, found)
        # What the one before closes over may have changed since.
        found.fn = fn
        return found

    def remember(self, key: Any, compiled: Function) -> None:
        """Makes `compiled` what is found for a function with this identity."""
        if key is None:
            return
        self._inner[key] = compiled
        if len(self._inner) > MAX_PROGRAMS:
            self._inner.popitem(last=False)

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Returns what the program for such arguments returns."""
        latest = self.latest
        if latest is not None and not kwargs:
            arrays = latest.arrays_of(args)
            if arrays is not None:
                return latest.program(arrays)
        return self._call_by_key(args, kwargs)

    def _call_by_key(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Returns what the program for the key of such arguments returns."""
        # Else calls of the latest kind would not keep its program from being dropped.
        self.latest = None
        if not jax_internals.is_eager():
            # Part of the derivative that is under way.
            return self.fn(*args, **kwargs)
        libraries.connect()
        if are_flat(args, kwargs):
            leaves, structure = list(args), flat_structure(len(args))
        else:
            leaves, structure = trees.flatten((tuple(args), kwargs))
        topology = self._topology or topology_of_workers(leaves)
        is_local = topology is None or topology.job is None
        if topology is not None and not is_local:
            leaves = self._agree(leaves, structure, topology)
        slots = slots_of(leaves, self._topology)
        keys = tuple([key for key, _, _ in slots])
        if DRIVEN[0] in keys:
            args, kwargs = trees.unflatten(structure, leaves)
            return self._drive(args, kwargs, False)
        fingerprint = libraries.fingerprint(self.fn, leaves)
        # The `run` of a strategy does the same inside and outside of its scope.
        place = _place() if self._topology is None else None
        key = (structure, keys, fingerprint, place, jax_internals.config_fingerprint())
        given = Given(leaves, structure, slots)
        program = self.programs.get(key, self._builder.build, given)
        if program is OnlyPython.CREATING:
            return self._create(key, args, kwargs)
        if isinstance(program, OnlyPython):
            return self._drive(args, kwargs, program is OnlyPython.DECIDING)
        if (
            structure == flat_structure(len(leaves))
            and is_local
            and fingerprint is None
            and place is None
            and not program.can_be_outdated
        ):
            self.latest = Latest(program, slots, self._topology is not None)
        try:
            return program(given.arrays)
        except Outdated:
            # Another thread may have found out as well.
            self.programs.drop(key)
            return self.call(args, kwargs)

    def _agree(
        self, leaves: list[Any], structure: Any, topology: Topology
    ) -> list[Any]:
        """Returns arguments with what all workers know about them."""
        if self._topology is None:
            return agreed_parts(leaves, topology)
        flags = self._donation.flags(structure, len(leaves))
        return agreed_arguments(leaves, topology, flags)

    def _drive(
        self, args: Sequence[Any], kwargs: dict[str, Any], is_deciding: bool
    ) -> Tree:
        """Runs the Python, with each `run` in it compiled, or what was given."""
        if self._drive_instead is not None:
            return self._drive_instead(args, kwargs, is_deciding)
        with stack.driving(self):
            return self.fn(*args, **kwargs)

    def _create(self, key: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Runs the Python, which makes variables of computed values, this one time."""
        self.programs.drop(key)
        if key in self._created:
            raise ValueError(
                "A function can make variables of computed values on its first call "
                f"only. Received: {self._name}, which makes another one on every call. "
                "Keep it, as in `if self.v is None: self.v = Variable(...)`, or create "
                "it outside. tf.function only supports singleton tf.Variables created "
                "on the first call."
            )
        self._created.add(key)
        return self._drive(args, kwargs, True)

    def _call_python(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


def _place() -> Any:
    """Returns what of the place of a call decides how a function is traced."""
    frame = stack.frame()
    return None if frame is None else (type(frame), Same(frame.strategy))


def _run_together(strategy: Any, fn: Any, args: Any, kwargs: Any) -> Tree:
    return strategy.run(fn, args, kwargs)
