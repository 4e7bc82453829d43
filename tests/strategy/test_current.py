"""Questions about the strategy in force, asked from every place."""

import threading

import pytest

import mirrax
from mirrax.variables import MirroredVariable
from tests.programs import create, engines, mirrored


def look():
    """Returns the answers of all four questions at this place."""
    return {
        "strategy": mirrax.get_strategy(),
        "has": mirrax.has_strategy(),
        "cross": mirrax.in_cross_replica_context(),
        "in_replica": mirrax.get_replica_context() is not None,
    }


def test_outside_every_scope_the_default_strategy_is_in_force():
    default = mirrax.get_strategy()
    expected = {"strategy": default, "has": False, "cross": False, "in_replica": True}
    assert look() == expected


def test_scope_is_cross_replica_context(strategy):
    with strategy.scope():
        seen = look()
    expected = {"strategy": strategy, "has": True, "cross": True, "in_replica": False}
    assert seen == expected


def test_one_scope_may_be_entered_inside_itself_and_again(strategy):
    scope = strategy.scope()
    with scope:
        with scope:
            assert mirrax.get_strategy() is strategy
        assert mirrax.get_strategy() is strategy
    assert not mirrax.has_strategy()
    with scope:
        assert mirrax.get_strategy() is strategy


@engines
def test_replica_is_replica_context(strategy, engine):
    seen = []
    strategy.run(engine(lambda: seen.append(look())))
    expected = {"strategy": strategy, "has": True, "cross": False, "in_replica": True}
    assert all(answers == expected for answers in seen)
    assert seen


@engines
def test_replica_context_knows_its_strategy_and_number(two_replicas, engine):
    seen = []

    def step():
        context = mirrax.get_replica_context()
        seen.append((context.strategy, context.num_replicas_in_sync))
        return context.replica_id_in_sync_group

    result = two_replicas.run(engine(step))
    assert [int(part) for part in result.values] == [0, 1]
    assert set(seen) == {(two_replicas, 2)}


@engines
def test_merge_function_is_cross_replica_context(strategy, engine):
    seen = []

    def step():
        merge = mirrax.get_replica_context().merge_call
        merge(lambda given: seen.append((given, look())))

    strategy.run(engine(step))
    expected = {"strategy": strategy, "has": True, "cross": True, "in_replica": False}
    assert seen == [(strategy, expected)]


def test_update_function_is_in_cross_replica_context(strategy):
    v = create(strategy, 1.0)
    seen = []
    strategy.extended.update(v, lambda var: seen.append(look()))
    expected = {"strategy": strategy, "has": True, "cross": True, "in_replica": False}
    assert seen == [expected] * strategy.num_replicas_in_sync


def test_context_comes_back_after_run(strategy):
    with strategy.scope():
        before = look()
        strategy.run(look)
        assert look() == before


def test_context_comes_back_after_an_error_in_run(strategy):
    before = look()

    def fail():
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        strategy.run(fail)
    assert look() == before


def test_context_comes_back_after_an_error_in_the_scope(strategy):
    before = look()
    with pytest.raises(KeyError, match="stop"), strategy.scope():
        raise KeyError("stop")
    assert look() == before


def test_scope_holds_for_its_thread_only(two_replicas):
    seen = []
    with two_replicas.scope():
        thread = threading.Thread(
            target=lambda: seen.append((look(), type(mirrax.Variable(1.0))))
        )
        thread.start()
        thread.join()
    answers, kind = seen[0]
    assert (answers["has"], answers["cross"]) == (False, False)
    assert kind is mirrax.Variable


def test_threads_have_scopes_of_their_own():
    strategies = [mirrored(2), mirrax.OneDeviceStrategy("CPU:3")]
    barrier = threading.Barrier(2)
    seen = {}

    def work(strategy):
        with strategy.scope():
            barrier.wait(timeout=120)
            seen[strategy] = mirrax.get_strategy()
            barrier.wait(timeout=120)

    threads = [threading.Thread(target=work, args=(s,)) for s in strategies]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert seen == {strategy: strategy for strategy in strategies}


@pytest.fixture
def no_strategy_afterwards():
    yield
    mirrax.experimental_set_strategy(None)


@pytest.mark.usefixtures("no_strategy_afterwards")
class TestSetStrategy:
    def test_strategy_stays_in_force(self, strategy):
        mirrax.experimental_set_strategy(strategy)
        expected = {"strategy": strategy, "has": True, "cross": True}
        assert {name: look()[name] for name in expected} == expected

    def test_other_objects_are_refused(self):
        with pytest.raises(TypeError, match=r"a strategy or None\. Received: 3"):
            mirrax.experimental_set_strategy(3)

    def test_new_variables_belong_to_it(self, two_replicas):
        mirrax.experimental_set_strategy(two_replicas)
        v = mirrax.Variable(1.0)
        assert type(v) is MirroredVariable
        assert two_replicas.extended.variable_created_in_scope(v)

    def test_its_own_scope_may_be_entered(self, two_replicas):
        mirrax.experimental_set_strategy(two_replicas)
        with two_replicas.scope():
            assert mirrax.get_strategy() is two_replicas
        assert mirrax.get_strategy() is two_replicas

    def test_scope_of_another_strategy_is_refused(self, two_replicas):
        mirrax.experimental_set_strategy(two_replicas)
        with pytest.raises(RuntimeError, match="inside the scope of another strategy"):
            mirrored(2).scope()

    def test_run_works_and_comes_back(self, strategy):
        mirrax.experimental_set_strategy(strategy)
        assert strategy.reduce("MEAN", strategy.run(lambda: 2.0), axis=None) == 2.0
        assert mirrax.get_strategy() is strategy

    def test_none_takes_it_back(self, two_replicas):
        mirrax.experimental_set_strategy(two_replicas)
        mirrax.experimental_set_strategy(None)
        assert not mirrax.has_strategy()
        assert type(mirrax.Variable(1.0)) is mirrax.Variable

    def test_another_one_replaces_it(self, two_replicas, four_replicas):
        mirrax.experimental_set_strategy(two_replicas)
        mirrax.experimental_set_strategy(four_replicas)
        assert mirrax.get_strategy() is four_replicas

    def test_other_threads_do_not_see_it(self, two_replicas):
        mirrax.experimental_set_strategy(two_replicas)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(mirrax.has_strategy()))
        thread.start()
        thread.join()
        assert seen == [False]


@pytest.mark.parametrize("choice", ["same", "none"])
def test_strategy_is_not_set_inside_a_scope(two_replicas, choice):
    given = two_replicas if choice == "same" else None
    message = (
        "must be called outside every scope. You are in cross-replica context .*Leave"
    )
    with two_replicas.scope(), pytest.raises(RuntimeError, match=message):
        mirrax.experimental_set_strategy(given)


@engines
def test_strategy_is_not_set_inside_a_replica(two_replicas, engine):
    def step():
        mirrax.experimental_set_strategy(two_replicas)

    message = "must be called outside every scope. You are in replica context"
    with pytest.raises(RuntimeError, match=message):
        two_replicas.run(engine(step))


def test_strategy_is_not_set_inside_a_function(two_replicas):
    set_it = mirrax.function(lambda: mirrax.experimental_set_strategy(two_replicas))
    with pytest.raises(RuntimeError, match="must be called outside every scope"):
        set_it()
