"""Experiments: what the methods do to a model, as opposed to how fast they are (`benchmarks/`).

`ladder`, `word_problems` and `math` each have a `results.jsonl` with a line per run, from which their pages are made.
The modules beside them are what they share.
"""
