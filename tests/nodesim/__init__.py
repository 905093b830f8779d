"""A node simulator: a few words describe a node; it renders facts, every tool's output, and a sysfs tree.

node = shapes…                     what is plugged where (spec.Node)
layout = place(node, Numbering())  with PCI addresses, GPU numbers, RDMA names
facts(layout)                      what the probes would state, at once
capture(layout, folder)            every command's output in the real tools' formats
sysfs(layout, folder)              a /sys that real lspci and lstopo read
"""

from nodesim.capture import capture
from nodesim.facts import INPUTS, facts
from nodesim.layout import Layout, Numbering, place
from nodesim.spec import Gpu, HostBridge, Link, Nic, Node, NvSwitch, Port, Switch
from nodesim.sysfs import sysfs

__all__ = [
    "INPUTS",
    "Gpu",
    "HostBridge",
    "Layout",
    "Link",
    "Nic",
    "Node",
    "Numbering",
    "NvSwitch",
    "Port",
    "Switch",
    "capture",
    "facts",
    "place",
    "sysfs",
]
