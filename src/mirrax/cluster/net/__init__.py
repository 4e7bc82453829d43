"""Networking: messages, the handshake, the tunnel to JAX's service."""
