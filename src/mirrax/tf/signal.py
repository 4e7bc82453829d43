"""`tf.signal`: Fourier transforms, frames and windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from mirrax.tf.dtypes import canonical, float32
from mirrax.tf.namespaces.operations import Array, of_one, operations

fft = of_one(jnp.fft.fft)
fft2d = of_one(jnp.fft.fft2)
ifft = of_one(jnp.fft.ifft)
ifft2d = of_one(jnp.fft.ifft2)


def rfft(input_tensor: Array, fft_length: Any = None) -> Any:
    return jnp.fft.rfft(input_tensor, _size(fft_length))


def irfft(input_tensor: Array, fft_length: Any = None) -> Any:
    return jnp.fft.irfft(input_tensor, _size(fft_length))


def _size(length: Any) -> int | None:
    """Returns a length that may be given as a list of one."""
    return None if length is None else int(jnp.ravel(jnp.asarray(length))[0])


def _window(make: Callable[[int], Any]) -> Callable[..., Any]:
    def window(window_length: int, periodic: bool = True, dtype: Any = float32) -> Any:
        # A periodic one of an even length lacks the last value, which is the first.
        size = window_length + (periodic and window_length % 2 == 0)
        return make(size)[:window_length].astype(canonical(dtype))

    return window


hann_window = _window(jnp.hanning)
hamming_window = _window(jnp.hamming)


def frame(
    signal: Array,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
) -> Any:
    """Returns overlapping parts of a signal, as a new axis before `axis`."""
    values = jnp.moveaxis(signal, axis, -1)
    size = values.shape[-1]
    count = (
        -(-size // frame_step) if pad_end else 1 + (size - frame_length) // frame_step
    )
    count = max(0, count)
    missing = max(0, (count - 1) * frame_step + frame_length - size)
    padding = [(0, 0)] * (values.ndim - 1) + [(0, missing)]
    padded = jnp.pad(values, padding, constant_values=pad_value)
    starts = frame_step * jnp.arange(count)[:, None]
    frames = padded[..., starts + jnp.arange(frame_length)]
    first = axis if axis >= 0 else values.ndim + axis
    return jnp.moveaxis(frames, (-2, -1), (first, first + 1))


def stft(
    signals: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Callable[..., Any] | None = hann_window,
    pad_end: bool = False,
) -> Any:
    """Returns the spectra of the frames of a signal.

    By default, `fft_length` is the next power of two.
    """
    frames = frame(signals, frame_length, frame_step, pad_end)
    if window_fn is not None:
        frames = frames * window_fn(frame_length, dtype=frames.dtype)
    return rfft(frames, fft_length or 1 << (frame_length - 1).bit_length())


operations(globals())
