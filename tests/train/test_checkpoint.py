import copy
import json
import resource
import threading

import equinox
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from flax import nnx

import mirrax
from mirrax.errors import (
    CheckpointDamagedError,
    CheckpointMismatchError,
    CheckpointObjectError,
    CheckpointWriteError,
    NotFoundError,
)
from mirrax.train import (
    Checkpoint,
    CheckpointManager,
    latest_checkpoint,
    worker_sync,
)
from mirrax.train.checkpoints import array_file, manifest, numbered_checkpoints
from mirrax.train.checkpoints.background_writer import Writer
from tests.programs import create, cut_in_two, mirrored, parts, replica_id

SUM = mirrax.VariableAggregation.SUM
MEAN = mirrax.VariableAggregation.MEAN
ON_READ = mirrax.VariableSynchronization.ON_READ


def test_mirrored_variable_moves_to_another_number_of_replicas(tmp_path):
    old = create(mirrored(2), [1.0, 2.0])
    path = Checkpoint(v=old).save(tmp_path / "ckpt")
    new_strategy = mirrored(4)
    new = create(new_strategy, [0.0, 0.0])
    Checkpoint(v=new).restore(path).assert_consumed()
    assert parts(new_strategy, new) == [[1.0, 2.0]] * 4


def test_array_on_a_mesh_of_the_user_is_saved_whole(tmp_path):
    keys = jax.random.split(jax.random.key(1), 4)
    state = {"w": cut_in_two(jnp.arange(4.0)), "keys": cut_in_two(keys)}
    path = Checkpoint(state=state).save(tmp_path / "ckpt")
    new = Checkpoint(state=jax.tree.map(lambda x: x[::-1], state))
    new.restore(path).assert_consumed()
    assert new.state["w"].tolist() == [0, 1, 2, 3]
    assert (new.state["keys"] == keys).all()


def test_array_that_was_donated_cannot_be_saved(tmp_path):
    array = jnp.ones(2)
    array.delete()
    with pytest.raises(RuntimeError, match=r"donated .* shape \(2,\) to save"):
        Checkpoint(w=[array]).save(tmp_path / "ckpt")


@pytest.mark.parametrize(
    ("aggregation", "dtype", "expected"),
    [
        (SUM, "float32", [2.0, 2.0]),
        (SUM, "int32", [3, 2]),
        (MEAN, "float32", [2.0, 2.0]),
    ],
    ids=["sum_is_divided", "whole_numbers_lose_nothing", "mean_is_kept_whole"],
)
def test_sync_on_read_variable_is_saved_combined(
    tmp_path, two_replicas, aggregation, dtype, expected
):
    values = {"float32": [1, 3], "int32": [1, 4]}[dtype]
    options = {"aggregation": aggregation, "synchronization": ON_READ, "dtype": dtype}
    variable = create(two_replicas, 0, **options)
    two_replicas.run(lambda: variable.assign(jnp.array(values, dtype)[replica_id()]))
    before = variable.numpy()
    saved = Checkpoint(v=variable)
    path = saved.save(tmp_path / "ckpt")
    two_replicas.run(lambda: variable.assign(jnp.array(9, dtype)))
    saved.restore(path)
    assert parts(two_replicas, variable) == expected
    assert variable.numpy() == before


def test_sync_on_read_without_aggregation_cannot_be_saved(tmp_path, two_replicas):
    variable = create(two_replicas, 0.0, synchronization=ON_READ)
    with pytest.raises(ValueError, match=r"cannot be combined.*aggregation"):
        Checkpoint(v=variable).save(tmp_path / "ckpt")


def test_structures_of_arrays_come_back_as_they_were(tmp_path):
    params = {"w": jnp.arange(3.0), "b": np.float64(2)}
    objects = {
        "params": params,
        "optimizer": optax.adam(0.1).init({"w": params["w"]}),
        "half": jnp.ones(3, ml_dtypes.bfloat16),
        "key": jax.random.key(7),
        "empty": np.zeros((0, 3)),
        "step": 12,
        "rate": 0.5,
        "done": True,
        "note": "text",
    }
    path = Checkpoint(**objects).save(tmp_path / "ckpt")
    blank = jax.tree.map(_blank, objects)
    restored = Checkpoint(**blank)
    restored.restore(path).assert_consumed()
    for name, value in objects.items():
        found = getattr(restored, name)
        assert jax.tree.structure(found) == jax.tree.structure(value)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(value)):
            assert type(one) is type(other)
            assert jnp.array_equal(*map(_comparable, (one, other)))


