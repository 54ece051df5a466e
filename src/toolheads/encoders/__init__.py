"""Adapters of the `Encoder` port: where the model runs is their affair alone."""
