"""What a prediction needs of the node: a handful of bandwidths, asked of the model, and what had to be assumed.

The same questions are put to the node as found and to the node repaired; no figure of a data sheet is taken where the
input tells the node's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from topocheck.errors import TopocheckError
from topocheck.graph import Device, Topology
from topocheck.hardware import collectives, gpus, latency, network, pcie
from topocheck.hardware.compute import Chip, chip_of
from topocheck.hardware.gpus import Part
from topocheck.model import Scenario, bandwidth, link_capacity_gb_per_s, nic_rate_gbit_per_s, nics_in_use, route
from topocheck.nearness import flat_tree

_RACK_GPUS = 72  # one NVLink domain of GB200 and GB300 racks
_ASSUMED_NIC_GBIT = {2: 100.0, 3: 200.0, 4: 400.0, 5: 400.0}  # a GPU's NIC on boards of an NVLink generation


@dataclass(frozen=True)
class Machine:
    """Bandwidths are achievable, GB/s one direction; *_line what the data sheet says of the same link as it runs.

    ring: the slowest edge of the best ring in the node; nvls: all_reduce of 8 GPUs in NVSwitches;
    pcie: the slowest GPU's link to its host; nics: all compute NICs of the node in step, a GPU's share nics / gpus.
    """

    model: str
    gpus: int
    chip: Chip | None
    part: Part | None
    links: int  # NVLinks of the GPU that has fewest; 0: the ring is PCIe's
    ring: float | None
    nvls: float | None
    copy: float | None  # one peer copy by NVLink
    nvlink_line: float | None
    pcie: float | None
    pcie_line: float | None
    nics: float | None
    nics_line: float | None
    nic_count: int
    fabric: str  # infiniband, ethernet, efa
    rack: bool = False  # NVLink reaches over the trays of a rack
    one_switch: bool = False  # every two GPUs meet under one PCIe switch
    assumptions: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def alpha_network_us(self) -> float:
        """α of a message between two nodes."""
        return latency.network_us(self.fabric)

    @property
    def alpha_pcie_us(self) -> float:
        """α of a message between two GPUs over PCIe: the farthest two."""
        return latency.PCIE_SWITCH_US if self.one_switch else latency.PCIE_ROOT_US

    @property
    def network_per_gpu(self) -> float | None:
        """A GPU's share of the node's NICs."""
        return None if self.nics is None else self.nics / self.gpus

    def domain(self, nodes: int) -> tuple[int, int]:
        """GPUs in one NVLink domain, and how many domains so many nodes make."""
        ranks = self.gpus * nodes
        if self.rack and nodes > 1:
            inside = min(ranks, _RACK_GPUS // self.gpus * self.gpus)
            if ranks % inside == 0:
                return inside, ranks // inside
        return self.gpus, nodes

    def at_least(self, other: Machine) -> Machine:
        """This machine where it is the better one, else the other: what a repair of one thing leaves to another."""
        names = ("ring", "nvls", "copy", "nvlink_line", "pcie", "pcie_line", "nics", "nics_line")
        better: dict[str, Any] = {
            name: max((x for x in (getattr(self, name), getattr(other, name)) if x is not None), default=None)
            for name in names
        }
        return replace(self, **better)


def machine_of(node: Topology) -> Machine:
    """The node in figures. TopocheckError where there is no GPU, or none whose model is named."""
    if not node.gpus:
        raise TopocheckError("no GPU in the input: nothing to predict")
    first = next((gpu for gpu in node.gpus if gpu.part or gpu.model), node.gpus[0])
    part = first.part
    if part is None and first.model is None:
        raise TopocheckError("no GPU model in the input: add nvidia-smi -L, nvidia-smi -q or lspci -nn")
    assumed: list[str] = []
    if len({gpu.part for gpu in node.gpus if gpu.part}) > 1:
        assumed.append(f"GPUs of several models: tensor rate, memory and NVLink rate are those of {first.id}")
    if sliced := [gpu.id for gpu in node.gpus if gpu.mig]:
        assumed.append(f"{', '.join(sliced)}: MIG is on, and these figures are of whole GPUs")
    refused: list[str] = []
    links = _links(node, part, assumed)
    ring = _ring(node, part, links, assumed, refused)
    on_nvlink = bool(links and ring and ring > 0 and _all_nvlink(node, part))
    whole = gpus.nvlink_ring_gb_per_s(links, part) if links else 0.0
    trained = min(1.0, ring / whole) if ring and whole else 1.0
    hosts = [b.gb_per_s for g in node.gpus if (b := bandwidth(node, Scenario("gpu-host", g.id)))]
    in_step, count, nics_line = _nics(node, part, assumed, refused)
    return Machine(
        model=first.model or "GPU",
        gpus=len(node.gpus),
        chip=chip_of(first.model) or chip_of(gpus.model_of_id(first.pci_id)),
        part=part,
        links=links if on_nvlink else 0,
        ring=ring,
        nvls=_nvls(links, part, trained) if on_nvlink else None,
        copy=gpus.nvlink_achievable_gb_per_s(links, part) * trained if on_nvlink else None,
        nvlink_line=gpus.nvlink_line_rate_gb_per_s(links, part) * trained if on_nvlink else None,
        pcie=min(hosts, default=None),
        pcie_line=_pcie_line(node),
        nics=in_step,
        nics_line=nics_line,
        nic_count=count,
        fabric=_fabric(node.compute_nics),
        rack=bool(part and part.c2c and part.board == "nvswitch"),
        one_switch=_one_switch(node),
        assumptions=tuple(assumed),
        refused=tuple(refused),
    )


def _one_switch(node: Topology) -> bool:
    """Whether the PCIe tree, where it is shown, has every two GPUs under one switch."""
    pairs = list(combinations(node.gpus, 2))
    return bool(pairs) and not flat_tree(node) and all(node.pcie_class(a.id, b.id) == "PIX" for a, b in pairs)


def _nvls(links: int, part: Part | None, trained: float) -> float | None:
    """all_reduce of 8 GPUs in the NVSwitches; None where there are none that add."""
    most = collectives.nvls_gb_per_s(links, part)
    return most * trained if most and part and part.board == "nvswitch" else None


def _links(node: Topology, part: Part | None, assumed: list[str]) -> int:
    """NVLinks of the GPU that has fewest; those of the model where no input speaks of them."""
    counts = []
    for gpu in node.gpus:
        cells = [int(c[2:]) for pair, c in node.classes.items() if gpu.id in pair and c and c[:2] == "NV" != c]
        counts.append(gpu.nvlinks_active if gpu.nvlinks_active is not None else max(cells, default=None))
    known = [n for n in counts if n is not None]
    if known and (len(known) == len(counts) or node.has_matrix):
        return min(known) if len(known) == len(counts) else 0
    if part and part.board in ("nvswitch", "mesh") and len(node.gpus) > 1 and not node.has_matrix:
        assumed.append(f"NVLinks not in the input: {part.nvlinks} a GPU, as the model has")
        return part.nvlinks
    return 0


def _all_nvlink(node: Topology, part: Part | None) -> bool:
    """Whether every pair of GPUs meets over NVLink, as far as anybody says (a mesh: whether the GPUs have it)."""
    if part and (part.board == "mesh" or _unseen_switches(node, part)):
        return True
    pairs = list(combinations(node.gpus, 2))
    return bool(pairs) and all((node.pair_class(a.id, b.id) or "NV").startswith("NV") for a, b in pairs)


def _unseen_switches(node: Topology, part: Part) -> bool:
    """A board whose GPUs meet in NVSwitches, and no input that shows pairs but the PCIe tree's."""
    seen = node.has_matrix or any(word and word.startswith("NV") for word in node.classes.values())
    return part.board == "nvswitch" and not seen


