"""`toolheads learn`: heads trained on from a usage log, kept only if they prove themselves."""
