"""Wraps what Mirrax uses of JAX beyond its documented API, private names included."""
