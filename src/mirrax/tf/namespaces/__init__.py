"""What the modules with names of TensorFlow have in common."""
