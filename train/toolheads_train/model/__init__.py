"""The heads as torch modules."""
