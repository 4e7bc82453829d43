"""Several workers share a dataset: nothing is lost, whoever goes on."""

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import AutoShardPolicy, Dataset, TextLineDataset
from mirrax.input.batch_rows import Share, share_of
from tests.conftest import mirrored
from tests.data.plans import quick
from tests.input.several import (
    open_feeds,
    restore,
    rows_of,
    save,
    take_all,
    take_step,
)

EXPECTED = pathlib.Path(__file__).parent.parent / "conformance" / "expected_mw"
DATA, FILE, OFF = AutoShardPolicy.DATA, AutoShardPolicy.FILE, AutoShardPolicy.OFF
AUTO = AutoShardPolicy.AUTO
workers = st.integers(1, 5)
replicas = st.integers(1, 3)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Seven files of lines: file `i` has `3 * i` of them."""
    folder = tmp_path_factory.mktemp("files")
    for i in range(7):
        (folder / str(i)).write_text("".join(f"{i}.{j}\n" for j in range(3 * i)))
    return [str(folder / str(i)) for i in range(7)]


LINES = sorted(f"{i}.{j}".encode() for i in range(7) for j in range(3 * i))


def recorded(case):
    """Returns what workers of TensorFlow get: the cluster's size, and their answers."""
    clusters = json.loads((EXPECTED / f"{case}.json").read_text())["clusters"]
    return [
        (c["cluster"]["worker"], [answer for _, answer in sorted(c["tasks"].items())])
        for c in clusters
    ]


def as_text(steps):
    return [[[x.decode() for x in part] for part in parts] for parts in steps]


def by_worker(steps, count):
    return [[step[i] for step in steps] for i in range(count)]


# As in TensorFlow.


@pytest.mark.parametrize(("count", "answers"), recorded("06_autoshard_data"))
@pytest.mark.parametrize("policy", [AUTO, DATA], ids=lambda policy: policy.name)
@pytest.mark.parametrize("total", [12, 14, 7])
def test_workers_share_data_as_recorded(count, answers, policy, total):
    feeds = open_feeds(lambda: Dataset.range(total).batch(6), policy, count)
    found = by_worker(take_all(feeds), count)
    assert found == [answer[f"{policy.name} {total}"] for answer in answers]


@pytest.mark.parametrize(
    ("count", "answers"), recorded("07_autoshard_data_uneven_batch")
)
@pytest.mark.parametrize(
    ("total", "size", "drop"), [(10, 5, False), (3, 1, False), (13, 6, True)]
)
def test_workers_share_uneven_data_as_recorded(count, answers, total, size, drop):
    def make():
        return Dataset.range(total).batch(size, drop_remainder=drop)

    found = by_worker(take_all(open_feeds(make, AUTO, count)), count)
    assert found == [answer[f"{total} {size} {drop}"] for answer in answers]


@pytest.mark.parametrize(("count", "answers"), recorded("10_autoshard_file_uneven"))
def test_workers_share_files_as_recorded(tmp_path, count, answers):
    for i in range(5):
        lines = "".join(f"{i}.{j}\n" for j in range(i + 1))
        (tmp_path / f"{i}.txt").write_text(lines)
    names = sorted(str(path) for path in tmp_path.iterdir())
    feeds = open_feeds(lambda: TextLineDataset(names).batch(6), AUTO, count)
    found = by_worker(take_all(feeds), count)
    assert [as_text(steps) for steps in found] == answers


@pytest.mark.parametrize(
    ("count", "answers"), recorded("11_autoshard_fewer_files_than_workers")
)
@pytest.mark.parametrize("policy", [DATA, OFF], ids=lambda policy: policy.name)
def test_workers_share_one_file_as_recorded(tmp_path, count, answers, policy):
    (tmp_path / "a").write_text("".join(f"{i}\n" for i in range(6)))
    feeds = open_feeds(
        lambda: TextLineDataset(str(tmp_path / "a")).batch(6), policy, count
    )
    found = by_worker(take_all(feeds), count)
    assert [as_text(steps) for steps in found] == [a[policy.name] for a in answers]


# Nothing is lost or doubled.


