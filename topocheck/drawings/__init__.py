"""The node as a picture: one file a format."""
