"""What is minimised: losses, masks, and the objectives that join them."""
