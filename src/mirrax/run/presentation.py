"""From the arrays that a program returns to what the user gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from mirrax import jax_internals, trees
from mirrax.run.forms import Form
from mirrax.trees import Tree


class Presentation:
    """How the result of a function is put together.

    Args:
        structure: How it is nested.
        forms: How each array in it lies on the devices; None for what is no array.
        rest: The leaves, where they are no arrays.
        is_over_many: Whether the program runs on several devices.
    """

    def __init__(
        self,
        structure: Any,
        forms: Sequence[Form | None],
        rest: Sequence[Any],
        is_over_many: bool,
    ) -> None:
        self._unflatten = structure.unflatten
        self._rest = rest
        self._presenters: list[Any] = [
            None if form is None else _presenter(form, is_over_many) for form in forms
        ]
        self.num_arrays = sum(form is not None for form in forms)
        self._are_bare = all(
            form is not None and form.topology is None and present == form.wrap
            for form, present in zip(forms, self._presenters, strict=True)
        )
        is_leaf = structure == trees.flatten(0)[1]
        self._is_one_array = is_leaf and forms[0] is not None

    def __call__(self, arrays: Sequence[jax.Array]) -> Tree:
        """Returns what the user gets for these arrays."""
        if self._is_one_array:
            return self._presenters[0](arrays[0])
        if self._are_bare:
            return self._unflatten(arrays)
        given = iter(arrays)
        leaves = [
            rest if present is None else present(next(given))
            for present, rest in zip(self._presenters, self._rest, strict=True)
        ]
        return self._unflatten(leaves)


def _presenter(form: Form, is_over_many: bool) -> Callable[[jax.Array], Any]:
    """Returns what makes an array that a program returns what the user gets."""
    if form.kind == "plain" and is_over_many:
        return lambda array: jax_internals.uncommitted(jax_internals.shards(array)[0])
    if form.topology is not None and len(form.topology.local_devices) == 1:
        # As an eager `run` gives it to a worker with one replica.
        return lambda array: form.wrap(array).values[0]
    return form.wrap
