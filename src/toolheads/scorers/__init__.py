"""Adapters of the `Scorer` port, one file each."""
