"""Connections: sockets, handshake, messages, the tunnel of JAX's service."""
