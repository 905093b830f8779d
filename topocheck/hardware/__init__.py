"""The figures topocheck predicts with, each with its source. Line rate and achievable rate are kept apart by name."""
