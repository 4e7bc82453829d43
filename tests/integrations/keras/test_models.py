"""Models of a strategy train as one device trains them."""

import concurrent.futures
import contextlib
import functools
import signal

import jax
import keras
import numpy as np
import pytest

import mirrax
from mirrax.train.checkpoints.folder_lock import locked
from tests.conftest import mirrored
from tests.devices.fresh import run_fresh
from tests.integrations.keras import interrupted, programs
from tests.quick_compiler import SETTINGS


@functools.cache
def on_one_device(name):
    return programs.experience(programs.build(name, programs.OPTIMIZERS[name]()))


def assert_same(found, expected):
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5),
        found,
        expected,
    )


@pytest.mark.parametrize(
    ("name", "num_replicas"),
    [
        pytest.param(name, count, marks=[] if quick else pytest.mark.slow)
        for name in programs.OPTIMIZERS
        for count in (1, 2, 4)
        for quick in [(name, count) == ("mlp", 4)]
    ],
)
def test_training_equals_one_device(name, num_replicas):
    with mirrored(num_replicas).scope():
        model = programs.build(name, programs.OPTIMIZERS[name]())
    assert_same(programs.experience(model), on_one_device(name))


def test_batches_of_all_sizes_equal_one_device():
    with mirrored(4).scope():
        model = programs.build("linear", "sgd")
    assert_same(
        programs.experience_of_batches(model),
        programs.experience_of_batches(programs.build("linear", "sgd")),
    )


def test_one_device_strategy_trains_on_its_device():
    with mirrax.OneDeviceStrategy("CPU:3").scope():
        model = programs.build("linear", "sgd")
    x, y = programs.data_for(model, rows=8)
    model.fit(x, y, verbose=0)
    assert model.weights[0].value.devices() == {jax.devices()[3]}


@pytest.fixture(scope="module")
def trained():
    """A model of two replicas, trained; shared by tests that only look at it."""
    strategy = mirrored(2)
    with strategy.scope():
        model = programs.build("mlp")
    x, y = programs.data_for(model, rows=24)
    model.fit(x, y, batch_size=8, verbose=0)
    return strategy, model, x, y


def test_variables_lie_on_every_replica(trained):
    strategy, model, _, _ = trained
    variables = [
        *model.variables,
        *model.optimizer.variables,
        *model.metrics_variables,
    ]
    assert {v.value.sharding for v in variables} == {strategy.topology.replicated}


def test_deferred_build_and_late_compile_inside_the_scope_are_the_same():
    strategy = mirrored(2)
    optimizer = keras.optimizers.SGD(0.1)
    with strategy.scope():
        model = keras.Sequential(programs.mlp()[1:])
    other = keras.Sequential(programs.mlp()[1:])
    model.compile(optimizer, programs.loss(), metrics=["accuracy"])
    other.compile(keras.optimizers.SGD(0.1), programs.loss(), metrics=["accuracy"])
    x, y = programs.data_for(programs.build("linear", "sgd"), rows=12)
    histories = []
    for each, scope in ((model, strategy.scope()), (other, contextlib.nullcontext())):
        each.layers[0].kernel_initializer = keras.initializers.GlorotUniform(3)
        each.layers[2].kernel_initializer = keras.initializers.GlorotUniform(4)
        each.layers[1].seed_generator.state.assign([5, 0])
        with scope:
            fitted = each.fit(x, y, batch_size=6, verbose=0, shuffle=False)
        histories.append(fitted.history)
    assert_same(*histories)
    assert optimizer.iterations.value.sharding == strategy.topology.replicated


def test_model_that_is_first_called_outside_the_scope_belongs_to_it():
    strategy = mirrored(2)
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(2)])
    model(np.ones((4, 3), "float32"))
    assert model.weights[0].value.sharding == strategy.topology.replicated


@pytest.mark.parametrize("train", ["fit", "train_on_batch"])
def test_model_outside_of_every_scope_is_untouched_with_a_warning(trained, train):
    model = programs.build("linear")
    x, y = programs.data_for(model, rows=8)
    rule = "on all replicas must be created in the scope of the strategy. Received: "
    with trained[0].scope(), pytest.warns(UserWarning, match=rule) as warned:
        getattr(model, train)(x, y)
    assert warned[0].filename == __file__
    assert model.weights[0].value.devices() == {jax.devices()[0]}
    assert "_mirrax_proxy" not in vars(model.weights[0])


