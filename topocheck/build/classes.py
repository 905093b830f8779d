"""How near each pair of devices is: the matrix's word, else what the PCIe tree says; the PCIe distance NVLink hides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from topocheck.facts import Matrix, PciFunction
from topocheck.graph import PCIE_CLASSES, RANK, Device, Disagreement

Pair = frozenset[str]
_MAX_IN_TRIPLES = 96  # 16 GPUs and 63 NICs were seen in a matrix


def directed_cells(matrix: Matrix, ids: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """(device id, device id) → the printed token, both directions kept."""
    return {
        (ids[row], ids[column]): token
        for (row, column), token in matrix.cells.items()
        if row != column and row in ids and column in ids
    }


def matrix_classes(
    cells: Mapping[tuple[str, str], str], devices: Mapping[str, Device], witness: str
) -> tuple[dict[Pair, str | None], list[Disagreement]]:
    """One class a pair. Of two directions that differ, the row of the GPU that is not in MIG mode, else the worse."""
    classes: dict[Pair, str | None] = {}
    differ: list[Disagreement] = []
    for (a, b), token in cells.items():
        pair = frozenset((a, b))
        back = cells.get((b, a), token)
        if pair in classes:
            continue
        classes[pair] = token if token == back else _choose(a, token, b, back, devices)
        if token != back:
            values = ((token, f"{witness} row {a}"), (back, f"{witness} row {b}"))
            differ.append(Disagreement(f"{a} {b}", "class", values, classes[pair]))
    return classes, differ


def _choose(a: str, token: str, b: str, back: str, devices: Mapping[str, Device]) -> str:
    first, second = devices.get(a), devices.get(b)
    plain_a = first is not None and first.kind == "gpu" and not first.mig
    plain_b = second is not None and second.kind == "gpu" and not second.mig
    if plain_a != plain_b:
        return token if plain_a else back
    return max(token, back, key=_badness)


def _badness(token: str) -> tuple[int, int]:
    return (0, -int(token[2:])) if token.startswith("NV") else (1, RANK.get(token, 9))


def tree_class(
    a: Device,
    b: Device,
    chains: Mapping[str, list[str]],
    bridges: Mapping[str, PciFunction],
    root_numa: Mapping[str, int],
) -> str | None:
    """The class of two devices by the PCIe tree, None where the tree does not hold both."""
    up_a, up_b = chains.get(a.id), chains.get(b.id)
    if not up_a or not up_b:
        return None
    meet = next((x for x in up_a if x in up_b), None)
    if meet is None:
        if not (up_a[-1].startswith("root:") and up_b[-1].startswith("root:")):
            return None
        node_a, node_b = root_numa.get(up_a[-1], a.numa_node), root_numa.get(up_b[-1], b.numa_node)
        if node_a is None or node_b is None:
            return None
        return "NODE" if node_a == node_b else "SYS"
    if meet.startswith("root:"):
        return "PHB"
    below = [*up_a[: up_a.index(meet)], *up_b[: up_b.index(meet)]]
    crossed = [bridges[x] for x in (*below, meet) if x in bridges]
    if any(x.port_type for x in crossed):
        switches = sum(x.port_type == "upstream" for x in crossed)
    else:
        switches = (max(up_a.index(meet), up_b.index(meet)) + 1) // 2  # a switch is a downstream and an upstream port
    return "PIX" if switches <= 1 else "PXB"


def with_hidden_distances(
    pcie: dict[Pair, str | None], gpus: list[Device], others: list[Device]
) -> dict[Pair, str | None]:
    """PCIe distances that NVLink cells hide, from the ultrametric: of the three distances among two GPUs and a third
    device the two largest are equal, so where the third sees them differently the hidden one is the larger; otherwise
    different NUMA nodes say SYS, and what is left stays unknown."""
    grown = dict(pcie)
    for a, b in combinations(gpus, 2):
        pair = frozenset((a.id, b.id))
        if grown.get(pair) is not None:
            continue
        larger = {
            max(x, y, key=lambda c: RANK[c])
            for third in (*others, *gpus)
            if (x := pcie.get(frozenset((a.id, third.id)))) and (y := pcie.get(frozenset((b.id, third.id)))) and x != y
        }
        if larger:
            grown[pair] = min(larger, key=lambda c: RANK[c])
        elif a.numa_node is not None and b.numa_node is not None and a.numa_node != b.numa_node:
            grown[pair] = "SYS"
    return grown


def inconsistent(pcie: Mapping[Pair, str | None], devices: list[Device]) -> str | None:
    """The first triple whose distances form no ultrametric ("GPU0 NIC1 NIC3"), None if all do. Of very many devices the
    first are asked: there are too many triples."""
    for a, b, c in combinations([d.id for d in devices[:_MAX_IN_TRIPLES]], 3):
        three = [pcie.get(frozenset(p)) for p in ((a, b), (b, c), (a, c))]
        if None in three:
            continue
        ranks = sorted(RANK[x] for x in three)
        if ranks[1] != ranks[2]:
            return f"{a} {b} {c}"
    return None


def groups(pcie: Mapping[Pair, str | None], devices: list[Device]) -> Iterator[tuple[str, list[list[str]]]]:
    """For PIX, PXB, PHB in turn: the groups of devices that near to each other."""
    for cls in PCIE_CLASSES[:3]:
        left = [d.id for d in devices]
        found: list[list[str]] = []
        while left:
            first = left[0]
            near = [x for x in left if x == first or RANK[pcie.get(frozenset((first, x)))] <= RANK[cls]]
            found.append(near)
            left = [x for x in left if x not in near]
        yield cls, found
