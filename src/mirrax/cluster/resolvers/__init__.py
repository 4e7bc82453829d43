"""Cluster resolvers, one for each environment that a job can run in."""
