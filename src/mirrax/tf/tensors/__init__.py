"""Tensors: conversions, creation, shapes, indexing and collections of them."""
