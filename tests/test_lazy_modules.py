"""Half of the package is imported when it is used, and looks as if it were there."""

import pytest

import mirrax
from mirrax.lazy_modules import LazyModule
from tests.devices.fresh import run_fresh


def test_import_takes_in_no_datasets_clusters_or_other_libraries():
    text = run_fresh(
        """
        import sys, mirrax
        names = {".".join(name.split(".")[:2]) for name in sys.modules}
        late = {"data", "input", "cluster", "cluster_resolver", "train", "launch", "tf"}
        print(sorted(names & {f"mirrax.{name}" for name in late}))
        print(sorted(names & {"keras", "flax", "orbax", "grain", "torch"}))
        """
    )
    assert text.split("\n") == ["[]", "[]"]


@pytest.mark.parametrize("name", mirrax.__all__)
def test_every_public_name_is_there(name):
    assert getattr(mirrax, name) is getattr(mirrax, name)
    assert name in dir(mirrax)


def test_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="module 'mirrax' has no attribute 'nope'"):
        mirrax.nope  # noqa: B018


def test_later_is_the_module_it_names():
    assert LazyModule("mirrax.options").ReduceOp is mirrax.ReduceOp
