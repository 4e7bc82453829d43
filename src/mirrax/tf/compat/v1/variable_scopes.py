"""`tf.compat.v1.variable_scope`: a prefix for the names of variables."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from mirrax.tf.variables.name_scopes import name_scope

AUTO_REUSE = "AUTO_REUSE"


@dataclasses.dataclass(frozen=True)
class VariableScope:
    """What `variable_scope` yields, to enter the scope again."""

    name: str


@contextlib.contextmanager
def variable_scope(
    name_or_scope: Any, default_name: Any = None, values: Any = None, **options: Any
) -> Iterator[VariableScope]:
    """Prefixes the names of variables, which are not shared by name.

    >>> with variable_scope("a"), variable_scope("b") as scope:
    ...     scope.name, tf.compat.v1.get_variable("v", [1]).name
    ('a/b', 'a/b/v:0')
    """
    if options.pop("reuse", None) is True:
        raise NotImplementedError(
            "Variables are not shared by name. Received: reuse=True. Keep a variable, "
            "as in `self.v = tf.Variable(...)`, and use it again."
        )
    given = {name for name, value in options.items() if value is not None}
    unknown = given - {"auxiliary_name_scope", "use_resource"}
    if unknown:
        raise NotImplementedError(
            "A variable scope only prefixes names. Received: "
            f"{', '.join(sorted(unknown))}. Pass it to `get_variable`."
        )
    is_scope = isinstance(name_or_scope, VariableScope)
    name = f"{name_or_scope.name}/" if is_scope else name_or_scope or default_name
    with name_scope(name) as prefix:
        yield VariableScope(prefix.rstrip("/"))
