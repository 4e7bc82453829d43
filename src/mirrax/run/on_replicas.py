"""A function that runs another one on every replica of a strategy."""

from __future__ import annotations

import weakref
from typing import Any

from mirrax.trees import Tree


class OnReplicas:
    """Runs a `mirrax.function` on every replica; keeps alive neither it nor them.

    The strategy keeps what is compiled for it, and that has variables of the strategy.
    A function that kept it would keep alive every strategy that it ever ran on.

    Args:
        fn: The function, which must be there when this is called.
        strategy: The strategy, which must be there as well.
    """

    __slots__ = ("__weakref__", "_fn", "_strategy")

    def __init__(self, fn: Any, strategy: Any) -> None:
        self._fn = weakref.ref(fn)
        self._strategy = weakref.ref(strategy)

    @property
    def __wrapped__(self) -> Any:
        # Where Python, and we ourselves, look for signatures and closures.
        return self.fn

    @property
    def __name__(self) -> str:
        return str(self.fn.__name__)

    @property
    def fn(self) -> Any:
        """The `mirrax.function`."""
        return self._fn()

    @property
    def strategy(self) -> Any:
        """The strategy."""
        return self._strategy()

    def __call__(self, *args: Any, **kwargs: Any) -> Tree:
        return self.strategy.run(self.fn.fn, args, kwargs)
