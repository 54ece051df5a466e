"""From data folders to tensors on a device: what trains, what validates, how batches are drawn."""