@quick
@given(st.integers(0, 64), st.integers(1, 9), workers, replicas)
def test_workers_together_get_every_example_once(count, size, workers, replicas):
    def make():
        return Dataset.range(count).shuffle(7, seed=1).batch(size)

    steps = take_all(open_feeds(make, DATA, workers, replicas))
    assert rows_of(steps) == [int(x) for x in make().unbatch()]
    assert len(steps) == -(-count // size)


@quick
@given(st.integers(0, 40), st.integers(1, 9), workers, replicas)
def test_the_same_rows_go_to_a_replica_wherever_it_runs(count, size, workers, replicas):
    def make():
        return Dataset.range(count).batch(size)

    apart = take_all(open_feeds(make, DATA, workers, replicas))
    together = take_all(open_feeds(make, DATA, 1, workers * replicas))
    assert [[part for parts in step for part in parts] for step in apart] == [
        step[0] for step in together
    ]


@quick
@given(st.integers(1, 9), workers, replicas)
def test_workers_together_get_every_line_once(files, size, workers, replicas):
    feeds = open_feeds(
        lambda: TextLineDataset(files).batch(size), FILE, workers, replicas
    )
    assert sorted(rows_of(take_all(feeds))) == LINES


@quick
@given(st.integers(0, 30), st.integers(1, 9), workers, replicas)
def test_each_worker_gets_every_example_without_sharding(
    count, size, workers, replicas
):
    feeds = open_feeds(lambda: Dataset.range(count).batch(size), OFF, workers, replicas)
    for steps in by_worker(take_all(feeds), workers):
        assert rows_of([[parts] for parts in steps]) == list(range(count))


@quick
@given(workers, replicas)
def test_batches_of_unknown_size_are_shared(files, workers, replicas):
    def make():
        return TextLineDataset(files).batch(4).map(lambda x: x).rebatch([3, 5, 1])

    feeds = open_feeds(make, FILE, workers, replicas)
    assert sorted(rows_of(take_all(feeds))) == LINES


# Positions.


def rest_after(make, policy, steps, before, after):
    """Returns what is left after some steps, of those who saved and who go on."""
    feeds = open_feeds(make, policy, *before)
    for _ in range(steps):
        take_step(feeds)
    states = save(feeds)
    others = open_feeds(make, policy, *after)
    restore(others, states)
    return rows_of(take_all(feeds)), rows_of(take_all(others))


@quick
@given(
    count=st.integers(0, 64),
    size=st.integers(1, 9),
    steps=st.integers(0, 12),
    before=st.tuples(workers, replicas),
    after=st.tuples(workers, replicas),
)
def test_another_number_of_workers_goes_on_in_the_same_order(
    count, size, steps, before, after
):
    def make():
        return Dataset.range(count).shuffle(count + 1, seed=3).repeat(2).batch(size)

    rest, others = rest_after(make, DATA, steps, before, after)
    assert others == rest


@quick
@given(
    size=st.integers(1, 9),
    steps=st.integers(0, 12),
    before=st.tuples(workers, replicas),
    after=st.tuples(workers, replicas),
    shuffle=st.booleans(),
)
def test_another_number_of_workers_reads_the_rest_of_the_files(
    files, size, steps, before, after, shuffle
):
    def make():
        lines = TextLineDataset(files)
        return (lines.shuffle(5, seed=1) if shuffle else lines).batch(size)

    rest, others = rest_after(make, FILE, steps, before, after)
    assert sorted(others) == sorted(rest)


@quick
@given(
    steps=st.lists(st.integers(0, 4), min_size=3, max_size=3),
    sizes=st.lists(workers, min_size=3, max_size=3),
)
def test_the_number_of_workers_may_change_again_and_again(files, steps, sizes):
    def make():
        return TextLineDataset(files).batch(4)

    feeds = open_feeds(make, FILE, sizes[0])
    seen = []
    for number, count in zip(steps, sizes, strict=True):
        states = save(feeds)
        feeds = open_feeds(make, FILE, count)
        restore(feeds, states)
        seen += [step for _ in range(number) if (step := take_step(feeds))]
    assert sorted(rows_of(seen) + rows_of(take_all(feeds))) == LINES


@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_endless_files_leave_no_file_out_on_another_number_of_workers(files, after):
    def make():
        return TextLineDataset(files).repeat().batch(4)

    feeds = open_feeds(make, FILE, 3)
    take_step(feeds)
    others = open_feeds(make, FILE, after)
    restore(others, save(feeds))
    seen = rows_of([take_step(others) for _ in range(60)])
    assert set(seen) == set(LINES)


@quick
@given(
    policy=st.sampled_from([OFF, FILE]),
    known=st.booleans(),
    steps=st.integers(0, 9),
    count=workers,
    replicas=replicas,
)
def test_the_same_workers_go_on_identically(
    files, policy, known, steps, count, replicas
):
    def make():
        lines = TextLineDataset(files).shuffle(9, seed=2).batch(4)
        return lines if known else lines.rebatch([3, 5])

    feeds = open_feeds(make, policy, count, replicas)
    for _ in range(steps):
        take_step(feeds)
    others = open_feeds(make, policy, count, replicas)
    for other, state in zip(others, save(feeds), strict=True):
        restore([other], state)
    assert take_all(others) == take_all(feeds)


def test_the_next_epoch_after_a_restored_one_is_the_next(files):
    def make():
        return TextLineDataset(files).shuffle(50, seed=1).batch(9)

    def epochs(dataset, count, states=None):
        from mirrax.input.distribute import feed_opener

        opener = feed_opener(dataset, Share(1, 0, 2))
        feeds = [opener()]
        if states:
            restore(feeds, states)
        found = [take_all(feeds)]
        return found + [take_all([opener()]) for _ in range(count - 1)]

    first = epochs(make(), 2)
    feeds = open_feeds(make, AUTO, 1, 2)
    assert epochs(make(), 2, save(feeds)) == first


def test_the_positions_of_all_workers_are_needed_for_another_number(files):
    def make():
        return TextLineDataset(files).batch(3)

    states = save(open_feeds(make, FILE, 2))
    with pytest.raises(ValueError, match="none of worker 1 of 2"):
        restore(open_feeds(make, FILE, 1), states[0])


def test_a_position_of_another_policy_is_refused(files):
    def make():
        return TextLineDataset(files).batch(3)

    states = save(open_feeds(make, FILE, 2))
    with pytest.raises(ValueError, match="shared in the same way"):
        restore(open_feeds(make, DATA, 2), states)


@pytest.mark.parametrize(
    ("before", "later", "after"),
    [(OFF, OFF, 1), (OFF, OFF, 3), (OFF, FILE, 1), (OFF, FILE, 3), (FILE, OFF, 3)],
)
def test_datasets_of_each_workers_own_need_as_many_workers(files, before, later, after):
    def make():
        return TextLineDataset(files).batch(3)

    states = save(open_feeds(make, before, 2))
    with pytest.raises(ValueError, match=rf"2 input pipeline\(s\), for {after}"):
        restore(open_feeds(make, later, after), states)


# Who takes part.


def test_a_topology_says_the_share():
    assert share_of(mirrored(4).topology) == Share(1, 0, 4)


def test_the_replicas_of_a_worker_follow_those_of_the_one_before():
    assert [list(Share(3, i, 2).replicas) for i in range(3)] == [[0, 1], [2, 3], [4, 5]]
