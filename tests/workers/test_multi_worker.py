"""MultiWorkerMirroredStrategy in real processes."""

import functools

import jax
import numpy as np
import pytest

import mirrax
from mirrax.testing import launch_processes
from tests.workers import programs, sharded


@functools.cache
def launch(program, workers, devices):
    """Returns what each worker answers, or why the job failed: asked only once."""
    try:
        return launch_processes(program, workers, devices=devices)
    except pytest.fail.Exception as failure:
        return failure


def answers_of(name, workers, devices):
    program = getattr(programs, name)
    is_shared = program in programs.SHARED and workers == 2
    found = launch(programs.answer_all if is_shared else program, workers, devices)
    if isinstance(found, pytest.fail.Exception):
        raise found
    return [answer[name] for answer in found] if is_shared else found


@functools.cache
def train_here():
    """Returns what training gives in this process alone."""
    return programs.train()


@pytest.fixture(
    params=[
        pytest.param((2, 1), id="2x1", marks=pytest.mark.slow),
        pytest.param((2, 2), id="2x2"),
    ]
)
def shape(request):
    return request.param


def test_without_a_cluster_there_is_one_worker():
    strategy = mirrax.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == 1
    assert strategy.cluster_resolver.cluster_spec().as_dict() == {}
    assert strategy.is_chief


def test_first_worker_is_the_chief(shape):
    assert answers_of("chief", *shape) == [(True, "0"), (False, "1")]


def test_workers_keep_freed_memory(shape):
    # 20 buffers have 4,000 pages.
    assert max(answers_of("page_faults", *shape)) < 1000


def test_variables_start_with_the_value_of_the_first_worker(shape):
    for answer in answers_of("variables", *shape):
        assert answer["initial"] == 3.0
        assert answer["key"] == answers_of("variables", *shape)[0]["key"]


@pytest.mark.parametrize("engine", ["eager", "compiled"])
def test_writes_are_aggregated_over_all_workers(shape, engine):
    count = shape[0] * shape[1]
    total = count * (count + 1) / 2
    rounds = {"eager": 1, "compiled": 2}[engine]
    for answer in answers_of("variables", *shape):
        assert answer[engine] == {
            "SUM": total,
            "MEAN": total / count,
            "ONLY_FIRST_REPLICA": 1.0,
            "summed": count + rounds * total,
            "chosen": 10.0,
        }


def test_workers_cannot_assign_different_values(shape):
    for answer in answers_of("variables", *shape):
        for case in ("unequal_assign", "unequal_write"):
            kind, text = answer[case]
            assert kind == "ValueError"
            assert "each must assign the same value" in text
        assert answer["still_usable"] == [7.0] * shape[1]


@pytest.mark.parametrize("engine", ["eager", "compiled"])
def test_collectives_reach_all_workers(shape, engine):
    workers, devices = shape
    count = workers * devices
    numbers = np.arange(1.0, count + 1)
    for worker, answer in enumerate(answers_of("collectives", *shape)):
        own = numbers[worker * devices : (worker + 1) * devices]
        assert [part["own"] for part in answer[engine]] == own.tolist()
        for part in answer[engine]:
            assert part["sum"] == numbers.sum()
            assert part["mean"] == [
                10 * numbers.mean(),
                [numbers.mean(), 2 * numbers.mean()],
            ]
            assert part["gathered"] == numbers.tolist()
            assert part["merged"] == count
            assert part["scaled"] == 2 * numbers.sum()
            assert part["by_worker"] == devices * sum(range(workers))
        assert answer[f"{engine}_reduced"] == numbers.sum()
        scales = np.repeat(np.arange(workers), devices)
        assert set(answer[f"{engine}_own_scale"]) == {(numbers * scales).sum()}


def test_a_repeated_step_takes_few_python_calls_and_still_compares_numbers(shape):
    workers, devices = shape
    count = workers * devices
    # Four steps with batches of three rows, then two with the worker's number.
    after_batches = 4 * 3 * sum(range(count))
    step = devices * sum(range(workers))
    for counts, total, varied in answers_of("count_calls_of_a_step", *shape):
        # Others compare the order of programs as well.
        assert min(counts) <= 30
        assert total == after_batches + 2 * step
        assert varied == [after_batches + step, after_batches + 2 * step]


