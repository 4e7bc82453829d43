"""The examples in docstrings do what they show."""

import doctest
import enum
import importlib
import inspect
import pkgutil
import types

import jax
import pytest

import mirrax
from tests.pages import read
from tools.docs_site import (
    fence,
    find,
    list_members,
    list_reference,
    write_overview,
)

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


NAMES = [name for names in list_reference().values() for name in names]


def test_reference_has_all_public_names():
    reference = list_reference()
    tops = {name for name in NAMES if "." not in name}
    modules = {title.removeprefix("mirrax.") for title in reference} & set(
        mirrax.__all__
    )
    assert tops | modules == set(mirrax.__all__)
    assert all(reference.values())


# What needs new processes (docs/cluster.md has the example), or a cluster of its kind.
WITHOUT_EXAMPLE = {
    "cluster_resolver.GCEClusterResolver",
    "cluster_resolver.KubernetesClusterResolver",
    "cluster_resolver.SlurmClusterResolver",
    "launch.run",
    "testing.launch_processes",
    "testing.run_in_processes",
}


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHOUT_EXAMPLE))
def test_public_name_has_an_example(name):
    thing = find(name)
    assert thing.__doc__
    if not (isinstance(thing, type) and issubclass(thing, Exception | enum.Enum)):
        assert ">>> " in thing.__doc__, (
            f"mirrax.{name} has no example in its docstring."
        )


@pytest.mark.parametrize("name", NAMES)
def test_members_of_public_classes_say_what_they_give(name):
    thing = find(name)
    members = list_members(thing) if isinstance(thing, type) else []
    kinds = property | classmethod | staticmethod | types.FunctionType
    silent = {
        member
        for member in members
        if isinstance(inspect.getattr_static(thing, member), kinds)
        # An implementation does what its base class says.
        and not any(vars(k)[member].__doc__ for k in thing.__mro__ if member in vars(k))
    }
    assert silent == set()


def test_examples_in_docstrings_become_code_blocks():
    shown = fence("Adds.\n\n>>> 1 + 1\n2\n\nAnd so on.")
    assert shown == "Adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\n\nAnd so on."


def test_overview_is_current():
    overview = write_overview(list_reference())
    assert overview in read("docs/api.md"), "Run tools/docs_site.py."