def _ring(node: Topology, part: Part | None, links: int, assumed: list[str], refused: list[str]) -> float | None:
    """The node's ring. Refused where nothing says how the GPUs meet."""
    if len(node.gpus) < 2:
        return None
    words = [node.pair_class(a.id, b.id) for a, b in combinations(node.gpus, 2)]
    if not any(words):
        if links:
            return gpus.nvlink_ring_gb_per_s(links, part)
        refused.append("collectives in the node: how its GPUs meet is hidden (no matrix, no PCIe tree, no NVLink)")
        return None
    if links and part and (part.board == "mesh" or _unseen_switches(node, part)):
        return gpus.nvlink_ring_gb_per_s(links, part)
    if node.machine.virtual is not False and flat_tree(node) and all(g.numa_node is None for g in node.gpus):
        refused.append("collectives in the node: the PCIe tree is hidden (every pair at one distance)")
        return None
    if not all(_known(node, a, b) for a, b in combinations(node.gpus, 2)):
        assumed.append("PCIe links between GPUs that were not read count as x16 of the generation of the GPU model")
    ring = bandwidth(node, Scenario("ring"))
    return ring.gb_per_s if ring else None


def _known(node: Topology, a: Device, b: Device) -> bool:
    """Whether two GPUs meet over NVLink, or over PCIe of which something was read."""
    if (node.pair_class(a.id, b.id) or "").startswith("NV"):
        return True
    return any(link_capacity_gb_per_s(x) != float("inf") for side in route(node, a, b) for x in side)


