"""Finds the TensorFlow names in the source of a program."""

from __future__ import annotations

import ast
import dataclasses

ROOT = "tensorflow"


@dataclasses.dataclass(frozen=True, order=True)
class Use:
    """A full TensorFlow name, from `tf` on, and its position in a program."""

    line: int
    column: int
    name: str


@dataclasses.dataclass(frozen=True, order=True)
class Import:
    """A statement that imports from TensorFlow, and its replacement."""

    line: int
    statement: str
    replacement: str


@dataclasses.dataclass(frozen=True, order=True)
class Habit:
    """An attribute of a tensor or variable that may be missing."""

    line: int
    text: str


_OF_SHAPES = ("as_list", "dims", "is_fully_defined", "ndims", "num_elements", "rank")


class ProgramNames(ast.NodeVisitor):
    r"""Collects imports and uses, following aliases.

    >>> found = ProgramNames("from tensorflow import nn as n\nn.relu(1)")
    >>> found.uses
    [Use(line=2, column=0, name='tf.nn.relu')]
    """

    def __init__(self, source: str, filename: str = "<program>") -> None:
        self.imports: list[Import] = []
        self.uses: list[Use] = []
        self.habits: list[Habit] = []
        self._aliases: dict[str, str] = {}
        tree = ast.parse(source, filename)
        # Functions may use names that are imported further down.
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
        self.visit(tree)
        self.imports.sort()
        self.uses.sort()

    def visit_Assign(self, node: ast.Assign) -> None:
        """Follows `layers = tf.keras.layers`."""
        self.generic_visit(node)
        target = node.targets[0]
        name = self._resolve(node.value)
        if name is not None and len(node.targets) == 1 and isinstance(target, ast.Name):
            self._aliases[target.id] = name

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._resolve(node)
        if name is None:
            self._note_shape(node)
            self.generic_visit(node)
        else:
            self.uses.append(Use(node.lineno, node.col_offset, name))

    def _note_shape(self, node: ast.Attribute) -> None:
        """Records `x.shape.as_list()`: the shape of an array is a tuple."""
        of_shape = isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
        if of_shape and node.attr in _OF_SHAPES:
            self.habits.append(Habit(node.lineno, f".shape.{node.attr}"))

    def visit_Name(self, node: ast.Name) -> None:
        name = self._aliases.get(node.id)
        # The bare module is not a use of a name in it.
        if name is not None and name != "tf" and isinstance(node.ctx, ast.Load):
            self.uses.append(Use(node.lineno, node.col_offset, name))

    def _resolve(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return self._aliases.get(node.id)
        if isinstance(node, ast.Attribute):
            start = self._resolve(node.value)
            return None if start is None else f"{start}.{node.attr}"
        return None

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if not _is_tensorflow(alias.name):
                continue
            if alias.asname is None:
                self._aliases[ROOT] = "tf"
                written = f"import mirrax.tf as {ROOT}"
            else:
                self._aliases[alias.asname] = _from_tf(alias.name)
                target = _our_module(_from_tf(alias.name))
                written = f"import {target} as {alias.asname}"
            self.imports.append(Import(node.lineno, ast.unparse(node), written))

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.level or not _is_tensorflow(node.module or ""):
            return
        module = _from_tf(node.module or "")
        for alias in node.names:
            self._aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
        source = _our_module(module)
        names = ", ".join(ast.unparse(alias) for alias in node.names)
        written = f"from {source} import {names}"
        self.imports.append(Import(node.lineno, ast.unparse(node), written))


def _is_tensorflow(module: str) -> bool:
    return module == ROOT or module.startswith(f"{ROOT}.")


def _from_tf(module: str) -> str:
    """Returns the name from `tf` on, without the private module `python`.

    >>> _from_tf("tensorflow.python.keras.layers")
    'tf.keras.layers'
    """
    parts = module.split(".")[1:]
    return ".".join(["tf", *(part for part in parts if part != "python")])


def _our_module(name: str) -> str:
    """Returns the module to import from; Keras is a separate package."""
    if name == "tf.keras" or name.startswith("tf.keras."):
        return name.removeprefix("tf.")
    return f"mirrax.{name}"
