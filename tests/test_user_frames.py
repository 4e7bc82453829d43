"""Errors name the line of the user's program, never one of ours."""

import inspect
import pathlib
import traceback

import jax
import pytest

import mirrax
from mirrax import user_frames
from mirrax.errors import ConfigurationError


def this_line():
    return inspect.currentframe().f_back.f_lineno


def call_from(filename):
    """Returns what `where.caller` says to code in a file of this name."""
    names = {"caller": user_frames.caller}
    exec(compile("found = caller()", filename, "exec"), names)
    return names["found"]


def test_the_caller_is_the_line_that_calls():
    found, line = user_frames.caller(), this_line()
    assert found == f"{__file__}:{line}"


def test_the_caller_is_found_through_mirrax():
    found = []
    mirrax.function(lambda: found.append(user_frames.caller()))()
    assert found == [f"{__file__}:{this_line() - 1}"]


@pytest.mark.parametrize(
    "filename",
    [
        str(pathlib.Path(mirrax.__file__).parent / "x.py"),
        str(pathlib.Path(jax.__file__).parent / "x.py"),
    ],
    ids=["mirrax", "jax"],
)
def test_the_caller_is_neither_mirrax_nor_jax(filename):
    assert call_from(filename).startswith(f"{__file__}:")


def test_a_package_of_the_user_may_have_a_name_like_ours():
    beside = f"{pathlib.Path(mirrax.__file__).parent}_models/train.py"
    assert call_from(beside) == f"{beside}:1"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/home/me/x-packages/train.py", True),
        ("/anywhere/site-packages/keras/layer.py", False),
        (inspect.__file__, False),
    ],
    ids=["folder_of_the_user", "package", "standard_library"],
)
def test_user_code_is_neither_python_nor_an_installed_package(file, expected):
    assert user_frames.is_user_code(file) is expected


def test_line_of_the_user_is_preferred_to_that_of_a_package():
    package, users = "/lib/site-packages/keras/x.py", "/home/me/train.py"
    assert user_frames.find_user_frame([(package, 1), (users, 2)]) == 2
    assert user_frames.find_user_frame([(jax.__file__, 0), (package, 1)]) == 1


def fail():
    raise KeyError("mine")


def test_the_origin_is_the_innermost_line_of_the_user():
    with pytest.raises(KeyError) as caught:
        fail()
    line = fail.__code__.co_firstlineno + 1
    assert user_frames.origin(caught.value) == f"{__file__}:{line}"


def test_the_origin_is_found_through_jax():
    with pytest.raises(KeyError) as caught:
        jax.eval_shape(fail)
    line = fail.__code__.co_firstlineno + 1
    assert user_frames.origin(caught.value) == f"{__file__}:{line}"


def test_an_error_that_was_never_raised_has_no_origin():
    assert user_frames.origin(KeyError("mine")) == "an unknown place"


@pytest.fixture(params=["compiled", "eager", "whole"])
def failing_call(request, two_replicas):
    """A call that raises in the user's step, through many frames of Mirrax."""

    def step(x):
        return x @ jax.numpy.ones(7)

    @mirrax.function
    def whole(x):
        return two_replicas.run(step, args=(x,))

    compiled = mirrax.function(step)
    return {
        "compiled": lambda x: two_replicas.run(compiled, args=(x,)),
        "eager": lambda x: two_replicas.run(step, args=(x,)),
        "whole": whole,
    }[request.param]


def count_own_frames(call):
    with pytest.raises(TypeError, match="same shape") as info:
        call(jax.numpy.ones(3))
    own = f"{pathlib.Path(mirrax.__file__).parent}"
    frames = traceback.extract_tb(info.value.__traceback__)
    assert "step" in {frame.name for frame in frames}
    return sum(frame.filename.startswith(own) for frame in frames)


def test_an_error_of_a_step_shows_only_the_calls_of_the_user(failing_call):
    assert count_own_frames(failing_call) == 1


def test_all_frames_are_shown_if_asked_for(failing_call, monkeypatch):
    monkeypatch.setenv("MIRRAX_FULL_TRACEBACK", "1")
    assert count_own_frames(failing_call) > 3


def test_an_error_of_mirrax_shows_where_it_was_raised(two_replicas):
    with two_replicas.scope():
        variable = mirrax.Variable(0.0)
    step = mirrax.function(lambda x: variable.assign(x + 1.0))
    with pytest.raises(ValueError, match="must be assigned the same") as info:
        two_replicas.run(step, args=(mirrax.PerReplica((1.0, 2.0)),))
    names = [frame.name for frame in traceback.extract_tb(info.value.__traceback__)]
    assert names[1] == "run"
    assert len(names) == 3


def test_an_error_of_the_configuration_shows_where_it_was_raised(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["host"]}}')
    with pytest.raises(ConfigurationError) as info:
        mirrax.MultiWorkerMirroredStrategy()
    names = [frame.name for frame in traceback.extract_tb(info.value.__traceback__)]
    assert names[1:] == ["__init__", "_read_addresses"]