def _pcie_line(node: Topology) -> float | None:
    """The data sheet's figure of the slowest GPU link as it runs, or would run awake."""
    return min((line for g in node.gpus if (line := _own_line(node, g))), default=None)


def _own_line(node: Topology, device: Device) -> float | None:
    """The data sheet's figure of a device's own PCIe link; None where it was not read."""
    own = node.path_up(device)[:1]
    if not own or link_capacity_gb_per_s(own[0]) == float("inf"):
        return None
    speed = own[0].speed_gts if not own[0].asleep else own[0].can_speed_gts or own[0].max_speed_gts
    return pcie.line_rate_gb_per_s(speed or 0.0, own[0].width or 0)


def _line(node: Topology, nic: Device) -> float:
    """What a NIC carries by data sheet: its ports, or the link it hangs on."""
    ports = network.line_rate_gb_per_s(nic_rate_gbit_per_s(nic) or 0.0)
    return min(ports, _own_line(node, nic) or ports)


def _nics(
    node: Topology, part: Part | None, assumed: list[str], refused: list[str]
) -> tuple[float | None, int, float | None]:
    """What all NICs in use carry in step (GB/s achievable), how many they are, and the data sheet's sum.

    A collective gives every channel the same bytes, and NCCL plans by what links can do, not by what they trained to:
    the slowest NIC sets the pace of all.
    """
    at_nic: dict[str, float] = {}
    nominal = False
    for gpu in node.gpus:
        b = bandwidth(node, Scenario("gpu-nic", gpu.id))
        own = nics_in_use(node, gpu)
        if b is None or not own:
            continue
        nominal = nominal or b.nominal
        for nic in own:
            at_nic[nic.id] = at_nic.get(nic.id, 0.0) + b.gb_per_s / len(own)
    rates = [nic_rate_gbit_per_s(n) for n in node.compute_nics if n.id in at_nic]
    known = [r for r in rates if r]
    if at_nic and not nominal and known:
        lines = [_line(node, nic) for nic in node.compute_nics if nic.id in at_nic]
        return len(at_nic) * min(at_nic.values()), len(at_nic), len(lines) * min(lines)
    gbit = _ASSUMED_NIC_GBIT.get(part.nvlink_gen) if part and part.board == "nvswitch" else None
    if gbit is None or any(n.state == "down" for n in node.compute_nics):
        refused.append("anything between nodes: no NIC that is up and whose rate is known")
        return None, 0, None
    count = len(node.compute_nics) or len(node.gpus)
    assumed.append(f"NIC rate not in the input: {count} × {gbit:g} Gb/s, as nodes of this GPU model have")
    return network.achievable_gb_per_s(count * gbit), count, network.line_rate_gb_per_s(count * gbit)


def _fabric(nics: list[Device]) -> str:
    layers = {p.link_layer for nic in nics for p in nic.ports if p.link_layer}
    if any(nic.efa for nic in nics) or "efa" in layers:
        return "efa"
    return "ethernet" if layers == {"ethernet"} else "infiniband"
