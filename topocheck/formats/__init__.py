"""Report → str; one file a format."""
