"""One worker's side of a job: joining, waiting, progress, exit."""
