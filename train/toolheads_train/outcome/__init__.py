"""What a finished training leaves: calibration, heads file, card, plots."""
