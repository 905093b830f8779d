"""How to launch on a node: a rank a GPU, with the NICs, CPUs and memory next to it."""
