"""The engine for parts of different shapes: one program for each replica."""