def test_gather_and_reduce_see_the_parts_of_all_workers(shape):
    count = shape[0] * shape[1]
    uneven = [i for replica in range(count) for i in range(2 + replica % 2)]
    for answer in answers_of("collectives", *shape):
        assert answer["gather"] == [[i, i] for i in range(count)]
        assert answer["gather_columns"] == [[i for i in range(count) for _ in (0, 1)]]
        assert answer["gather_uneven"] == uneven
        assert answer["mean_uneven"] == pytest.approx(np.mean(uneven))
        kind, text = answer["unequal"]
        assert kind == "InvalidArgumentError"
        assert "replica 1: float32[3]" in text


def test_a_worker_sees_its_own_devices_and_whether_it_is_the_first(shape):
    for worker, answer in enumerate(answers_of("collectives", *shape)):
        assert answer["devices"] == [
            f"/job:worker/replica:0/task:{worker}/device:CPU:{i}"
            for i in range(shape[1])
        ]
        assert answer["chief"] == (worker == 0)


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        ("program", "ProgramMismatch", "worker 0 has `v1:float32[] = cos v0"),
        ("constant_in_a_loop", "ProgramMismatch", "inside a loop or a branch"),
        ("argument", "ValueError", "must be the same on all workers"),
        ("dataset", "ProgramMismatch", "the same dataset. Received: worker 0: 2 x"),
    ],
)
def test_what_workers_do_differently_is_an_error_on_all(case, kind, text):
    for answer in answers_of("mismatches", 2, 2):
        found, message = answer[case]
        assert found == kind
        assert text in message
        assert answer["after"] == 5.0


def test_arrays_that_differ_between_workers_are_warned_of():
    for answer in answers_of("mismatches", 2, 2):
        (text,) = answer["arrays"]
        assert text.startswith("All workers should distribute the same arrays")


@pytest.mark.slow
def test_collectives_that_differ_are_an_error_on_all():
    for kind, text in answers_of("eager_mismatch", 2, 1):
        assert kind == "ProgramMismatch"
        assert "reduce SUM" in text
        assert "reduce MEAN" in text


@pytest.mark.slow
def test_variable_that_one_worker_reads_alone_is_named():
    for kind, text in answers_of("read_on_one", 2, 1):
        assert kind == "ProgramMismatch"
        assert "worker 0 ran read of hits:0 (ON_READ: all workers read it" in text
        assert "or a read that combines replicas, depend on the worker" in text


def test_functions_around_run_take_values_of_workers_own(shape):
    count = shape[0] * shape[1]
    for answer in answers_of("own_values", *shape):
        assert answer["even"] == answer["even_again"] == 6.0 * sum(range(count + 1))
        assert answer["uneven"] == 3.0 * sum(range(count + 1))
        assert not any("uneven" in topic for topic in answer["uneven_topics"])
        assert answer["uneven_loop"] == 2 * answer["uneven"]
        assert answer["uneven_branch"] == count * count + 100 * (count - 1)
        assert answer["scaled"] == 2.0 * answer["even"]
        kind, text = answer["state"]
        assert kind == "ValueError"
        assert "must start with the same" in text


def test_workers_refuse_an_array_that_was_donated(shape):
    for answer in answers_of("own_values", *shape):
        kind, text = answer["donated"]
        assert kind == "RuntimeError"
        assert "donated to an earlier call" in text


def test_functions_close_over_values_of_workers_own(shape):
    count = shape[0] * shape[1]
    numbers = np.arange(1.0, count + 1)
    rows = {"uneven": np.ones(int(numbers.sum()))}
    for answer in answers_of("own_values", *shape):
        for name, found in answer["closed_over"].items():
            expected = rows.get(name, np.repeat(numbers, 2))
            assert found["gathered"] == found["returned"] == expected.tolist(), name
            assert found["run"] == (-expected).tolist(), name
            assert found["reduced"] == found["merged"] == expected.sum(), name
            assert found["merged_in_run"] in (expected.sum(), [expected.sum()] * 2)
            assert found.get("all_reduced", [numbers.sum()] * 2) == [numbers.sum()] * 2
            for way in ("made_inside", "returned_by_merge"):
                assert found[way] == 2 * numbers.sum(), way


