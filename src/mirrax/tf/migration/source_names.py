"""Finds the TensorFlow names in the source of a program."""

from __future__ import annotations

import ast
import dataclasses

from mirrax.tf.migration.findings import IMPORT, Edit, Finding

ROOT = "tensorflow"


@dataclasses.dataclass(frozen=True, order=True)
class Use:
    """A full TensorFlow name, from `tf` on, and its position in a program."""

    line: int
    column: int
    name: str


class ProgramNames(ast.NodeVisitor):
    r"""Collects imports and uses, following aliases.

    >>> found = ProgramNames("from tensorflow import nn as n\nn.relu(1)")
    >>> found.uses
    [Use(line=2, column=0, name='tf.nn.relu')]
    """

    def __init__(self, source: str, filename: str = "<program>") -> None:
        self.imports: list[Finding] = []
        self.uses: list[Use] = []
        self._aliases: dict[str, str] = {}
        self.tree = tree = ast.parse(source, filename)
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
            self.generic_visit(node)
        else:
            self.uses.append(Use(node.lineno, node.col_offset, name))

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
        if not any(_is_tensorflow(alias.name) for alias in node.names):
            return
        written = ", ".join(map(self._alias, node.names))
        self._add_import(node, f"import {written}")

    def _alias(self, alias: ast.alias) -> str:
        """Notes what one name of an import stands for; returns its replacement."""
        if not _is_tensorflow(alias.name):
            return ast.unparse(alias)
        if alias.asname is None:
            self._aliases[ROOT] = "tf"
            return f"mirrax.tf as {ROOT}"
        self._aliases[alias.asname] = _from_tf(alias.name)
        return f"mirrax.{_from_tf(alias.name)} as {alias.asname}"

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.level or not _is_tensorflow(node.module or ""):
            return
        module = _from_tf(node.module or "")
        for alias in node.names:
            self._aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
        names = ", ".join(ast.unparse(alias) for alias in node.names)
        self._add_import(node, f"from mirrax.{module} import {names}")

    def _add_import(self, node: ast.Import | ast.ImportFrom, written: str) -> None:
        end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
        edit = Edit((node.lineno, node.col_offset), end, written)
        found = Finding(
            node.lineno, IMPORT, ast.unparse(node), f"write `{written}`", edit
        )
        self.imports.append(found)


def _is_tensorflow(module: str) -> bool:
    return module == ROOT or module.startswith(f"{ROOT}.")


def _from_tf(module: str) -> str:
    """Returns the name from `tf` on, without the private module `python`.

    >>> _from_tf("tensorflow.python.keras.layers")
    'tf.keras.layers'
    """
    parts = module.split(".")[1:]
    return ".".join(["tf", *(part for part in parts if part != "python")])
