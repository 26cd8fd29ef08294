"""Experiments: what the methods do to a model, as opposed to how fast they are (`benchmarks/`)."""
