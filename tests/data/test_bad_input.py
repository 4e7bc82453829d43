"""What is wrong with data or arguments is said clearly, where it is met."""

import gc
import signal
import threading
import time

import numpy as np
import pytest

import mirrax
from mirrax.data import (
    Dataset,
    Options,
    TextLineDataset,
    TFRecordDataset,
    TFRecordWriter,
)
from mirrax.errors import DataLossError, InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec
from tests.data.plans import through_json

NUMBERS = Dataset.range(4)
PAIRS = Dataset.zip(NUMBERS, NUMBERS)
VECTOR = TensorSpec((None,), np.int64)


def generated(*elements, spec=VECTOR):
    return Dataset.from_generator(lambda: iter(elements), spec)


def raising(x):
    if int(x) == 2:
        raise KeyError("gone")
    return x


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: NUMBERS.batch(0), ValueError, "`batch_size` must be at least 1"),
        (lambda: NUMBERS.batch(2.5), TypeError, "`batch_size` must be an integer"),
        (lambda: NUMBERS.batch("2"), TypeError, "`batch_size` must be an integer"),
        (lambda: NUMBERS.padded_batch(0), ValueError, "`batch_size`"),
        (lambda: NUMBERS.shuffle(1.5), TypeError, "`buffer_size` must be an integer"),
        (lambda: NUMBERS.repeat(-2), ValueError, "`count` must be at least 0"),
        (lambda: NUMBERS.take(-2), ValueError, "`count` must be at least 0"),
        (lambda: NUMBERS.skip(-2), ValueError, "`count` must be at least 0"),
        (lambda: NUMBERS.prefetch(-2), ValueError, "`buffer_size` must be at least 0"),
        (lambda: NUMBERS.window(2, shift=-1), ValueError, "`shift` must be at least 1"),
        (lambda: NUMBERS.window(2, stride=0), ValueError, "`stride` must be at least"),
        (lambda: NUMBERS.concatenate([1]), TypeError, "`concatenate` must give"),
        (lambda: NUMBERS.with_options({}), TypeError, "`options` must be"),
        (Dataset.zip, TypeError, "`zip` takes datasets"),
        (lambda: Dataset.zip(NUMBERS, [1]), TypeError, r"\['Dataset', 'int'\]"),
        (lambda: generated(spec=np.int64), TypeError, "`output_signature` must be"),
        (lambda: generated(spec=None), TypeError, "`output_signature` must be"),
        (lambda: Dataset.from_tensor_slices([[1], [2, 3]]), ValueError, "same length"),
        (lambda: Dataset.from_tensors([[1], [2, 3]]), ValueError, "same length"),
    ],
    ids=[
        "no batch size",
        "float",
        "text",
        "padded",
        "buffer",
        "repeat",
        "take",
        "skip",
        "prefetch",
        "shift",
        "stride",
        "concatenate",
        "options",
        "zip of nothing",
        "zip of lists",
        "signature",
        "no signature",
        "ragged list",
        "ragged element",
    ],
)
def test_a_wrong_argument_is_refused_at_once(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        (NUMBERS.map(lambda x: None), InvalidArgumentError, "must return arrays"),
        (
            NUMBERS.map(lambda x: (x, x) if x % 2 else x).batch(2),
            InvalidArgumentError,
            "the same structure for every element",
        ),
        (
            NUMBERS.batch(2).filter(lambda x: x > 0),
            InvalidArgumentError,
            "must return one truth value",
        ),
        (NUMBERS.flat_map(lambda x: x), TypeError, "must give a `mirrax.data.Dataset`"),
        (NUMBERS.unbatch(), InvalidArgumentError, "an element with a scalar"),
        (NUMBERS.rebatch(2), InvalidArgumentError, "an element with a scalar"),
        (
            NUMBERS.concatenate(PAIRS),
            InvalidArgumentError,
            "elements of the same structure",
        ),
        (
            NUMBERS.concatenate(Dataset.from_tensor_slices([0.5])).batch(8),
            InvalidArgumentError,
            r"float32\[\], int64\[\]",
        ),
        (
            generated([1], [1, 2]).batch(2),
            InvalidArgumentError,
            r"int64\[1\], int64\[2\]. Use `padded_batch`",
        ),
        (
            Dataset.range(2)
            .map(lambda x: np.ones(2) if x == 0 else np.ones(2, int))
            .padded_batch(2),
            InvalidArgumentError,
            r"float64\[2\], int64\[2\]",
        ),
        (
            generated([1]).padded_batch(1, padded_shapes=(3, 3)),
            InvalidArgumentError,
            "a size for each dimension",
        ),
        (
            Dataset.from_generator(lambda: 5, TensorSpec(())),
            TypeError,
            "not iterable",
        ),
    ],
    ids=[
        "map to nothing",
        "changing structure",
        "array as truth",
        "no dataset",
        "unbatch",
        "rebatch",
        "structures",
        "dtypes",
        "ragged",
        "padded dtypes",
        "padded shapes",
        "no iterable",
    ],
)
def test_a_wrong_element_is_an_error_that_says_so(dataset, error, message):
    with pytest.raises(error, match=message):
        list(dataset)


