"""The probes, in order of trust, and the one function that turns a source into facts."""
