"""The part of `tensorflow.python`, private to TensorFlow, that programs use."""
