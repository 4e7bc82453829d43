"""One worker's side of a job: joining, heartbeats, progress, exit."""
