"""Other libraries whose objects take part; each is loaded only if the user loads it."""

from mirrax.integrations.loading import when_imported


def await_libraries() -> None:
    """Connects each library as soon as it is imported, now or later."""
    when_imported("keras", "mirrax.integrations.keras")