def test_pytree_is_built_once_however_many_leaves_it_has(tmp_path):
    built = []

    class Layers:
        def __init__(self, leaves):
            self.leaves = leaves

    def unflatten(_, leaves):
        built.append(leaves)
        return Layers(list(leaves))

    jax.tree_util.register_pytree_node(Layers, lambda x: (x.leaves, None), unflatten)
    path = Checkpoint(x=Layers([np.full(1, i) for i in range(9)])).save(tmp_path / "c")
    run = Checkpoint(x=Layers([np.zeros(1, np.int64)] * 9))
    built.clear()
    run.restore(path).assert_consumed()
    assert [int(leaf[0]) for leaf in run.x.leaves] == list(range(9))
    assert len(built) == 1


def _blank(leaf):
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key(0)
    return type(leaf)() if isinstance(leaf, int | float | str) else leaf * 0


def _comparable(value):
    if isinstance(value, str):
        return np.frombuffer(value.encode(), np.uint8)
    is_key = isinstance(value, jax.Array) and jnp.issubdtype(
        value.dtype, jax.dtypes.prng_key
    )
    return jax.random.key_data(value) if is_key else value


def test_equinox_module_keeps_what_is_no_array(tmp_path):
    model = equinox.nn.MLP(2, 1, 4, 1, key=jax.random.key(0))
    path = Checkpoint(model=model).save(tmp_path / "ckpt")
    restored = Checkpoint(model=equinox.nn.MLP(2, 1, 4, 1, key=jax.random.key(1)))
    restored.restore(path).assert_consumed()
    x = jnp.ones(2)
    np.testing.assert_array_equal(restored.model(x), model(x))


def test_nnx_model_and_optimizer_are_restored_in_place(tmp_path, two_replicas):
    def build(seed):
        model = nnx.Linear(2, 3, rngs=nnx.Rngs(seed))
        return model, nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)

    model, optimizer = build(0)

    @mirrax.function
    def step(x):
        gradients = nnx.grad(lambda m: m(x).sum())(model)
        optimizer.update(model, gradients)

    two_replicas.run(step, (jnp.ones((4, 2)),))
    path = Checkpoint(model=model, optimizer=optimizer).save(tmp_path / "ckpt")
    other, other_optimizer = build(1)
    Checkpoint(model=other, optimizer=other_optimizer).restore(path).assert_consumed()
    np.testing.assert_array_equal(other.kernel[...], model.kernel[...])
    assert int(other_optimizer.step[...]) == 1
    moment = other_optimizer.opt_state[0].mu["kernel"][...]
    np.testing.assert_array_equal(moment, optimizer.opt_state[0].mu["kernel"][...])


def test_restored_nnx_model_is_used_by_a_compiled_step(tmp_path, two_replicas):
    model = nnx.Linear(2, 1, rngs=nnx.Rngs(0))
    predict = mirrax.function(model)
    saved = Checkpoint(model=model)
    path = saved.save(tmp_path / "ckpt")
    before = np.asarray(two_replicas.run(predict, (jnp.ones((1, 2)),)))
    model.kernel[...] = jnp.zeros((2, 1))
    two_replicas.run(predict, (jnp.ones((1, 2)),))
    saved.restore(path)
    after = two_replicas.run(predict, (jnp.ones((1, 2)),))
    np.testing.assert_array_equal(after, before)


def test_iterator_goes_on_where_it_was(tmp_path, two_replicas):
    data = mirrax.data.Dataset.range(100).shuffle(100, seed=1).batch(4)
    iterator = iter(two_replicas.experimental_distribute_dataset(data))
    next(iterator)
    path = Checkpoint(data=iterator).save(tmp_path / "ckpt")
    expected = [parts(two_replicas, next(iterator)) for _ in range(3)]
    other = iter(two_replicas.experimental_distribute_dataset(data))
    Checkpoint(data=other).restore(path).assert_consumed()
    assert [parts(two_replicas, next(other)) for _ in range(3)] == expected


