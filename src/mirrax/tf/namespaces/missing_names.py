"""TensorFlow names that Mirrax does not have: errors that name a replacement."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from mirrax.tf.migration.replacements import REPLACEMENTS

DOCUMENT = "docs/migration.md"


def replacement_of(name: str) -> str:
    """Returns a sentence that says what to use instead of a TensorFlow name.

    The most specific entry counts: `tf.image.resize`, then `tf.image`.

    >>> replacement_of("tf.lookup.Other")
    'Use a Python dict in the input pipeline (`Dataset.map`).'
    """
    found = lookup(name, REPLACEMENTS)
    if found is not None:
        return f"Use {found}."
    return (
        "Names of release 1 are in `tf.compat.v1`. Look for others in `jax.numpy`, "
        f"`jax.nn`, `jax.lax` or `mirrax`; {DOCUMENT} lists what is available."
    )


def lookup(name: str, table: Mapping[str, str]) -> str | None:
    """Returns the entry of a name, or of the nearest module that has one."""
    parts = name.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 1, -1))
    return next((table[prefix] for prefix in prefixes if prefix in table), None)


def name_replacements() -> None:
    """Lets all loaded modules of TensorFlow's names raise such errors."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mirrax.tf."):
            tensorflow_name = name.removeprefix("mirrax.")
            vars(module).setdefault("__getattr__", names_of(tensorflow_name))


def names_of(module: str) -> Callable[[str], Any]:
    """Returns a module's `__getattr__`, which raises and names a replacement."""

    def __getattr__(name: str) -> Any:  # noqa: N807 - Python's name for it
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        full = f"{module}.{name}"
        raise AttributeError(
            f"`mirrax.tf` has no `{full}`. {replacement_of(full)}", name=name
        )

    return __getattr__


def unavailable(name: str) -> type:
    """Returns a placeholder for a missing class; creating an instance raises."""

    def __init__(self: object, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: N807
        raise NotImplementedError(f"Mirrax has no `{name}`. {replacement_of(name)}")

    namespace = {
        "__init__": __init__,
        "__doc__": f"`{name}`, which Mirrax does not have. {replacement_of(name)}",
        "__module__": __name__,
    }
    return type(name.rsplit(".", maxsplit=1)[-1], (), namespace)
