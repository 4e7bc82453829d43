"""The compiled engine: a function is traced once and runs as one program."""