def test_random_generator_goes_on_where_it_was(tmp_path):
    generator = mirrax.random.Generator(0)
    generator.key()
    saved = Checkpoint(random=generator)
    path = saved.save(tmp_path / "ckpt")
    expected = jax.random.key_data(generator.key())
    saved.restore(path)
    np.testing.assert_array_equal(jax.random.key_data(generator.key()), expected)


def test_variable_that_holds_a_random_key_is_restored(tmp_path, two_replicas):
    with two_replicas.scope():
        variable = mirrax.Variable(jax.random.key(1))
    saved = Checkpoint(key=variable)
    path = saved.save(tmp_path / "ckpt")
    variable.assign(jax.random.key(2))
    saved.restore(path).assert_consumed()
    assert variable.value == jax.random.key(1)
    with pytest.raises(ValueError, match=r"'key' has shape"):
        Checkpoint(key=mirrax.Variable(1.0)).restore(path)
    keys = jax.random.split(jax.random.key(0))
    with pytest.raises(ValueError, match=r"shape \(2, 2\), but shape \(2,\) was saved"):
        Checkpoint(key=keys).restore(path)


def test_checkpoint_can_be_part_of_another(tmp_path):
    inner = Checkpoint(v=mirrax.Variable(1.0), step=3)
    outer = Checkpoint(inner=inner)
    path = outer.save(tmp_path / "ckpt")
    inner.v.assign(0.0)
    inner.step = 0
    outer.restore(path).assert_consumed()
    assert (float(inner.v), inner.step) == (1.0, 3)


class Module:
    """An object whose attributes are saved."""

    def checkpoint_contents(self):
        return vars(self)


def test_objects_that_hold_each_other_are_saved(tmp_path):
    parent, child = Module(), Module()
    parent.weight, child.weight = mirrax.Variable(1.0), mirrax.Variable(2.0)
    parent.children, child.parent = [child], parent
    parent.saver = Checkpoint(model=parent, only=child)
    path = parent.saver.save(tmp_path / "ckpt")
    parent.weight.assign(0.0)
    child.weight.assign(0.0)
    parent.saver.restore(path).assert_consumed()
    assert (float(parent.weight), float(child.weight)) == (1.0, 2.0)


def test_list_that_contains_itself_is_refused():
    value = [mirrax.Variable(1.0)]
    value.append(value)
    with pytest.raises(CheckpointObjectError, match="'v', a list or dict that"):
        Checkpoint(v=value)


def test_variable_that_comes_later_is_restored_when_it_comes(tmp_path, two_replicas):
    path = Checkpoint(v=mirrax.Variable(5.0)).save(tmp_path / "ckpt")
    late = Checkpoint()
    status = late.restore(path)
    with pytest.raises(
        AssertionError, match=r"values for v, which no object has taken"
    ):
        status.assert_consumed()
    late.v = create(two_replicas, 0.0)
    assert parts(two_replicas, late.v) == [5.0, 5.0]
    status.assert_consumed()


def test_late_object_that_does_not_fit_can_be_replaced(tmp_path):
    saved = Checkpoint(v=mirrax.Variable([1.0, 2.0]), w=mirrax.Variable(5.0), step=3)
    path = saved.save(tmp_path / "ckpt")
    late = Checkpoint()
    status = late.restore(path)
    for _ in range(2):
        with pytest.raises(CheckpointMismatchError, match=r"'v' has shape \(\)"):
            late.v = mirrax.Variable(0.0)
    late.v = mirrax.Variable([0.0, 0.0])
    late.w = mirrax.Variable(0.0)
    late.step = 0
    assert late.v.numpy().tolist() == [1.0, 2.0]
    assert (float(late.w), late.step) == (5.0, 3)
    status.assert_consumed()


