"""topocheck: inspect the hardware topology of a GPU server and price what is wrong with it."""

__version__ = "0.1.0"
