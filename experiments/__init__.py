"""Experiments: see README.md beside this file."""