@pytest.mark.parametrize(
    ("dataset", "operation"),
    [
        (NUMBERS.map(raising), "map"),
        (NUMBERS.filter(raising), "filter"),
        (NUMBERS.flat_map(lambda x: raising(x) or NUMBERS.take(0)), "flat_map"),
    ],
    ids=["map", "filter", "flat_map"],
)
def test_a_function_that_raises_is_named_with_its_element(dataset, operation):
    with pytest.raises((KeyError, TypeError)) as caught:
        list(dataset)
    (note,) = caught.value.__notes__
    assert f"`{operation}`, at element" in note


def refuse_five(x):
    if int(x) == 5:
        raise LookupError("five")
    return x + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda source: source.map(refuse_five),
        lambda source: source.filter(refuse_five),
        lambda source: source.map(refuse_five).batch(4),
        lambda source: source.map(refuse_five).batch(2).rebatch(3),
        lambda source: source.map(refuse_five).batch(4).prefetch(2),
        lambda source: source.map(refuse_five).shuffle(3, seed=0),
        lambda source: source.map(refuse_five, num_parallel_calls=2),
    ],
    ids=["map", "filter", "batch", "rebatch", "prefetch", "shuffle", "parallel"],
)
def test_an_error_is_raised_again_also_from_its_saved_position(make):
    iterator = iter(make(Dataset.range(12)))
    with pytest.raises(LookupError, match="five"):
        list(iterator)
    with pytest.raises(LookupError, match="five"):
        next(iterator)
    restored = iter(make(Dataset.range(12)))
    restored.restore_state(through_json(iterator.save_state()))
    with pytest.raises(LookupError, match="five"):
        list(restored)


def test_what_comes_before_an_error_in_filter_arrives():
    filtered = Dataset.range(9).filter(lambda x: raising(x) >= 0)
    iterator = iter(filtered.shuffle(1, seed=1))
    assert [int(next(iterator)) for _ in range(2)] == [0, 1]
    with pytest.raises(KeyError, match="gone"):
        next(iterator)


def test_a_cache_that_cannot_be_written_is_refused_before_reading(tmp_path):
    read = []
    numbers = NUMBERS.filter(lambda x: read.append(1) or True)
    with pytest.raises(FileNotFoundError, match="folder of a cache must exist"):
        list(numbers.cache(str(tmp_path / "no" / "cache")))
    assert read == []


def test_a_damaged_cache_is_named(tmp_path):
    (tmp_path / "kept").write_bytes(b"garbage")
    with pytest.raises(DataLossError, match=r"kept.*Delete it"):
        list(NUMBERS.cache(str(tmp_path / "kept")))


