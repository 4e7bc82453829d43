import jax

from mirrax._jax.config import get_local_config, set_local_config


def test_settings_are_exchanged_as_a_whole():
    before = get_local_config()
    with jax.default_matmul_precision("highest"):
        inside = get_local_config()
        set_local_config(before)
        assert jax.config.jax_default_matmul_precision is None
        set_local_config(inside)
        assert jax.config.jax_default_matmul_precision == "highest"
    assert jax.config.jax_default_matmul_precision is None
