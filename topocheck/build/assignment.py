"""Which NIC is whose: each GPU's own compute NICs by the nearest classes in sum (rules.md, "Rails")."""

from __future__ import annotations

from collections.abc import Mapping

from topocheck.build.kinds import ClassOf
from topocheck.build.nics import natural
from topocheck.build.pci import address_key
from topocheck.graph import RANK, SWITCH_LOCAL, Device

_BEFORE_ALL_HAVE_ONE = 500_000_000  # a GPU's second on its switch costs less than one beyond it


def rail_order(nics: list[Device]) -> list[Device]:
    """Rail order: PCI address order, natural order of names where addresses are not known."""
    if all(n.bdf for n in nics):
        return sorted(nics, key=lambda n: address_key(n.bdf or ""))
    return sorted(nics, key=lambda n: natural(n.id))


def _distance_cost(rank: int) -> int:
    """One NIC beyond its GPU's switch costs more than any number of steps within: as many GPUs as can be keep a NIC
    in reach of GPUDirect RDMA."""
    return (rank + 1) * 1_000_000 if rank <= SWITCH_LOCAL else (rank + 1) * 1_000_000_000


def assign(
    gpus: list[Device], nics: list[Device], class_of: ClassOf, worst: int, each: int = 0
) -> dict[str, tuple[str, ...]]:
    """Each GPU's own NICs: `each`, or k = floor(NICs / GPUs), at least 1, no NIC twice, by the nearest classes in sum,
    order of address deciding among equals; no pair farther than `worst`."""
    ordered = rail_order(nics)
    each = max(1, each, len(nics) // len(gpus))
    ranks = {gpu.id: {nic.id: RANK[class_of(gpu.id, nic.id)] for nic in ordered} for gpu in gpus}
    if all(rank > worst for by_nic in ranks.values() for rank in by_nic.values()):
        return {gpu.id: () for gpu in gpus}
    return _uncontended(ranks, each, worst) or _by_flow(ranks, each, worst)


Ranks = Mapping[str, Mapping[str, int]]


def _uncontended(ranks: Ranks, each: int, worst: int) -> dict[str, tuple[str, ...]] | None:
    """Where every GPU has just as many nearest NICs as it gets, and no two want the same, that is the answer."""
    nearest: dict[str, tuple[str, ...]] = {}
    for gpu, by_nic in ranks.items():
        best = min(by_nic.values())
        nearest[gpu] = tuple(nic for nic, rank in by_nic.items() if rank == best <= min(worst, SWITCH_LOCAL))
        if len(nearest[gpu]) != each:
            return None
    wanted = [nic for own in nearest.values() for nic in own]
    return nearest if len(wanted) == len(set(wanted)) else None


def _by_flow(ranks: Ranks, each: int, worst: int) -> dict[str, tuple[str, ...]]:
    """The general case, as a flow of least cost; each GPU's nearest NIC first."""
    import networkx as nx

    flow = nx.DiGraph()
    for i, (gpu, by_nic) in enumerate(ranks.items()):
        flow.add_edge("source", ("gpu", gpu), capacity=each, weight=0)
        flow.add_edge(("gpu", gpu), ("first", gpu), capacity=1, weight=0)
        flow.add_edge(("gpu", gpu), ("more", gpu), capacity=each - 1, weight=_BEFORE_ALL_HAVE_ONE)
        for j, (nic, rank) in enumerate(by_nic.items()):
            cost = _distance_cost(rank) + (i * each - j) ** 2  # of squares the least sum is that in order
            for way in () if rank > worst else ("first", "more") if rank <= SWITCH_LOCAL else ("gpu",):
                flow.add_edge((way, gpu), ("nic", nic), capacity=1, weight=cost)
            flow.add_edge(("nic", nic), "sink", capacity=1, weight=0)
    result = nx.max_flow_min_cost(flow, "source", "sink")
    own = {
        gpu: [nic for nic in by_nic if any(result[way, gpu].get(("nic", nic)) for way in ("first", "more", "gpu"))]
        for gpu, by_nic in ranks.items()
    }
    return {gpu: tuple(sorted(nics, key=lambda nic: ranks[gpu][nic])) for gpu, nics in own.items()}
