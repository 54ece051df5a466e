"""Many trainings of one config: seeds, rates and variants, at once where their shapes agree."""