@pytest.mark.parametrize("name", ["FILE", "file"])
def test_a_policy_may_be_given_by_its_name(name):
    options = Options()
    options.experimental_distribute.auto_shard_policy = name
    assert options.experimental_distribute.auto_shard_policy is (
        mirrax.data.AutoShardPolicy.FILE
    )


def test_a_policy_that_is_none_is_refused():
    with pytest.raises(ValueError, match="OFF, AUTO, FILE, DATA, HINT"):
        Options().experimental_distribute.auto_shard_policy = "FILES"


def test_something_else_is_no_position():
    with pytest.raises(ValueError, match="must come from `save_state`"):
        iter(NUMBERS).restore_state("here")


# In a distributed dataset, where another thread meets the error.


def lines(folder, count=12):
    path = folder / "lines"
    path.write_text("".join(f"{i}\n" for i in range(count)))
    return str(path)


def truncated_records(folder):
    path = str(folder / "records")
    with TFRecordWriter(path) as writer:
        for i in range(12):
            writer.write(b"%d" % (i % 10))
    with open(path, "r+b") as file:
        file.truncate(8 * 17 + 5)
    return path


def fail_late(x):
    if int(x) == 8:
        raise KeyError("gone")
    return int(x)


def generate_and_fail():
    yield from range(8)
    raise OSError("the disk is gone")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda folder: TFRecordDataset(truncated_records(folder)), DataLossError),
        (lambda folder: TextLineDataset(lines(folder)).map(fail_late), KeyError),
        (
            lambda folder: TextLineDataset(lines(folder)).map(
                fail_late, num_parallel_calls=3
            ),
            KeyError,
        ),
        (
            lambda folder: Dataset.from_generator(
                generate_and_fail, TensorSpec((), np.int64)
            ),
            OSError,
        ),
    ],
    ids=["truncated", "map", "threads", "generator"],
)
def test_nothing_is_lost_before_an_error_and_no_thread_is_left(
    two_replicas, tmp_path, make, error
):
    dataset = make(tmp_path).batch(4)
    iterator = iter(two_replicas.experimental_distribute_dataset(dataset))
    sizes = [len(part) for _ in range(2) for part in next(iterator).values]
    assert sizes == [2, 2, 2, 2]
    for _ in range(2):
        with pytest.raises(error):
            next(iterator)
    for thread in threading.enumerate():
        if thread.name.startswith("mirrax"):
            thread.join(60)
            assert not thread.is_alive()


@pytest.mark.parametrize(
    "make",
    [
        lambda slow: Dataset.range(99).map(slow),
        lambda slow: Dataset.range(99).map(slow, num_parallel_calls=3),
    ],
    ids=["one", "threads"],
)
@pytest.mark.parametrize("is_distributed", [False, True], ids=["plain", "distributed"])
def test_an_interrupt_reaches_who_waits_and_leaves_no_thread(
    two_replicas, make, is_distributed
):
    is_waiting = threading.Event()
    is_asked_for = threading.Event()
    is_over = threading.Event()

    def slow(x):
        if int(x) >= 4:
            is_waiting.set()
            is_over.wait(120)
        return int(x)

    def interrupt():
        assert is_waiting.wait(120)
        assert is_asked_for.wait(120)
        # A signal just before a thread waits is noticed only when the wait ends.
        time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def ask(iterator):
        is_asked_for.set()
        next(iterator)

    data = make(slow).batch(4)
    if is_distributed:
        data = two_replicas.experimental_distribute_dataset(data)
    iterator = iter(data)
    thread = threading.Thread(target=interrupt)
    thread.start()
    first = next(iterator)
    with pytest.raises(KeyboardInterrupt):
        ask(iterator)
    thread.join()
    is_over.set()
    assert first is not None
    del iterator, data
    gc.collect()
    for other in threading.enumerate():
        if other.name.startswith("mirrax"):
            other.join(60)
            assert not other.is_alive()
