import concurrent.futures
import time

import jax
import jax.numpy as jnp

from mirrax.cluster.worker.tracebacks import is_compiling
from mirrax.cluster.worker.wait_scopes import WaitScopes


class Wait:
    count, phase, since = 1, "start-up", 0.0


def test_start_up_has_a_limit_of_its_own():
    progress = WaitScopes(stuck_timeout=5.0, startup_timeout=600.0)
    progress.inside = Wait()
    assert progress.report().limit == 600.0
    progress.finish_startup()
    assert progress.report().limit == 5.0


def test_time_in_which_the_worker_was_stopped_is_no_wait():
    progress = WaitScopes()
    progress.inside = wait = Wait()
    wait.since = time.monotonic() - 100.0
    progress.exclude_pause(90.0)
    assert progress.report().waiting < 50.0


def test_compilation_of_the_main_thread_is_seen():
    seen = {}

    def look(event, **_):
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            seen[event] = other.submit(is_compiling).result()

    lowered = jax.jit(jnp.sin).lower(jnp.ones(3))
    assert not is_compiling()
    # JAX tells of it in the middle of the compilation.
    jax.monitoring.register_event_listener(look)
    try:
        lowered.compile()
    finally:
        jax.monitoring.unregister_event_listener(look)
    assert seen["/jax/compilation_cache/compile_requests_use_cache"]
    assert not is_compiling()
