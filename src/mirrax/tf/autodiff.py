"""`tf.autodiff`: derivatives in forward direction."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf import nest
from mirrax.tf.functions.function import GradientTape as GradientTape
from mirrax.tf.functions.function import UnconnectedGradients
from mirrax.tf.namespaces.missing_names import names_of
from mirrax.tf.tensors.tensor import conjugate, tensor


class ForwardAccumulator:
    """Products of Jacobians with `tangents`, for what is computed from `primals`.

    They are derivatives of gradients with respect to the weights of the gradients. So
    what has no gradient, such as a compiled while loop, has no such product either; and
    a product has one itself only if `jvp` is called while an outer accumulator, or a
    tape, records.

    >>> x = tensor(3.0)
    >>> with ForwardAccumulator(x, tensor(2.0)) as accumulator:
    ...     y = x * x
    >>> float(accumulator.jvp(y))
    12.0
    """

    def __init__(self, primals: Any, tangents: Any) -> None:
        nest.assert_same_structure(primals, tangents)
        self._primals = nest.flatten(primals)
        self._tangents = [tensor(value) for value in nest.flatten(tangents)]
        if len({id(primal) for primal in self._primals}) < len(self._primals):
            raise ValueError(
                "Each primal can have one tangent only. Received: one that was "
                f"specified as a primal multiple times, in {primals!r}. Add up its "
                "tangents."
            )
        for primal, tangent in zip(self._primals, self._tangents, strict=True):
            if primal.shape != tangent.shape or primal.dtype != tangent.dtype:
                raise ValueError(
                    "A tangent must have the shape and dtype of its primal. Received: "
                    f"{tangent.dtype}{tangent.shape} for {primal.dtype}{primal.shape}."
                )
        self._tape = GradientTape(persistent=True)
        self._tape.watch(self._primals)

    def __enter__(self) -> ForwardAccumulator:
        self._tape.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._tape.__exit__(*exception)

    def jvp(
        self, primals: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Any:
        """Returns the product for each value; None, or zeros, for others."""
        values = nest.flatten(primals)
        found = list(map(self._product, values))
        if UnconnectedGradients(unconnected_gradients) is UnconnectedGradients.ZERO:
            pairs = zip(values, found, strict=True)
            found = [jnp.zeros_like(x) if one is None else one for x, one in pairs]
        return nest.pack_sequence_as(primals, found)

    def _product(self, value: Any) -> Any:
        with GradientTape() as tape:
            weight = jax.lax.stop_gradient(tensor(value)) * 0
            gradients = self._tape.gradient(value, self._primals, weight)
            terms = [
                jnp.sum(jnp.real(gradient * conjugate(tangent)))
                for gradient, tangent in zip(gradients, self._tangents, strict=True)
                if gradient is not None
            ]
            total = sum(terms)
        return tape.gradient(total, weight) if terms else None


__getattr__ = names_of("tf.autodiff")
