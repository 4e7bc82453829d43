"""Exported functions: loaded without source code, on any strategy."""

import collections
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import errors, train
from mirrax.testing import launch_processes
from tests.programs import engines, mirrored, per_replica

ROWS = mirrax.TensorSpec([None, 2], name="rows")
X = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "exported"


def linear(scale=1.0):
    w = mirrax.Variable(jnp.array([1.0, 2.0]) * scale, name="w")
    count = mirrax.Variable(
        0, trainable=False, aggregation=mirrax.VariableAggregation.SUM
    )

    @mirrax.function(input_signature=[ROWS])
    def predict(x):
        count.assign_add(1)
        return {"y": x @ w, "calls": count.value}

    return w, count, predict


def test_loaded_function_gives_the_same(path):
    _, _, predict = linear()
    train.export(path, predict=predict)
    loaded = train.load_exported(path)
    found = loaded.predict(X)
    np.testing.assert_array_equal(found["y"], predict(X)["y"])
    assert int(found["calls"]) == 1


def test_loaded_variables_are_new_and_keep_their_kind(path):
    w, count, predict = linear()
    train.export(path, predict=predict)
    loaded = train.load_exported(path)
    loaded.predict(X)
    assert int(count) == 0
    assert [v.name for v in loaded.trainable_variables] == [w.name]
    by_name = {v.name: v for v in loaded.variables}
    assert int(by_name[count.name]) == 1
    assert by_name[count.name].aggregation is mirrax.VariableAggregation.SUM


def test_sizes_left_open_take_any_batch(path):
    _, _, predict = linear()
    train.export(path, predict=predict)
    loaded = train.load_exported(path)
    assert loaded.predict.input_signature[0].shape == (None, 2)
    assert loaded.predict.input_signature[0].name == "rows"
    for rows in (1, 7):
        assert loaded.predict(np.ones((rows, 2), np.float32))["y"].shape == (rows,)


def test_an_empty_part_of_a_batch_gives_an_empty_result(path):
    w = mirrax.Variable(jnp.array([1.0, 2.0]))
    train.export(path, f=(lambda x: {"y": x @ w, "w": w.value}, [ROWS]))
    found = train.load_exported(path).f(X[:0])
    assert found["y"].shape == (0,)
    assert found["w"].tolist() == [1.0, 2.0]


def test_arguments_must_fit_the_signature(path):
    _, _, predict = linear()
    train.export(path, predict=predict)
    with pytest.raises(errors.SignatureMismatch, match=r"float32\[1, 3\]"):
        train.load_exported(path).predict(np.ones((1, 3), np.float32))


@engines
def test_loaded_in_a_scope_runs_on_replicas(path, engine):
    _, _, predict = linear()
    train.export(path, predict=predict)
    strategy = mirrored(2)
    with strategy.scope():
        loaded = train.load_exported(path)
    x = per_replica(strategy, [X, X[:1]])
    found = strategy.run(engine(loaded.predict), args=(x,))
    for part, rows in zip(found["y"].values, (X, X[:1]), strict=True):
        np.testing.assert_array_equal(part, rows @ [1.0, 2.0])
    assert {len(v.values) for v in loaded.variables} == {2}


def test_saved_in_a_scope_loads_outside(path):
    with mirrored(2).scope():
        _, _, predict = linear()
    train.export(path, predict=predict)
    loaded = train.load_exported(path)
    np.testing.assert_array_equal(loaded.predict(X)["y"], X @ [1.0, 2.0])


