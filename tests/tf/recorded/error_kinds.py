"""What the recorded programs tell of an error: its kinds, of those that Python has."""

_KINDS = (
    ValueError,
    TypeError,
    RuntimeError,
    NotImplementedError,
    KeyError,
    AttributeError,
    ZeroDivisionError,
)


def error_of(function, *args, **kwargs):
    """Returns the names of the kinds of error that a call raises, or its result."""
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__ if kind in _KINDS]
        return kinds or type(error).__name__
    return ["no error", result]