def test_derivatives_combine_the_parts_of_all_workers(shape):
    numbers = np.arange(1.0, shape[0] * shape[1] + 1)
    for answer in answers_of("own_values", *shape):
        for name, found in answer["closed_over"].items():
            total = numbers.sum() if name == "uneven" else 2 * numbers.sum()
            for way in ("derivative", "eager_derivative", "jax_derivative", "taped"):
                assert found[way] == [2 * total, total], (name, way)


def test_jit_does_not_combine_the_parts_of_its_own_worker(shape):
    for answer in answers_of("own_values", *shape):
        for found in answer["closed_over"].values():
            kind, text = found["in_jit"]
            assert kind == "RuntimeError"
            assert "Give the value as an argument to a `@mirrax.function`" in text


def test_random_keys_are_values_like_others(shape):
    workers, devices = shape
    count = workers * devices

    def number(key):
        return int(jax.random.key_data(key)[-1]) // 64

    same = jax.random.key(7)
    split = [jax.random.split(same, 1 + i) for i in range(count)]
    following = jax.random.split(same)[0]
    own = devices * sum(number(jax.random.key(i)) for i in range(workers))
    folded = sum(number(jax.random.fold_in(same, i)) for i in range(count))
    for answer in answers_of("own_values", *shape):
        found, gathered = answer["keys"]
        assert found == {
            "argument": count * number(same),
            "own_argument": own,
            "closed_over": count * number(same),
            "own_closed_over": own,
            "returned": count * number(following) % 2**32,
            "of_replicas": folded % 2**32,
            "uneven": sum(number(keys[-1]) for keys in split) % 2**32,
            "with_uneven": count * number(same),
            "variable": count * number(following) % 2**32,
        }
        expected = np.concatenate([jax.random.key_data(keys) for keys in split])
        assert gathered["uneven"] == expected.tolist()
        assert gathered["even"] == jax.random.key_data(split[1]).tolist() * count


@pytest.mark.slow
def test_loader_that_shuffles_in_another_way_on_each_worker_is_found_out():
    for common, (kind, text) in answers_of("unseeded_loader", 2, 1):
        assert common == ("nothing", "")
        assert kind == "ProgramMismatch"
        assert "batch 1 has the checksum" in text
        assert "`strategy.distribute_datasets_from_function`" in text


@pytest.mark.slow
def test_known_programs_in_another_order_are_found_out():
    for kind, text in answers_of("other_order", 2, 1):
        assert kind == "ProgramMismatch"
        assert "as number 3 worker 0 ran add_up" in text
        assert "worker 1 ran average" in text


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((1, 2), id="1x2", marks=pytest.mark.slow),
        pytest.param((2, 1), id="2x1", marks=pytest.mark.slow),
        pytest.param((2, 2), id="2x2"),
        pytest.param((4, 1), id="4x1", marks=pytest.mark.slow),
    ],
)
def test_training_gives_the_same_on_any_number_of_workers(shape):
    expected = train_here()
    for losses, weights, bias in answers_of("train", *shape):
        np.testing.assert_allclose(losses, expected[0], rtol=1e-5)
        np.testing.assert_allclose(weights, expected[1], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(bias, expected[2], rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_workers_with_sharded_state_train_as_one_process_does(tmp_path):
    args = (str(tmp_path / "saved"),)
    answers = launch_processes(sharded.train_on_workers, 2, args, devices=2)
    devices = [f"CPU:{i}" for i in range(4)]
    mirrored = mirrax.MirroredStrategy(devices)
    expected = sharded.whole_values(*sharded.train(mirrored))
    for sizes, trained, restored in answers:
        assert sizes == [(3, 6), (3, 6)]
        assert trained == restored
        jax.tree.map(
            lambda one, other: np.testing.assert_allclose(one, other, 1e-5, 1e-6),
            trained,
            expected,
        )