@pytest.mark.slow
def test_without_a_strategy_keras_gives_the_bits_that_it_gives_alone():
    alone = run_fresh(
        "from tests.integrations.keras import programs\n"
        "print(programs.bits_of_training())\n"
        "import sys; assert 'mirrax' not in sys.modules",
        KERAS_BACKEND="jax",
        **SETTINGS,
    )
    assert programs.bits_of_training() == alone


def test_model_outside_may_train_while_another_trains(trained):
    _, model, x, y = trained
    other = programs.build("linear")

    class Trains(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            other.fit(x, y, verbose=0)

    model.fit(x, y, batch_size=8, verbose=0, callbacks=[Trains()])
    assert other.weights[0].value.devices() == {jax.devices()[0]}


def test_fit_in_a_replica_is_refused(trained):
    strategy, model, x, y = trained
    with pytest.raises(RuntimeError, match=r"`model\.fit` works on all replicas"):
        strategy.run(lambda: model.fit(x, y, verbose=0))


def test_model_of_another_strategy_is_refused(trained):
    _, model, x, y = trained
    with mirrored(4).scope():
        outer = keras.Sequential([keras.Input((6,)), model])
        outer.compile("sgd", programs.loss())
    with pytest.raises(ValueError, match="belongs to the strategy in whose scope"):
        outer.fit(x, y, verbose=0)


@pytest.mark.parametrize(
    "options", [{"steps_per_execution": 3}, {"run_eagerly": True}], ids=str
)
def test_way_of_running_does_not_change_the_result(options):
    histories = []
    for scope in (mirrored(2).scope(), contextlib.nullcontext()):
        with scope:
            model = programs.build("linear", "sgd", **options)
        x, y = programs.data_for(model, rows=7)
        keras.utils.set_random_seed(0)
        history = model.fit(x, y, batch_size=4, verbose=0).history
        histories.append((history, model.predict(x, batch_size=4, verbose=0)))
    assert_same(*histories)


def test_weights_of_classes_and_rows_are_the_same():
    results = []
    for scope in (mirrored(2).scope(), contextlib.nullcontext()):
        with scope:
            model = programs.build("linear", "sgd", weighted_metrics=["accuracy"])
        x, y = programs.data_for(model, rows=20)
        rows = np.linspace(0, 1, 20)
        keras.utils.set_random_seed(0)
        by_class = model.fit(
            x, y, batch_size=6, verbose=0, class_weight={0: 1, 1: 3, 2: 0.5}
        )
        by_row = model.fit(
            x, y, batch_size=6, verbose=0, sample_weight=rows, validation_split=0.2
        )
        results.append((by_class.history, by_row.history))
    assert_same(*results)


class FailingLayer(keras.layers.Dense):
    """A layer that fails while its second model is saved."""

    fails = False

    def save_own_variables(self, store):
        if self.fails:
            raise OSError("No space left on device")
        super().save_own_variables(store)


@pytest.mark.parametrize("name", ["save", "save_weights", "directory"])
def test_interrupted_save_leaves_the_former_files(name, tmp_path):
    model = keras.Sequential([keras.Input((2,)), FailingLayer(1)])
    path = tmp_path / {"save": "m.keras", "save_weights": "m.weights.h5"}.get(name, "m")

    def save():
        if name == "directory":
            model.save(path, zipped=False)
        else:
            getattr(model, name)(path)

    save()
    if name == "directory":
        (path / "assets" / "mine.txt").write_text("of the user")
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    model.set_weights([w + 1 for w in model.get_weights()])
    model.layers[0].fails = True
    with pytest.raises(OSError, match="No space"):
        save()
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == files
    assert list(tmp_path.iterdir()) == [path]
    model.layers[0].fails = False
    save()
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == {*files}


def test_save_removes_what_killed_ones_have_left_and_nothing_else(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    names = [".mirrax-unfinished-killed", ".mirrax-unfinished-running", ".partial-mine"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.keras").write_text("half")
    with locked(tmp_path / ".mirrax-unfinished-running", seconds=0):
        model.save(tmp_path / "m.keras")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".mirrax-unfinished-running", ".partial-mine", "m.keras"]


def test_refused_save_to_a_directory_changes_nothing(tmp_path, monkeypatch):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save(tmp_path, zipped=False)
    (tmp_path / "assets" / "mine.txt").write_text("of the user")
    monkeypatch.setattr("builtins.input", lambda *args: "n")
    model.save(tmp_path, overwrite=False, zipped=False)
    assert (tmp_path / "assets" / "mine.txt").read_text() == "of the user"


def test_save_replaces_what_a_link_refers_to(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    (tmp_path / "store").mkdir()
    link = tmp_path / "latest.keras"
    link.symlink_to("store/model.keras")
    model.save(link)
    assert link.is_symlink()
    assert (tmp_path / "store" / "model.keras").is_file()


def test_missing_folder_is_named_as_the_user_did(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(OSError, match=r"missing/m\.keras'"):
        model.save(tmp_path / "missing" / "m.keras")


def test_threads_may_save_to_one_path(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    path = tmp_path / "m.keras"
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: model.save(path), range(12)))
    assert list(tmp_path.iterdir()) == [path]
    keras.models.load_model(path)


def test_saved_model_is_loaded_into_the_scope(trained, tmp_path):
    strategy, model, x, _ = trained
    model.save(tmp_path / "model.keras")
    with strategy.scope():
        loaded = keras.models.load_model(tmp_path / "model.keras")
    alone = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.weights[0].value.sharding == strategy.topology.replicated
    assert alone.weights[0].value.devices() == {jax.devices()[0]}
    expected = model.predict(x, verbose=0)
    assert_same(loaded.predict(x, verbose=0), expected)
    assert_same(alone.predict(x, verbose=0), expected)
    assert_same(
        [np.asarray(v) for v in loaded.optimizer.variables],
        [np.asarray(v) for v in model.optimizer.variables],
    )


def test_callbacks_see_what_they_see_on_one_device(tmp_path):
    results = []
    for number, scope in enumerate((mirrored(2).scope(), contextlib.nullcontext())):
        folder = tmp_path / str(number)
        folder.mkdir()
        with scope:
            model = programs.build("linear", "sgd")
        x, y = programs.data_for(model, rows=20)
        keras.utils.set_random_seed(0)
        history = model.fit(
            x,
            y,
            batch_size=6,
            epochs=4,
            verbose=0,
            validation_split=0.3,
            callbacks=[
                keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True),
                keras.callbacks.ReduceLROnPlateau(patience=0, factor=0.5),
                keras.callbacks.ModelCheckpoint(
                    folder / "best.weights.h5", save_weights_only=True
                ),
                keras.callbacks.BackupAndRestore(folder / "backup"),
                keras.callbacks.CSVLogger(folder / "log.csv"),
            ],
        )
        rows = np.genfromtxt(folder / "log.csv", delimiter=",", skip_header=1)
        assert (folder / "best.weights.h5").exists()
        results.append((history.history, rows, model.get_weights()))
    assert_same(*results)


@pytest.mark.slow
def test_training_goes_on_where_a_killed_process_was(tmp_path):
    expected, weights = interrupted.train(str(tmp_path / "other"))
    run_fresh(
        "from tests.integrations.keras import interrupted\n"
        f"interrupted.train({str(tmp_path)!r}, killed_after=1)",
        expected_code=-signal.SIGKILL,
        KERAS_BACKEND="jax",
        **SETTINGS,
    )
    losses, resumed = interrupted.train(str(tmp_path))
    assert len(losses) == 2
    assert_same((losses, resumed), (expected[-2:], weights))


def test_sigterm_saves_a_backup_and_ends_the_program(tmp_path):
    with pytest.raises(SystemExit) as ended:
        interrupted.train(str(tmp_path), terminated_after=3)
    assert ended.value.code == 75
    saved = interrupted.load(str(tmp_path))
    # The second epoch starts again, with what its first batch has taught.
    assert saved == {"epoch": 1, "iterations": 3}
    losses, _ = interrupted.train(str(tmp_path))
    assert len(losses) == 3


def test_sigterm_after_the_last_batch_ends_the_program(tmp_path):
    with pytest.raises(SystemExit) as ended:
        interrupted.train(str(tmp_path), terminated_epoch=3)
    assert ended.value.code == 75
    assert interrupted.load(str(tmp_path)) == {"epoch": 4, "iterations": 8}
    losses, _ = interrupted.train(str(tmp_path))
    assert losses == []


def test_a_step_written_for_tensorflow_is_refused():
    # In a process of its own: `tf.keras` of `mirrax.tf` lets such steps run.
    output = run_fresh(
        """
        import numpy as np, mirrax, keras
        from tests.integrations.keras.programs import StepOfTensorFlow

        with mirrax.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
            model = StepOfTensorFlow()
            model.compile("sgd", "mse")
        try:
            model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
        except TypeError as error:
            print(error)
        """
    )
    assert "`train_step(self, state, data)`" in output
    assert "Received: StepOfTensorFlow.train_step" in output
