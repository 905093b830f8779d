"""Bandwidth of flows on the node: what a repair is worth is the ratio of two answers of this module.

Each scenario is a set of flows that run at once; rates are the max-min fair share over the links they cross, one
direction, GB/s, large transfers (design.md section 3). A link that sleeps counts at its capability; a link nobody read
limits nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

from topocheck.graph import RANK, SWITCH_LOCAL, Device, PcieLink, Topology
from topocheck.hardware import gpus, network, pcie
from topocheck.hardware.collectives import FAR_NIC
from topocheck.hardware.gpus import nvlink_achievable_gb_per_s
from topocheck.ring import slowest_edge

_NOMINAL_GBIT_PER_S = 400.0  # only ratios are read from it


class Scenario(NamedTuple):
    """What is run, and whose bandwidth is asked.

    gpu-nic    every GPU to its own NICs by RDMA; B is the subject GPU's
    node-nics  the same; B is the sum over the node, what an inter-node ring follows (without a GPU in the input: of
               the NICs' ports)
    gpu-host   every GPU to its host memory; B is the subject GPU's
    nic-host   the subject NIC alone to host memory
    ring       the best ring through all GPUs of the node; B is its slowest edge's
    nvlink     the subject GPU's NVLinks together
    gpu-pair   a copy from the subject GPU to the other one, alone, over the best path they have
    """

    kind: str
    subject: str = ""
    other: str = ""


class Bandwidth(NamedTuple):
    """B of a scenario, its slowest flow, and whether a NIC's rate was made up (then only ratios mean anything)."""

    gb_per_s: float
    slowest_gb_per_s: float
    nominal: bool


class Flow(NamedTuple):
    """One flow: who owns it, what it crosses, and the most it can do by itself."""

    owner: str
    crosses: tuple[tuple[str, str], ...]
    most: float


Capacity = Mapping[tuple[str, str], float]


def link_capacity_gb_per_s(link: PcieLink) -> float:
    """Achievable bandwidth of a link as it runs, or would run awake; infinite where it was not read."""
    trained = _trained(link)
    return pcie.achievable_gb_per_s(*trained) if trained else float("inf")


def _trained(link: PcieLink) -> tuple[float, int, int] | None:
    """Speed, width and payload of a link as it runs, or would run awake; None where it was not read."""
    speed = (link.can_speed_gts or link.max_speed_gts) if link.asleep else link.speed_gts
    if link.implausible or not speed or not link.width:
        return None
    return speed, link.width, link.payload_bytes or pcie.ASSUMED_PAYLOAD_BYTES


def nic_rate_gbit_per_s(nic: Device) -> float | None:
    """What its active ports carry together, 0 when all are down; its model's maximum when no port was read."""
    rates = [p.rate_gbit_per_s for p in nic.ports if p.state == "active" and p.rate_gbit_per_s]
    if rates:
        return sum(rates)
    if nic.state == "down":
        return 0.0
    return network.most_gbit_per_s(nic.pci_id, nic.device_type)


def route(node: Topology, a: Device, b: Device) -> tuple[list[PcieLink], list[PcieLink]]:
    """The links from each of two devices up to where they meet."""
    up_a, up_b = node.path_up(a), node.path_up(b)
    shared = {link.id for link in up_a} & {link.id for link in up_b}
    own_a, own_b = ([x for x in up if x.id not in shared] for up in (up_a, up_b))
    if RANK[node.pcie_class(a.id, b.id)] <= SWITCH_LOCAL and not _meet(node, a, b):
        return own_a[:1], own_b[:1]  # a NIC a repair has moved here: the tree does not know it
    return own_a, own_b


def _meet(node: Topology, a: Device, b: Device) -> bool:
    return bool(set(node.climb(a.bdf or "")) & set(node.climb(b.bdf or "")) & set(node.bridges))


def nics_in_use(node: Topology, gpu: Device) -> list[Device]:
    """The NICs a GPU's traffic takes: its own that are not down, else the nearest one that is up."""
    own = [node.by_id[n] for n in node.assignment.get(gpu.id, ())]
    usable = [n for n in own if n.state != "down"]
    if usable:
        return usable
    up = [n for n in node.compute_nics if n.state != "down"]
    _, near = node.nearest(gpu, up)
    return near[:1]


def bandwidth(node: Topology, scenario: Scenario) -> Bandwidth | None:
    """B of a scenario on this node; None where the node has not what the scenario needs."""
    if scenario.kind in ("nvlink", "gpu-pair"):
        b = _over_nvlink(node, scenario) or _over_pcie(node, scenario)
        return None if b is None else Bandwidth(b, b, nominal=False)
    if scenario.kind == "ring":
        slowest = slowest_edge([g.id for g in node.gpus], ring_edges(node))
        return None if slowest is None else Bandwidth(slowest, slowest, False)
    if scenario.kind in ("gpu-nic", "node-nics"):
        flows, capacity, nominal = _rdma(node)
    elif scenario.kind == "gpu-host":
        flows, capacity, nominal = _to_host(node)
    else:
        flows, capacity, nominal = _nic_to_host(node, scenario.subject)
    if not flows:
        return None
    rates = fair_share(flows, capacity)
    by_owner: dict[str, float] = {}
    for flow, rate in zip(flows, rates, strict=True):
        by_owner[flow.owner] = by_owner.get(flow.owner, 0.0) + rate
    if scenario.kind == "node-nics":
        return Bandwidth(sum(rates), min(by_owner.values()), nominal)
    own = by_owner.get(scenario.subject)
    return None if own is None or own == float("inf") else Bandwidth(own, min(by_owner.values()), nominal)


def _over_nvlink(node: Topology, scenario: Scenario) -> float:
    """0 without NVLink."""
    gpu = node.by_id.get(scenario.subject)
    if gpu is None:
        return 0.0
    token = node.pair_class(gpu.id, scenario.other) or ""
    if scenario.kind == "gpu-pair":
        links = int(token[2:]) if token.startswith("NV") else 0
    else:
        counts = [int(c[2:]) for pair, c in node.classes.items() if gpu.id in pair and c and c.startswith("NV")]
        links = gpu.nvlinks_active if gpu.nvlinks_active is not None else max(counts, default=0)
    return nvlink_achievable_gb_per_s(links, gpu.part)


def _over_pcie(node: Topology, scenario: Scenario) -> float | None:
    a, b = node.by_id.get(scenario.subject), node.by_id.get(scenario.other)
    if a is None or b is None:
        return None
    up, down = route(node, a, b)
    capacity = min((link_capacity_gb_per_s(x) for x in (*up, *down)), default=float("inf"))
    return None if capacity == float("inf") else capacity


def _rdma(node: Topology) -> tuple[list[Flow], Capacity, bool]:
    flows: list[Flow] = []
    capacity: dict[tuple[str, str], float] = {}
    rates = {nic.id: nic_rate_gbit_per_s(nic) for nic in node.compute_nics}
    known = max((r for r in rates.values() if r), default=None)
    nominal = any(r is None for r in rates.values())
    local = any(RANK[node.pcie_class(g.id, n.id)] <= SWITCH_LOCAL for g in node.gpus for n in node.compute_nics)
    for gpu in node.gpus:
        for nic in nics_in_use(node, gpu):
            rate = rates.get(nic.id)
            port = network.achievable_gb_per_s(rate if rate is not None else known or _NOMINAL_GBIT_PER_S)
            up, down = route(node, gpu, nic)
            crosses = [(x.id, "up") for x in up] + [(x.id, "down") for x in down] + [(nic.id, "port")]
            capacity.update({(x.id, d): link_capacity_gb_per_s(x) for x in (*up, *down) for d in ("up", "down")})
            capacity[nic.id, "port"] = port
            far = local and RANK[node.pcie_class(gpu.id, nic.id)] > SWITCH_LOCAL and not (gpu.part and gpu.part.c2c)
            flows.append(Flow(gpu.id, tuple(crosses), port * FAR_NIC if far else float("inf")))
    if not node.gpus:
        capacity = {(n.id, "port"): network.achievable_gb_per_s(rates[n.id] or 0.0) for n in node.compute_nics}
        flows = [Flow(n.id, ((n.id, "port"),), float("inf")) for n in node.compute_nics]
    return flows, capacity, nominal


def _to_host(node: Topology) -> tuple[list[Flow], Capacity, bool]:
    flows: list[Flow] = []
    capacity: dict[tuple[str, str], float] = {}
    for gpu in node.gpus:
        path = node.path_up(gpu)
        capacity.update({(x.id, "up"): link_capacity_gb_per_s(x) for x in path})
        flows.append(Flow(gpu.id, tuple((x.id, "up") for x in path), float("inf")))
    return flows, capacity, False


def _nic_to_host(node: Topology, nic_id: str) -> tuple[list[Flow], Capacity, bool]:
    nic = node.by_id.get(nic_id)
    if nic is None or nic.state == "down":
        return [], {}, False
    rate = nic_rate_gbit_per_s(nic)
    most = network.achievable_gb_per_s(rate) if rate else float("inf")
    path = node.path_up(nic)
    capacity = {(x.id, "up"): link_capacity_gb_per_s(x) for x in path}
    return [Flow(nic.id, tuple((x.id, "up") for x in path), most)], capacity, False


def ring_edges(node: Topology) -> dict[frozenset[str], float]:
    """What each pair of GPUs would carry as an edge of a ring, GB/s one direction."""
    return {frozenset((a.id, b.id)): _ring_edge(node, a, b) for a, b in combinations(node.gpus, 2)}


def _ring_edge(node: Topology, a: Device, b: Device) -> float:
    """NVLink by the number of links and their rates, else the slowest link of the PCIe path."""
    cls = node.pair_class(a.id, b.id) or ""
    if cls.startswith("NV"):
        return gpus.nvlink_ring_gb_per_s(int(cls[2:]), a.part) * min(_trained_share(a), _trained_share(b))
    up, down = route(node, a, b)
    read = [trained for x in (*up, *down) if (trained := _trained(x))]
    if not read:
        return pcie.ring_gb_per_s(gpus.PCIE_GTS_BESIDE_NVLINK[a.part.nvlink_gen if a.part else 0], 16)
    return pcie.ring_gb_per_s(*min(read, key=lambda trained: pcie.achievable_gb_per_s(*trained)))


def _trained_share(gpu: Device) -> float:
    """The rate its active NVLinks are trained to over what its generation shows, at most 1."""
    rates = [p.rate_gb_per_s for p in gpu.nvlinks or () if p.active and p.rate_gb_per_s]
    if not rates or gpu.part is None or not gpu.part.nvlinks:
        return 1.0
    return min(1.0, sum(rates) / len(rates) / gpus.nvlink_printed_gb_per_s(gpu.part))


def fair_share(flows: list[Flow], capacity: Capacity) -> list[float]:
    """Max-min fair rates: fill all flows alike; whoever meets a full link, or his own limit, stops.

    >>> fair_share([Flow("a", (("x", "up"),), 9.0), Flow("b", (("x", "up"),), 1.0)], {("x", "up"): 4.0})
    [3.0, 1.0]
    """
    rates = [float("inf")] * len(flows)
    open_flows = set(range(len(flows)))
    left = dict(capacity)
    while open_flows:
        users: dict[tuple[str, str], list[int]] = {}
        for i in open_flows:
            for resource in flows[i].crosses:
                users.setdefault(resource, []).append(i)
        level = min((left[r] / len(who) for r, who in users.items()), default=float("inf"))
        own = min((flows[i].most for i in open_flows), default=float("inf"))
        level = min(level, own)
        done = {i for i in open_flows if flows[i].most <= level}
        for resource, who in users.items():
            if left[resource] / len(who) <= level * (1 + 1e-12):
                done.update(who)
        for i in done:
            rates[i] = level
            for resource in flows[i].crosses:
                left[resource] = max(0.0, left[resource] - level)
        open_flows -= done
    return rates
