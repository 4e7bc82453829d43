"""The eager engine: one greenlet per replica, synchronized at collectives."""