def test_loaded_function_can_be_trained_on(path):
    w, _, predict = linear()
    train.export(path, predict=predict)
    loaded = train.load_exported(path)
    (copy,) = loaded.trainable_variables
    _, gradient = mirrax.value_and_grad(
        lambda: jnp.sum(loaded.predict(X)["y"] ** 2), copy
    )()
    expected = jax.grad(lambda w: jnp.sum((X @ w) ** 2))(w.value)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_a_process_without_the_source_loads_it(path):
    _, _, predict = linear()
    train.export(path, predict=predict)
    program = (
        "import sys, numpy as np, mirrax\n"
        "s = mirrax.MirroredStrategy(['CPU:0', 'CPU:1'])\n"
        "with s.scope():\n"
        "    loaded = mirrax.train.load_exported(sys.argv[1])\n"
        "x = np.arange(6, dtype=np.float32).reshape(3, 2)\n"
        "print(loaded.predict(x)['y'].tolist())\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip() == "[2.0, 8.0, 14.0]", done.stderr


def test_exporting_again_replaces_the_older_export(path):
    for scale in (1.0, 10.0):
        _, _, predict = linear(scale)
        train.export(path, predict=predict)
    np.testing.assert_array_equal(
        train.load_exported(path).predict(X)["y"], X @ [10.0, 20.0]
    )


def test_a_folder_of_the_user_is_refused(path):
    path.mkdir()
    (path / "thesis.txt").write_text("mine")
    _, _, predict = linear()
    with pytest.raises(errors.CheckpointWriteError, match="nothing but another"):
        train.export(path, predict=predict)
    assert (path / "thesis.txt").read_text() == "mine"


def test_a_checkpoint_is_not_replaced_by_an_export(path):
    train.Checkpoint(v=mirrax.Variable(7.0)).write(path)
    _, _, predict = linear()
    with pytest.raises(
        errors.CheckpointWriteError, match="where there is a checkpoint"
    ):
        train.export(path, predict=predict)
    restored = mirrax.Variable(0.0)
    train.Checkpoint(v=restored).read(path)
    assert float(restored) == 7.0


def test_damage_is_found(path):
    _, _, predict = linear()
    train.export(path, predict=predict)
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.stat().st_size:
            whole = file.read_bytes()
            file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            with pytest.raises(errors.CheckpointDamagedError):
                train.load_exported(path)
            file.write_bytes(whole)
    train.load_exported(path)


def test_only_exports_count_as_exported(path, tmp_path):
    assert not train.is_exported(path)
    checkpoint = train.Checkpoint(v=mirrax.Variable(1.0)).save(tmp_path / "ckpt")
    assert not train.is_exported(checkpoint)
    with pytest.raises(errors.NotFoundError, match="which is a checkpoint"):
        train.load_exported(checkpoint)
    _, _, predict = linear()
    train.export(path, predict=predict)
    assert train.is_exported(path)


def test_a_function_without_signature_is_refused(path):
    with pytest.raises(ValueError, match="needs an `input_signature`"):
        train.export(path, predict=mirrax.function(lambda x: x))


def test_a_signature_of_other_descriptions_is_refused(path):
    spec = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    with pytest.raises(
        ValueError, match=r"Write mirrax\.TensorSpec\(\[None, 3\], dtype"
    ):
        train.export(path, f=(lambda x: x, [spec]))


def counter(strategy, aggregation="SUM", value=0.0):
    with strategy.scope():
        return mirrax.Variable(
            value,
            synchronization=mirrax.VariableSynchronization.ON_READ,
            aggregation=mirrax.VariableAggregation[aggregation],
        )


@pytest.mark.parametrize(
    ("aggregation", "combined"),
    [("SUM", 3.0), ("MEAN", 1.5), ("ONLY_FIRST_REPLICA", 1.0)],
)
def test_copies_of_replicas_are_exported_combined(path, aggregation, combined):
    strategy = mirrored(2)
    seen = counter(strategy, aggregation)
    strategy.run(seen.assign_add, args=(per_replica(strategy, [1.0, 2.0]),))
    train.export(path, f=(lambda: mirrax.cond(True, lambda: seen * 10.0, float), []))
    assert float(train.load_exported(path).f()) == 10.0 * combined
    with strategy.scope():
        loaded = train.load_exported(path)
    (copy,) = loaded.variables
    assert copy.synchronization is mirrax.VariableSynchronization.ON_READ
    assert float(copy) == combined
    assert float(loaded.f()) == 10.0 * combined


def test_exported_functions_assign_variables_with_copies(path):
    strategy = mirrored(2)
    seen = counter(strategy)
    train.export(path, f=(seen.assign_add, [mirrax.TensorSpec([])]))
    alone = train.load_exported(path)
    assert [float(alone.f(2.0)), float(alone.f(2.0))] == [2.0, 4.0]
    with strategy.scope():
        loaded = train.load_exported(path)
    strategy.run(loaded.f, args=(per_replica(strategy, [1.0, 2.0]),))
    assert float(loaded.variables[0]) == 3.0


@engines
def test_loaded_functions_count_on_replicas_with_different_arguments(path, engine):
    count = mirrax.Variable(0)

    def f(x):
        count.assign_add(1)
        return x * 2.0

    train.export(path, f=(f, [mirrax.TensorSpec([])]))
    strategy = mirrored(2)
    with strategy.scope():
        loaded = train.load_exported(path)
    strategy.run(engine(loaded.f), args=(per_replica(strategy, [1.0, 2.0]),))
    assert int(loaded.variables[0]) == 1


@pytest.mark.parametrize("kind", ["argument", "copy"])
def test_loaded_functions_that_assign_different_values_are_refused(path, kind):
    strategy = mirrored(2)
    total, seen = mirrax.Variable(0.0), counter(strategy)
    given = (lambda x: x) if kind == "argument" else (lambda x: seen.value)
    train.export(
        path, f=(lambda x: total.assign_add(given(x)), [mirrax.TensorSpec([])])
    )
    with strategy.scope():
        loaded = train.load_exported(path)
    x = per_replica(strategy, [1.0, 2.0])
    with pytest.raises(errors.VaryingError, match="the same value by every replica"):
        strategy.run(mirrax.function(loaded.f), args=(x,))


Pair = collections.namedtuple("Pair", "first second")


def test_namedtuples_are_loaded_as_namedtuples(path):
    def f(x):
        return Pair(x, [Pair(x + 1.0, None)])

    train.export(path, f=(f, [mirrax.TensorSpec([])]))
    loaded = train.load_exported(path)
    found = loaded.f(1.0)
    assert type(found).__name__ == "Pair"
    assert found == Pair(1.0, [Pair(2.0, None)])
    assert loaded.output_signatures["f"].first.shape == ()


def test_a_function_over_replicas_is_refused(path):
    strategy = mirrored(2)
    with pytest.raises(ValueError, match=r"which calls `strategy\.run`"):
        train.export(path, f=(lambda x: strategy.run(lambda: x).values[0], [ROWS]))


def test_python_that_needs_a_size_says_what_to_do(path):
    with pytest.raises(TypeError, match="integer") as caught:
        train.export(path, f=(lambda x: list(range(x.shape[0])), [ROWS]))
    assert "Give numbers for sizes" in "".join(caught.value.__notes__)


def test_an_unknown_name_lists_what_there_is(path):
    _, _, predict = linear()
    train.export(path, predict=predict)
    loaded = train.load_exported(path)
    with pytest.raises(AttributeError, match=r"Received: serve.*\['predict'\]"):
        _ = loaded.serve


def export_on_workers(path):
    strategy = mirrax.MultiWorkerMirroredStrategy()
    with strategy.scope():
        _, _, predict = linear()
    train.export(path, predict=predict)
    with strategy.scope():
        loaded = train.load_exported(path)
    (y,) = strategy.experimental_local_results(strategy.run(loaded.predict, (X,))["y"])
    return np.asarray(y).tolist()


@pytest.mark.slow
def test_workers_export_once_and_load_together(path):
    answers = launch_processes(export_on_workers, 2, [str(path)])
    assert answers == [(X @ [1.0, 2.0]).tolist()] * 2


@pytest.mark.parametrize("platforms", ["cpu", ["gpu"]])
def test_unknown_platforms_are_refused(tmp_path, platforms):
    function = (lambda x: x), [mirrax.TensorSpec([2])]
    with pytest.raises(ValueError, match=r"list of cpu, cuda, rocm, tpu. Received"):
        mirrax.train.export(tmp_path / "e", platforms=platforms, same=function)
    assert not (tmp_path / "e").exists()