def test_late_iterator_that_does_not_fit_can_be_replaced(tmp_path):
    batches = iter(mirrax.data.Dataset.range(9))
    for _ in range(5):
        next(batches)
    path = Checkpoint(data=batches, step=3).save(tmp_path / "ckpt")
    late = Checkpoint()
    late.restore(path)
    with pytest.raises(ValueError, match="position"):
        late.data = iter(mirrax.data.Dataset.range(3))
    late.data = iter(mirrax.data.Dataset.range(9))
    late.step = 0
    assert (next(late.data), late.step) == (5, 3)


def test_object_that_a_part_gets_later_is_restored(tmp_path):
    saved = Checkpoint(inner=Checkpoint(v=mirrax.Variable(5.0), step=3))
    path = saved.save(tmp_path / "ckpt")
    late = Checkpoint(inner=Checkpoint())
    status = late.restore(path)
    late.inner.v = mirrax.Variable(0.0)
    late.inner.step = 0
    assert (float(late.inner.v), late.inner.step) == (5.0, 3)
    status.assert_consumed()


def test_list_and_dict_filled_later_are_restored(tmp_path):
    saved = Checkpoint(v=[mirrax.Variable(5.0)], d={"a": [mirrax.Variable(6.0)]})
    path = saved.save(tmp_path / "ckpt")
    held = []
    late = Checkpoint(v=held, d={})
    status = late.restore(path)
    late.v.append(mirrax.Variable(0.0))
    late.d["a"] = []
    late.d["a"] += [mirrax.Variable(0.0)]
    assert (float(held[0]), float(late.d["a"][0])) == (5.0, 6.0)
    status.assert_consumed()
    assert type(copy.deepcopy(late.d)) is dict


def test_another_restore_replaces_what_waits(tmp_path):
    paths = [
        Checkpoint(v=[mirrax.Variable(value)]).save(tmp_path / f"ckpt{value}")
        for value in (1.0, 2.0)
    ]
    late = Checkpoint(v=[])
    for path in paths:
        late.restore(path)
    late.v.append(mirrax.Variable(0.0))
    assert float(late.v[0]) == 2.0


@pytest.mark.parametrize(
    "value",
    [
        object(),
        print,
        mirrax.data.Dataset.range(3),
        {"a": [object()]},
        np.array(["text"]),
        np.ma.array([1.0], mask=[True]),
    ],
    ids=["object", "function", "dataset", "nested", "texts", "masked"],
)
def test_object_that_cannot_be_saved_is_refused(value):
    with pytest.raises(CheckpointObjectError, match=r"Received: 'x(/a/0)?', a "):
        Checkpoint(x=value)


def test_what_waits_is_restored_before_a_save(tmp_path):
    path = Checkpoint(v={"a": 1, "b": 2}).save(tmp_path / "ckpt")
    late = Checkpoint(v={"a": 0})
    late.restore(path)
    late.v["b"] = 0
    again = Checkpoint(v={"a": 0, "b": 0})
    again.restore(late.save(tmp_path / "later"))
    assert again.v == {"a": 1, "b": 2}


def test_every_difference_is_in_one_error_and_nothing_is_restored(tmp_path):
    path = Checkpoint(
        a=mirrax.Variable([1.0]), b=mirrax.Variable(1.0), c=mirrax.Variable(1.0)
    ).save(tmp_path / "ckpt")
    fine = mirrax.Variable(0.0)
    other = Checkpoint(
        a=mirrax.Variable([0.0, 0.0]),
        b=mirrax.Variable(0),
        c=fine,
        d=mirrax.Variable(0.0),
    )
    with pytest.raises(CheckpointMismatchError) as caught:
        other.restore(path)
    message = str(caught.value)
    assert "'a' has shape (2,), but shape (1,) was saved" in message
    assert "'b' has dtype int32, but float32 was saved" in message
    assert "'d' was not saved" in message
    assert float(fine) == 0.0


def test_partial_restore_leaves_the_rest_alone(tmp_path):
    path = Checkpoint(a=mirrax.Variable(1.0)).save(tmp_path / "ckpt")
    new = mirrax.Variable(7.0)
    other = Checkpoint(a=mirrax.Variable(0.0), b=new)
    other.restore(path, partial=True).expect_partial()
    assert (float(other.a), float(new)) == (1.0, 7.0)


