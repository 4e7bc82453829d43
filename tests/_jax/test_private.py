"""Mirrax uses few private names of JAX, and says so when one is missing."""

import ast
import importlib.util
import re

import jax
import pytest

from mirrax._jax import private
from tools.check_layers import PACKAGE

MODULES = sorted((PACKAGE / "_jax").glob("*.py"))
# Other owners of names that begin with an underscore.
NOT_JAX = {"self", "sys"}


def imported_names(tree):
    """Yields what a module imports from `jax._src`, and takes from `jaxlib._jax`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("jax._src"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "_jax":
            yield f"jaxlib._jax.{node.attr}"


def underscored_names(tree):
    """Yields the private attributes, arguments and names in strings that it uses."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value, attr=name):
                is_ours = ast.unparse(value) in NOT_JAX
            case ast.keyword(arg=str(name)) | ast.Constant(value=str(name)):
                is_ours = False
            case _:
                continue
        if not is_ours and re.fullmatch(r"_[a-z]\w*", name):
            yield name


def found_by(collect):
    trees = [ast.parse(path.read_text()) for path in MODULES]
    return sorted({name for tree in trees for name in collect(tree)})


def test_number_of_private_names_does_not_grow():
    names = found_by(imported_names) + found_by(underscored_names)
    assert len(names) <= 19, names


@pytest.mark.parametrize("name", found_by(underscored_names))
def test_private_attribute_is_documented(name):
    assert re.search(rf"\b{name}\b", private.__doc__)


def load_again():
    """Loads the module as a new process would."""
    path = private.__file__
    spec = importlib.util.spec_from_file_location("mirrax_loaded_again", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name",
    [
        "array.ArrayImpl",
        "config.trace_context",
        "core.trace_ctx",
        "distributed.global_state",
    ],
)
def test_version_without_one_of_the_names_is_refused(monkeypatch, name):
    load_again()
    monkeypatch.delattr(f"jax._src.{name}")
    message = (
        rf"tested with jax 0.9.2 to 0.10.2 and does not know this version. Received: "
        rf"jax {jax.__version__}. Install 'jax>=0.9.2,<0.11'."
    )
    with pytest.raises(ImportError, match=message):
        load_again()


def test_trace_state_of_older_versions_is_the_current_trace(monkeypatch):
    with monkeypatch.context() as patch:
        patch.delattr("jax._src.core.trace_state_strong_ref", raising=False)
        older = load_again().trace_state
    seen = []
    jax.jit(lambda: seen.append(older.value is private.trace_state.value))()
    assert seen == [True]
