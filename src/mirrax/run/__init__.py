"""Running functions on replicas."""
