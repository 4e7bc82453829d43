"""`mirrax migrate`: which parts of a TensorFlow program work."""
