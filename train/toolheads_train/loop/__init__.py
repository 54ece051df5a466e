"""The Trainer: chunks of optimiser steps, validation, checkpoints, metrics."""
