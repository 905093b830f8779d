"""How near the devices of a node are and which NVLinks join them: what nvidia-smi would print, told from the tree."""

from __future__ import annotations

from nodesim.spec import Gpu, Node


def pcie_class(node: Node, a: str, b: str) -> str:
    """PIX one switch (or one card), PXB several, PHB one host bridge, NODE one NUMA node, SYS else; by uid."""
    return Relations(node).pcie_class(a, b)


class Relations:
    """The answers for one node; places are looked up once."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._places = {child.uid: (bridge, switches) for bridge, switches, child in node.parts()}
        self._links = {gpu.uid: _link_states(node, gpu) for gpu in node.gpus}
        self._cells = dict(node.cells)
        self._no_p2p = {frozenset(pair): status for pair, status in node.no_p2p}
        self._gpus = {gpu.uid: gpu for gpu in node.gpus}

    def pcie_class(self, a: str, b: str) -> str:
        a, b = a.partition(".")[0], b.partition(".")[0]
        if a == b:
            return "PIX"
        (bridge_a, above_a), (bridge_b, above_b) = self._places[a], self._places[b]
        if bridge_a.uid != bridge_b.uid:
            return "NODE" if bridge_a.numa == bridge_b.numa else "SYS"
        shared = sum(x.uid == y.uid for x, y in zip(above_a, above_b, strict=False))
        if not shared:
            return "PHB"
        return "PIX" if len(above_a) + len(above_b) - 2 * shared == 0 else "PXB"

    def link_states(self, uid: str) -> tuple[bool, ...]:
        """For each NVLink of the GPU whether it is up; () for a part without."""
        return self._links[uid]

    def links_towards(self, a: str, b: str) -> range:
        """On a board of four: which links of `a` go to `b`."""
        others = [uid for uid in self._gpus if uid != a]
        each = len(self._links[a]) // len(others)
        at = others.index(b) * each
        return range(at, at + each)

    def pair_links(self, a: str, b: str) -> int:
        """The number of NVLinks that work between two GPUs."""
        both = [self._links[a], self._links[b]]
        if self.node.fabric == "nvswitch" or any({a, b} == set(pair) for pair in self.node.bridged):
            return min(sum(states) for states in both)
        if self.node.fabric == "mesh":
            return min(sum(self._links[x][k] for k in self.links_towards(x, y)) for x, y in ((a, b), (b, a)))
        return 0

    def cell(self, a: str, b: str) -> str:
        """The matrix cell in row `a`, column `b`."""
        if (a, b) in self._cells:
            return self._cells[a, b]
        links = self.pair_links(a, b) if a in self._gpus and b in self._gpus else 0
        return f"NV{links}" if links else self.pcie_class(a, b)

    def p2p(self, a: str, b: str) -> str:
        """The read and write status of a pair of GPUs."""
        return self._no_p2p.get(frozenset((a, b))) or ("OK" if self._gpus[a].part.p2p else "CNS")


def _link_states(node: Node, gpu: Gpu) -> tuple[bool, ...]:
    part = gpu.part
    if node.fabric == "none":
        return ()
    bridged = any(gpu.uid in pair for pair in node.bridged)
    used = part.nvlinks if node.fabric in ("nvswitch", "mesh") else part.links_bridged if bridged else 0
    return tuple(link < used and link not in gpu.links_down for link in range(part.nvlinks))
