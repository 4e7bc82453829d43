"""The examples run, and do what they say."""

from examples import accumulation, checkpoints, equinox_optax, linen, nnx


def test_nnx_learns():
    losses = nnx.main(epochs=3)
    assert losses[-1] < 0.5 * losses[0]


def test_equinox_and_optax_learn():
    losses = equinox_optax.main()
    assert losses[-1] < 0.5 * losses[0]


def test_linen_learns():
    losses = linen.main()
    assert losses[-1] < 0.5 * losses[0]


def test_checkpoints_go_on_exactly():
    assert checkpoints.main()


def test_accumulation_gives_the_same():
    assert accumulation.main() < 1e-5
