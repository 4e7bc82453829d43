"""The examples in docstrings do what they show."""

import doctest
import importlib
import pkgutil

import jax
import pytest

import mirrax

# What needs a library that need not be installed, or speaks for TensorFlow.
SKIPPED = ("mirrax.integrations.keras", "mirrax.integrations.flax", "mirrax.tf")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def find_modules():
    for info in pkgutil.walk_packages(mirrax.__path__, "mirrax."):
        if not info.name.startswith(SKIPPED) and not info.name.endswith("__main__"):
            yield info.name


def find_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name in find_modules():
        for example in finder.find(importlib.import_module(name)):
            if example.examples:
                yield example


@pytest.mark.parametrize("example", list(find_examples()), ids=lambda e: e.name)
def test_example_does_what_it_shows(example, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    example.globs.update(mirrax=mirrax, jax=jax)
    outcome = doctest.DocTestRunner(optionflags=FLAGS).run(example, clear_globs=False)
    assert outcome.failed == 0


@pytest.mark.parametrize("name", sorted(mirrax.__all__))
def test_public_name_has_an_example(name):
    thing = getattr(mirrax, name)
    assert thing.__doc__
    if not isinstance(thing, type(mirrax)):
        assert ">>> " in thing.__doc__, (
            f"mirrax.{name} has no example in its docstring."
        )
