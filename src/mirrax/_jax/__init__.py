"""The only place with private names of JAX."""
