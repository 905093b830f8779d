"""The fleet: many nodes' reports read together. Reports and fabric listings → records → what is odd → formats.

One document a node goes in (`topocheck node --format json`); a small record of it is kept, never the document.
"""
