"""The eager engine: one greenlet for each replica, meeting at collectives."""