def test_save_counts_and_write_does_not(tmp_path):
    saved = Checkpoint(v=mirrax.Variable(1.0))
    assert saved.save(tmp_path / "ckpt") == str(tmp_path / "ckpt-1")
    assert saved.save(tmp_path / "ckpt") == str(tmp_path / "ckpt-2")
    assert saved.write(tmp_path / "other") == str(tmp_path / "other")
    assert saved.save_counter == 2
    restored = Checkpoint(v=mirrax.Variable(1.0))
    restored.restore(tmp_path / "ckpt-2")
    assert restored.save_counter == 2
    restored.read(tmp_path / "ckpt-1")
    assert restored.save_counter == 2


def test_restore_of_none_does_nothing():
    Checkpoint(v=mirrax.Variable(1.0)).restore(None)


def test_name_that_is_taken_is_refused():
    with pytest.raises(ValueError, match=r"name that is not taken.*'save'"):
        Checkpoint(save=mirrax.Variable(1.0))


def test_missing_checkpoint_says_where_to_look(tmp_path):
    with pytest.raises(FileNotFoundError, match="latest_checkpoint"):
        Checkpoint().restore(tmp_path / "ckpt-1")


def test_save_belongs_outside_of_run_and_function(tmp_path, two_replicas):
    saved = Checkpoint(v=mirrax.Variable(1.0))
    with pytest.raises(RuntimeError, match="cross-replica context"):
        two_replicas.run(lambda: saved.save(tmp_path / "ckpt"))
    with pytest.raises(RuntimeError, match=r"inside `mirrax.function`"):
        mirrax.function(lambda: saved.save(tmp_path / "ckpt"))()


@pytest.mark.parametrize("size", [3, 1 << 20], ids=["small", "large"])
def test_background_save_keeps_the_values_of_its_moment(tmp_path, two_replicas, size):
    mirrored, plain = create(two_replicas, jnp.zeros(size)), mirrax.Variable([0.0])
    saved = Checkpoint(v=mirrored, plain=plain, host=np.zeros(size, np.float32))
    path = saved.save(tmp_path / "ckpt", asynchronous=True)
    two_replicas.run(mirrax.function(lambda: mirrored.assign_add(jnp.ones(size))))
    mirrax.function(lambda: plain.assign_add([1.0]))()
    saved.host += 1
    saved.wait()
    saved.restore(path)
    assert not mirrored.numpy().any()
    assert not plain.numpy().any()
    assert not saved.host.any()


def test_save_after_an_interrupted_one_leaves_its_values_alone(tmp_path, monkeypatch):
    """Ctrl-C may come when the thread that writes has just started."""
    saved = Checkpoint(v=mirrax.Variable(jnp.zeros(3)))
    saved.write(tmp_path / "before", asynchronous=True)
    saved.wait()
    is_interrupted, has_copied = threading.Event(), threading.Event()

    def write(file, arrays, write=array_file.write):
        has_copied.wait(timeout=240)
        return write(file, arrays)

    def start(writer, *args, start=Writer.start):
        if is_interrupted.is_set():
            has_copied.set()
        start(writer, *args)
        if not is_interrupted.is_set():
            is_interrupted.set()
            raise KeyboardInterrupt

    monkeypatch.setattr(array_file, "write", write)
    monkeypatch.setattr(Writer, "start", start)
    saved.v.assign(jnp.ones(3))
    with pytest.raises(KeyboardInterrupt):
        saved.write(tmp_path / "interrupted", asynchronous=True)
    saved.v.assign(jnp.full(3, 2.0))
    saved.write(tmp_path / "after", asynchronous=True)
    saved.wait()
    for name, expected in (("interrupted", 1.0), ("after", 2.0)):
        saved.restore(tmp_path / name)
        assert saved.v.numpy().tolist() == [expected] * 3


