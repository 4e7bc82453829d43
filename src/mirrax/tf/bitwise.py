"""`tf.bitwise`."""

import jax.numpy as jnp

from mirrax.tf.namespaces.operations import of_one, of_two

bitwise_and = of_two(jnp.bitwise_and)
bitwise_or = of_two(jnp.bitwise_or)
bitwise_xor = of_two(jnp.bitwise_xor)
invert = of_one(jnp.invert)
left_shift = of_two(jnp.left_shift)
right_shift = of_two(jnp.right_shift)
