"""What Keras 3 has changed, and what in it needs TensorFlow, in a program's source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from mirrax.tf.migration.findings import CHANGE, Edit, Finding

_HOST = "it works in TensorFlow only; do it in Python or NumPy in `Dataset.map`"
_FILES = "its result is a dataset of TensorFlow; use `tf.data.Dataset.list_files`"

NEEDS_TENSORFLOW: dict[str, str] = {
    "tf.keras.export": "`tf.saved_model.save`, or `model.save` to a `.keras` file",
    "tf.keras.layers.TFSMLayer": "`tf.keras.models.load_model` of a `.keras` file",
    "tf.keras.utils.FeatureSpace": f"other preprocessing: {_HOST}",
    "tf.keras.utils.audio_dataset_from_directory": f"other input: {_FILES}",
}
"""Names that Keras on JAX has, but cannot use; `Use {value}.` is the advice."""

_RENAMED_METHODS = {
    "fit_generator": "fit",
    "evaluate_generator": "evaluate",
    "predict_generator": "predict",
}
_REMOVED_METHODS = {
    "predict_classes": "`np.argmax(model.predict(x), axis=-1)`",
    "predict_proba": "`model.predict`",
    "get_scaled_loss": "`optimizer.scale_loss(loss)`",
    "get_unscaled_gradients": "nothing: `apply_gradients` unscales them",
    "add_metric": "a `tf.keras.metrics` object in the layer, updated in `call`",
}
_HOST_LAYERS = ("StringLookup", "TextVectorization")
_INPUTS = ("Input", "InputLayer")
_ABOUT_STRINGS = (
    "models on JAX take strings only at the beginning of a Sequential; call the layer "
    "in `Dataset.map`, and give the model its results"
)


def find_changes(tree: ast.Module) -> list[Finding]:
    """Returns what a program must change for Keras 3."""
    found = [change for node in ast.walk(tree) for change in _changes(node)]
    return [*found, *_strings_in_models(tree)]


def _strings_in_models(tree: ast.Module) -> Iterator[Finding]:
    """Finds inputs of strings and layers for strings.

    Those at the beginning of a Sequential model work.
    """
    nodes = list(ast.walk(tree))
    made = {
        ast.unparse(target)
        for node in nodes
        if isinstance(node, ast.Assign) and _called(node.value) in _HOST_LAYERS
        for target in node.targets
    }
    leading: set[ast.expr] = set()
    for call in nodes:
        name = _called(call)
        if name == "Sequential" and isinstance(call, ast.Call) and call.args:
            layers = getattr(call.args[0], "elts", [])
            others = [x for x in layers if not _takes_strings(x, made)]
            leading.update(layers[: layers.index(others[0])] if others else layers)
            for layer in layers:
                if layer not in leading and layer not in others:
                    subject = f"Sequential([{ast.unparse(layer)}])"
                    yield Finding(layer.lineno, CHANGE, subject, _ABOUT_STRINGS)
        elif name in _INPUTS and call not in leading and _takes_strings(call, made):
            line = getattr(call, "lineno", 1)
            yield Finding(line, CHANGE, "Input of strings", _ABOUT_STRINGS)


def _takes_strings(layer: Any, made: set[str]) -> bool:
    name = _called(layer)
    if name in _INPUTS:
        dtypes = [ast.unparse(k.value) for k in layer.keywords if k.arg == "dtype"]
        return any("string" in dtype for dtype in dtypes)
    return name in _HOST_LAYERS or ast.unparse(layer) in made


def _called(node: ast.AST) -> str:
    """Returns the last name of what is called; an empty text for other nodes."""
    if not isinstance(node, ast.Call):
        return ""
    return ast.unparse(node.func).rpartition(".")[2]


def _changes(node: ast.AST) -> Iterator[Finding]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _of_method(node, node.func)
        yield from _of_optimizer(node, node.func)


def _of_method(call: ast.Call, method: ast.Attribute) -> Iterator[Finding]:
    name = method.attr
    if name in _RENAMED_METHODS:
        yield _renamed(method, _RENAMED_METHODS[name])
    elif name in _REMOVED_METHODS:
        yield Finding(
            call.lineno, CHANGE, f".{name}", f"write {_REMOVED_METHODS[name]}"
        )
    elif name == "add_weight":
        yield from _of_weight(call)


def _of_weight(call: ast.Call) -> Iterator[Finding]:
    """Finds a name in the first place, where Keras 3 has the shape."""
    first = next(iter(call.args), None)
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        at = (first.lineno, first.col_offset)
        subject = f"add_weight({first.value!r})"
        # A positional argument cannot follow a named one.
        edit = Edit(at, at, "name=") if len(call.args) == 1 else None
        yield Finding(
            first.lineno, CHANGE, subject, "write `name=` before the name", edit
        )


def _of_optimizer(call: ast.Call, function: ast.Attribute) -> Iterator[Finding]:
    if ".optimizers." not in f"{ast.unparse(function)}.":
        return
    for keyword in call.keywords:
        if keyword.arg == "lr":
            at = (keyword.lineno, keyword.col_offset)
            edit = Edit(at, (at[0], at[1] + len("lr")), "learning_rate")
            yield Finding(keyword.lineno, CHANGE, "lr=", "write `learning_rate=`", edit)
        elif keyword.arg == "decay":
            advice = "pass a schedule of `tf.keras.optimizers.schedules` as the rate"
            yield Finding(keyword.lineno, CHANGE, "decay=", advice)


def _renamed(node: ast.Attribute, name: str) -> Finding:
    edit = None
    if node.end_lineno is not None and node.end_col_offset is not None:
        end = (node.end_lineno, node.end_col_offset)
        edit = Edit((end[0], end[1] - len(node.attr)), end, name)
    line = node.end_lineno or node.lineno
    return Finding(line, CHANGE, f".{node.attr}", f"write `.{name}`", edit)