def test_background_save_reads_other_checkpoints_in_the_background(
    tmp_path, monkeypatch
):
    run = Checkpoint(v=mirrax.Variable(1.0))
    run.save(tmp_path / "ckpt")
    readers = []

    def order_of(path, order_of=manifest.order_of):
        readers.append(threading.current_thread())
        return order_of(path)

    monkeypatch.setattr(manifest, "order_of", order_of)
    run.save(tmp_path / "ckpt", asynchronous=True)
    run.wait()
    assert readers
    assert threading.current_thread() not in readers


def test_save_needs_no_thread(tmp_path, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    run = Checkpoint(v=mirrax.Variable(jnp.ones(1 << 19)))
    with monkeypatch.context() as context:
        context.setattr("threading.Thread.start", refuse)
        path = run.save(tmp_path / "ckpt", asynchronous=True)
        run.wait()
    run.v.assign(jnp.zeros(1 << 19))
    run.restore(path)
    assert run.v.numpy().all()


def test_failed_background_save_is_raised_later(tmp_path, monkeypatch):
    saved = Checkpoint(v=mirrax.Variable(jnp.zeros(1 << 16)))
    saved.save(tmp_path / "ckpt", asynchronous=True)
    saved.wait()

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("pathlib.Path.rename", fail)
    monkeypatch.setattr("os.rename", fail)
    monkeypatch.setattr("os.replace", fail)
    saved.save(tmp_path / "ckpt", asynchronous=True)
    with pytest.raises(OSError, match="the disk is full"):
        saved.wait()


class Worker:
    """A worker of a job whose other workers say what the test wants."""

    num_workers = 2

    def __init__(self, index, answer):
        self.worker_index = index
        self.is_chief = index == 0
        self._answer = answer
        self.topics = []

    def exchange(self, topic, payload, timeout=None):
        self.topics.append(topic)
        return self._answer(topic, payload)


def test_only_the_chief_writes(tmp_path, monkeypatch):
    worker = Worker(1, lambda topic, payload: [payload, payload])
    monkeypatch.setattr(worker_sync, "current_peers", lambda: worker)
    Checkpoint(v=mirrax.Variable(1.0)).save(tmp_path / "ckpt")
    assert not list(tmp_path.iterdir())
    assert worker.topics == ["saving a checkpoint", "writing a checkpoint"]


@pytest.mark.parametrize("name", ["ckpt", "own"])
def test_directory_of_the_chief_counts_and_those_of_others_refer_to_it(
    tmp_path, monkeypatch, name
):
    old = Checkpoint(v=mirrax.Variable(2.0)).save(tmp_path / "temporary" / "old")
    chief = Checkpoint(v=mirrax.Variable(1.0)).save(tmp_path / "main" / "ckpt")

    def answer(topic, payload):
        first = json.loads(payload) if payload else None
        if isinstance(first, dict):
            first["directory"] = str(tmp_path / "main")
            if "path" in first:
                first["path"] = first["path"].replace(name, "ckpt")
            return [json.dumps(first).encode(), payload]
        return [payload, payload]

    monkeypatch.setattr(worker_sync, "current_peers", lambda: Worker(1, answer))
    own = Checkpoint(v=mirrax.Variable(0.0))
    path = own.save(tmp_path / "temporary" / name)
    assert path == str(tmp_path / "temporary" / f"{name}-1")
    own.restore(path).assert_consumed()
    assert float(own.v) == 1.0
    # Not for other programs, nor for a chief, which removes old checkpoints.
    assert latest_checkpoint(tmp_path / "temporary") == old
    for index, found in ((0, []), (1, [chief])):
        job = Worker(index, answer)
        monkeypatch.setattr(numbered_checkpoints, "current_job", lambda job=job: job)
        assert CheckpointManager(own, tmp_path / "temporary").checkpoints == found
    assert latest_checkpoint(tmp_path / "temporary") == chief


def test_other_save_of_the_same_name_on_a_worker_restores_nothing(
    tmp_path, monkeypatch
):
    path = Checkpoint(v=mirrax.Variable(1.0)).save(tmp_path / "ckpt")

    def answer(topic, payload):
        other = json.loads(payload)
        if other.get("order"):
            other["order"] += 1
        return [payload, json.dumps(other).encode()]

    monkeypatch.setattr(worker_sync, "current_peers", lambda: Worker(0, answer))
    own = Checkpoint(v=mirrax.Variable(0.0))
    with pytest.raises(CheckpointMismatchError, match=r"another save.*workers share"):
        own.restore(path)
    assert float(own.v) == 0.0


@pytest.mark.parametrize("dtype", ["bool", "int4", "bfloat16", "float8_e5m2", "uint8"])
@pytest.mark.parametrize("shape", [(), (0, 2), (3, 5)])
def test_variables_keep_their_bits(tmp_path, strategy, dtype, shape):
    values = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    with strategy.scope():
        variable = mirrax.Variable(jnp.asarray(values))
    run = Checkpoint(v=variable)
    path = run.save(tmp_path / "ckpt")
    variable.assign(jnp.zeros_like(values))
    before = variable.stored.sharding, variable.stored.committed
    run.restore(path).assert_consumed()
    assert (variable.stored.sharding, variable.stored.committed) == before
    assert variable.dtype == np.dtype(dtype)
    assert variable.numpy().tobytes() == values.tobytes()
    strategy.run(mirrax.function(lambda: variable.assign(variable.value)))


def test_workers_that_save_different_things_are_told(tmp_path, monkeypatch):
    def answer(topic, payload):
        return [payload, payload.replace(b"ckpt-1", b"ckpt-9")]

    monkeypatch.setattr(worker_sync, "current_peers", lambda: Worker(0, answer))
    with pytest.raises(CheckpointMismatchError, match=r"worker 1 saves 'ckpt-9'"):
        Checkpoint(v=mirrax.Variable(1.0)).save(tmp_path / "ckpt")


def test_failure_of_the_chief_reaches_the_others(tmp_path, monkeypatch):
    def answer(topic, payload):
        return [b"OSError: full" if topic == "writing a checkpoint" else payload] * 2

    monkeypatch.setattr(worker_sync, "current_peers", lambda: Worker(1, answer))
    with pytest.raises(OSError, match=r"chief could not write.*OSError: full"):
        Checkpoint(v=mirrax.Variable(1.0)).save(tmp_path / "ckpt")


def make_file(path):
    path.write_text("mine")


def make_folder(path):
    path.mkdir()
    (path / "mine.txt").write_text("mine")


def make_link(path):
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make", [make_file, make_folder, make_link])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_nothing_but_a_checkpoint_is_replaced(tmp_path, make, asynchronous):
    path = tmp_path / "ckpt-1"
    make(path)
    before = sorted(tmp_path.rglob("*"))
    saved = Checkpoint(v=mirrax.Variable(1.0))
    with pytest.raises(
        CheckpointWriteError,
        match=r"nothing but another checkpoint.*Received: .*ckpt-1",
    ):
        saved.write(path, asynchronous=asynchronous)
    with pytest.raises(CheckpointWriteError, match="Choose another path"):
        saved.save(tmp_path / "ckpt", asynchronous=asynchronous)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("method", ["save", "write"])
def test_empty_path_is_refused(tmp_path, monkeypatch, method):
    monkeypatch.chdir(tmp_path)
    saved = Checkpoint(v=mirrax.Variable(1.0))
    with pytest.raises(ValueError, match=r"not empty. Received: ''"):
        getattr(saved, method)("")
    assert not list(tmp_path.iterdir())


def test_name_that_is_too_long_is_a_write_error(tmp_path):
    with pytest.raises(CheckpointWriteError, match="File name too long"):
        Checkpoint(v=1).save(tmp_path / ("n" * 300))


def test_prefix_may_be_bytes(tmp_path):
    path = Checkpoint(v=1).save(bytes(tmp_path / "ckpt"))
    assert path == str(tmp_path / "ckpt-1")


def test_checkpoint_replaces_another_one_and_leaves_the_rest(tmp_path):
    saved = Checkpoint(v=mirrax.Variable(1.0))
    path = tmp_path / "ckpt"
    saved.write(path)
    (path / "note.txt").write_text("mine")
    saved.v.assign(2.0)
    saved.write(path)
    saved.v.assign(0.0)
    saved.restore(path)
    assert float(saved.v) == 2.0
    assert (path / "note.txt").exists()
    assert len(list(path.glob("mirrax-arrays-*"))) == 1


def test_checkpoint_without_a_number_is_replaced_after_the_clock_was_set_back(
    tmp_path, monkeypatch
):
    saved = Checkpoint(v=1.0)
    saved.save(tmp_path / "ckpt")
    monkeypatch.setattr("time.time_ns", lambda: 1)
    for value in (2.0, 3.0):
        saved.v = value
        saved.write(tmp_path / "best")
    saved.restore(tmp_path / "best")
    assert saved.v == 3.0


@pytest.fixture
def small_disk():
    """No file can be longer than 64 KiB."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.fixture
def large(tmp_path):
    """A checkpoint that does not fit onto the small disk, and a smaller one there."""
    Checkpoint(v=3.0).write(tmp_path / "ckpt")
    return Checkpoint(v=np.random.default_rng(0).normal(size=1 << 15))


def require_old(tmp_path):
    old = Checkpoint(v=0.0)
    old.restore(tmp_path / "ckpt")
    assert old.v == 3.0
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt"]
    assert len(list((tmp_path / "ckpt").iterdir())) == 2


def test_save_without_room_leaves_the_old_one(tmp_path, large, small_disk):
    with pytest.raises(
        CheckpointWriteError, match=r"'.*ckpt'.*too large.*Free some space"
    ):
        large.write(tmp_path / "ckpt")
    require_old(tmp_path)


@pytest.mark.parametrize("then", ["wait", "save"])
def test_background_save_without_room_is_raised_later(
    tmp_path, large, small_disk, then
):
    large.write(tmp_path / "ckpt", asynchronous=True)
    raising = {"wait": large.wait, "save": lambda: large.save(tmp_path / "other")}
    with pytest.raises(
        CheckpointWriteError, match=r"'.*ckpt'.*too large.*Free some space"
    ):
        raising[then]()
    require_old(tmp_path)
    large.wait()


def test_save_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path in (f"{tmp_path}/file/ckpt", "/proc/ckpt"):
        with pytest.raises(CheckpointWriteError, match=f"Received: '{path}'"):
            Checkpoint(v=mirrax.Variable(1.0)).write(path)


def test_failed_write_in_the_background_reaches_the_others(tmp_path, monkeypatch):
    answers = [b"", b"OSError: full"]

    def answer(topic, payload):
        return [answers.pop(0) if topic == "writing a checkpoint" else payload] * 2

    monkeypatch.setattr(worker_sync, "current_peers", lambda: Worker(1, answer))
    saved = Checkpoint(v=mirrax.Variable(1.0))
    saved.save(tmp_path / "ckpt", asynchronous=True)
    with pytest.raises(CheckpointWriteError, match=r"chief could not write.*full"):
        saved.wait()


@pytest.mark.parametrize(
    "kind", [CheckpointDamagedError, CheckpointMismatchError, NotFoundError]
)
def test_what_one_worker_cannot_restore_nobody_restores(tmp_path, monkeypatch, kind):
    data = mirrax.data.Dataset.range(9)
    variable, iterator = mirrax.Variable(1.0), iter(data)
    next(iterator)
    path = Checkpoint(v=variable, data=iterator).save(tmp_path / "ckpt")
    variable.assign(0.0)

    def answer(topic, payload):
        other = {**json.loads(payload), "kind": kind.__name__, "problem": "why."}
        return [payload, json.dumps(other).encode()]

    monkeypatch.setattr(worker_sync, "current_peers", lambda: Worker(0, answer))
    fresh = iter(data)
    with pytest.raises(kind, match=r"worker\(?s?\)? \[?1"):
        Checkpoint(v=variable, data=fresh).restore(path)
    assert (float(variable), next(fresh)) == (0.0, 0)


def test_subclass_can_set_its_private_attributes_again():
    class Counting(mirrax.train.Checkpoint):
        _calls = 0

        def __init__(self):
            super().__init__()
            self._calls = 1
            self._calls += 1

    assert Counting()._calls == 2
