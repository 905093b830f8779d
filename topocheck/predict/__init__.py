"""What communication costs on this node, healthy and as found: the ladder, messages, collectives, a training step.

Bandwidths are GB/s = 1e9 bytes per second, one direction; times µs; sizes bytes.
"""
