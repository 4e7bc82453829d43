import threading

import jax
import jax.numpy as jnp

from mirrax.cluster.worker.tracebacks import is_compiling
from mirrax.cluster.worker.wait_scopes import WaitScopes


class Wait:
    count, phase, step, since = 1, "start-up", None, 0.0


def test_start_up_has_a_limit_of_its_own():
    progress = WaitScopes(stuck_timeout=5.0, startup_timeout=600.0)
    progress.inside = Wait()
    assert progress.report().limit == 600.0
    progress.finish_startup()
    assert progress.report().limit == 5.0


def test_compilation_of_the_main_thread_is_seen():
    def deep(x):
        for _ in range(300):
            x = jnp.sin(x) @ x
        return x

    assert not is_compiling()
    lowered = jax.jit(deep).lower(jnp.ones((3, 3)))
    seen, done = threading.Event(), threading.Event()

    def look():
        while not done.wait(0.001):
            if is_compiling():
                seen.set()

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        lowered.compile()
    finally:
        done.set()
        watcher.join()
    assert seen.is_set()
