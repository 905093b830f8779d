"""What rules.md says of a node, asked of its description: an answer of its own, sharing nothing with the program."""

from __future__ import annotations

from nodesim.relations import Relations
from nodesim.spec import Child, Gpu, Nic, Node, Switch

GB_PER_S_PER_LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938}  # 8b/10b, 128b/130b
LOCAL = ("PIX", "PXB")


def compute_cards(node: Node) -> list[Nic]:
    """The cards of the compute kind."""
    return [nic for nic in node.nics if nic.intent == "compute"]


def roles_clear(node: Node) -> bool:
    """Roles: the compute kind has at least as many cards as a quarter of the GPUs, so that it is told as such."""
    return bool(node.gpus) and 4 * len(compute_cards(node)) >= len(node.gpus)


def judged(node: Node) -> list[Child]:
    """PCI001: every child whose upper link lies on the path of a GPU or a compute NIC."""
    found: dict[str, Child] = {}
    for _, switches, child in node.parts():
        if isinstance(child, Gpu) or (isinstance(child, Nic) and child.intent == "compute"):
            found |= {x.uid: x for x in (*switches, child)}
    return list(found.values())


def functions_of(child: Child) -> frozenset[str]:
    """The uids of a child's functions: those of a card share its link."""
    if isinstance(child, Nic):
        return frozenset({child.uid, *(f"{child.uid}.{k}" for k in range(1, len(child.ports)))})
    return frozenset({child.uid})


def equals(node: Node, child: Child) -> int:
    """How many devices of the same model and role there are besides this one; of switches those of its chip."""
    if isinstance(child, Gpu):
        return sum(g.part_key == child.part_key for g in node.gpus) - 1
    if isinstance(child, Nic):
        return sum(len(n.ports) for n in compute_cards(node) if n.part_key == child.part_key) - 1
    return sum(isinstance(s, Switch) and s.chip_gen == child.chip_gen for s in node.switches) - 1


def line_rate(gen: int, width: int) -> float:
    """GB/s, one direction."""
    return GB_PER_S_PER_LANE[gen] * width


def path(node: Node, a: str, b: str) -> list[Child]:
    """The children whose upper links lie between two devices."""
    ends = []
    for uid in (a, b):
        _, switches = node.above(uid)
        ends.append([*switches, node.child(uid)])
    shared = {x.uid for x in ends[0]} & {x.uid for x in ends[1]}
    return [x for end in ends for x in end if x.uid not in shared]


def nearest(node: Node, gpu: str) -> tuple[str, list[Nic]]:
    """The best class from a GPU to a compute card, and the cards that have it."""
    near = Relations(node)
    order = ("PIX", "PXB", "PHB", "NODE", "SYS")
    classes = {nic.uid: near.pcie_class(gpu, nic.uid) for nic in compute_cards(node)}
    best = min(classes.values(), key=order.index)
    return best, [nic for nic in compute_cards(node) if classes[nic.uid] == best]


def beside(node: Node, uid: str) -> frozenset[str]:
    """The GPUs in the innermost switch or host bridge of a device that has any: they are alike to it."""
    bridge, switches = node.above(uid)
    for at in (*reversed(switches), bridge):
        found = frozenset(g.uid for g in node.gpus if at.uid in _all_above(node, g.uid))
        if found:
            return found
    return frozenset()


def _all_above(node: Node, uid: str) -> set[str]:
    bridge, switches = node.above(uid)
    return {bridge.uid, *(s.uid for s in switches)}


def local(node: Node, gpu: str) -> bool:
    """Whether some compute card is at PIX or PXB of the GPU."""
    return bool(compute_cards(node)) and nearest(node, gpu)[0] in LOCAL


def under(child: Child) -> list[Child]:
    """The child, or of a switch everything below it."""
    if isinstance(child, Switch):
        return [x for c in child.children for x in under(c)]
    return [child]
