"""What several workers must agree on before they run a program."""
