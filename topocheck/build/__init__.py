"""Facts → Topology: who wins when two inputs disagree, and the disagreement that leaves.

The PCIe tree is the spine; `nvidia-smi topo -m` is the second witness, and the only one where a matrix is all there
is: then switches and host bridges are rebuilt from its distances and marked as inferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from topocheck.build import classes as near
from topocheck.build.fabric import other_hosts_leaves, untied, with_fabric
from topocheck.build.gpus import gpus_of, pci_id_of
from topocheck.build.links import device_links, link_disagreements
from topocheck.build.machine import machine_of, platform_seen, with_allowed_numa
from topocheck.build.nics import matrix_nic_ids, nics_of, port_disagreements
from topocheck.build.numa import numa_nodes_of, numa_of_roots, with_matrix_numa
from topocheck.build.one_node import keep_first_node
from topocheck.build.pci import chain_of, functions_of, links_of, parents_of, with_boot_limits
from topocheck.build.roles import with_roles
from topocheck.build.said import Said, sort_facts
from topocheck.facts import Evidence, Fact, Gap, PciFunction
from topocheck.graph import Device, Disagreement, Topology
from topocheck.hardware.pci_ids import is_nvswitch
from topocheck.names import NameSet

Pair = frozenset[str]
_MAX_GPUS = 64  # 16 were seen
_MAX_DEVICES = 256  # GPUs and NICs, the virtual ones last; every pair of them is in the report


@dataclass(slots=True)
class Distances:
    """The class of each pair, printed and PCIe, and what the matrix said in both directions."""

    classes: dict[Pair, str | None] = field(default_factory=dict)
    pcie: dict[Pair, str | None] = field(default_factory=dict)
    directed: dict[tuple[str, str], str] = field(default_factory=dict)
    lines: dict[str, Evidence] = field(default_factory=dict)
    differ: list[Disagreement] = field(default_factory=list)


def preload() -> None:
    """Import what is slow to import and used here: a live run has time for it while its commands run."""
    import networkx  # noqa: F401


def build(facts: Iterable[Fact], *, compute_nics: tuple[NameSet, ...] = ()) -> Topology:
    """The node that the facts describe; `compute_nics` are those the site names (none: found out)."""
    said = sort_facts(facts)
    keep_first_node(said)
    functions = functions_of(said.pci)
    parents = parents_of(functions)
    bridges = {b: f for b, f in functions.items() if f.is_bridge or f.port_type in ("root", "upstream", "downstream")}
    nodes = numa_nodes_of(said.numa)
    gpus, differ = with_matrix_numa(gpus_of(said, functions), said.matrices[0] if said.matrices else None, nodes)
    machine = with_allowed_numa(machine_of(said.hosts, said.gpus), nodes)
    nics = with_fabric(nics_of(said, functions), said.cabling, said.counters, machine.hostname)
    gpus, nics = _at_most(gpus, nics, said)
    chains = {d.id: chain_of(d.bdf, parents) if d.bdf else [] for d in (*gpus, *nics)}
    root_numa = numa_of_roots(functions, parents)
    far = _distances(said, gpus, nics, chains, bridges, root_numa)
    platform = platform_seen(machine, gpus, functions)
    nics, assignment = with_roles(nics, gpus, lambda a, b: far.pcie.get(frozenset((a, b))), compute_nics, platform)
    links = with_boot_limits(links_of(functions, parents), said.limits, functions)
    parents, inferred = _with_inferred_tree(parents, far.pcie, gpus, nics)
    return Topology(
        devices=(*gpus, *nics, *_nvswitches(functions)),
        links=device_links(links, gpus),
        parents=parents,
        bridges=bridges,
        functions=functions,
        root_numa=root_numa,
        numa_nodes=nodes,
        machine=replace(machine, platform=platform.name if platform else None),
        platform=platform,
        classes=far.classes,
        pcie_classes=far.pcie,
        inferred=inferred,
        whole_pci=any(listing.whole for listing in said.listings),
        cut_below=frozenset(bdf for listing in said.listings for bdf in listing.cut_below),
        has_matrix=bool(said.matrices),
        matrix_lines=far.lines,
        directed=far.directed,
        p2p=tuple(said.p2p),
        lost_gpus=tuple(g for g in said.gpus if g.lost),
        assignment=assignment,
        gaps=(*said.gaps, *untied(nics, said.cabling, said.counters)),
        disagreements=(*differ, *far.differ, *port_disagreements(said.rdma), *link_disagreements(links, gpus)),
        assumptions=tuple(said.assumptions),
        events=tuple(said.events),
        sisters=other_hosts_leaves(said.cabling, nics),
    )


def _at_most(gpus: list[Device], nics: list[Device], said: Said) -> tuple[list[Device], list[Device]]:
    """As many devices as every pair of them can be looked at; virtual functions are left out first."""
    kept = {d.id for d in [*gpus[:_MAX_GPUS], *sorted(nics, key=lambda nic: nic.is_vf)][:_MAX_DEVICES]}
    if len(kept) < len(gpus) + len(nics):
        said.gaps.append(Gap("devices", f"{len(gpus)} GPUs and {len(nics)} NICs: only {len(kept)} were looked at"))
    return [g for g in gpus if g.id in kept], [n for n in nics if n.id in kept]


def _distances(
    said: Said,
    gpus: list[Device],
    nics: list[Device],
    chains: Mapping[str, list[str]],
    bridges: Mapping[str, PciFunction],
    root_numa: Mapping[str, int],
) -> Distances:
    """Classes of all pairs: the matrix's word where it has one, else the tree's."""
    far = Distances()
    devices = {d.id: d for d in (*gpus, *nics)}
    for matrix in said.matrices:
        ids = matrix_nic_ids(Said(matrices=[matrix]), []) | {n: n.lower() for n in matrix.names if n[:3] == "GPU"}
        if matrix is said.matrices[0]:
            ids |= {c: i for c, i in matrix_nic_ids(replace_silent(said), [n.id for n in nics]).items() if i in devices}
        cells = near.directed_cells(matrix, {c: i for c, i in ids.items() if i in devices})
        chosen, differ = near.matrix_classes(cells, devices, matrix.witness)
        far.directed = cells | far.directed
        far.differ += differ
        far.lines = {ids[row]: line for row, line in matrix.lines.items() if row in ids} | far.lines
        far.classes = chosen | far.classes
        far.pcie |= {pair: c for pair, c in chosen.items() if c and not c.startswith("NV") and pair not in far.pcie}
    ordered = list(devices.values())
    for i, a in enumerate(ordered):
        for b in ordered[i + 1 :]:
            pair = frozenset((a.id, b.id))
            by_tree = near.tree_class(a, b, chains, bridges, root_numa)
            _take_tree_word(far, pair, by_tree, a, b)
    far.pcie = near.with_hidden_distances(far.pcie, gpus, nics)
    in_tree = all(chains[d.id] and chains[d.id][-1].startswith("root:") for d in ordered)
    if said.matrices and not in_tree and (odd := near.inconsistent(far.pcie, ordered)):
        said.gaps.append(Gap(said.matrices[0].witness, f"distances of {odd} do not fit one tree"))
    return far


def replace_silent(said: Said) -> Said:
    """The same matrices with gap and assumption lists of their own: asking twice must not say things twice."""
    return Said(matrices=said.matrices)


def _take_tree_word(far: Distances, pair: Pair, by_tree: str | None, a: Device, b: Device) -> None:
    printed = far.pcie.get(pair)
    if printed is None:
        far.pcie[pair] = by_tree
    elif by_tree and printed != by_tree and "PHB" not in (printed, by_tree):
        values = ((printed, "nvidia-smi topo -m"), (by_tree, "lspci -vv"))
        far.differ.append(Disagreement(f"{a.id} {b.id}", "class", values, printed))
    far.classes.setdefault(pair, far.pcie[pair])


def _with_inferred_tree(
    parents: Mapping[str, str], pcie: Mapping[Pair, str | None], gpus: list[Device], nics: list[Device]
) -> tuple[dict[str, str], frozenset[str]]:
    """For devices whose place no PCI listing gives: switches (PIX), switches above them (PXB) and host bridges (PHB)
    from the matrix's distances."""
    loose = [d for d in (*gpus, *nics) if not (d.bdf and d.bdf in parents)]
    grown = dict(parents)
    inferred: set[str] = set()
    tops = {d.id: d.id for d in loose}
    for cls, found in near.groups(pcie, loose):
        kind = {"PIX": "switch", "PXB": "switches", "PHB": "root"}[cls]
        for i, members in enumerate(found):
            if cls != "PHB" and len({tops[m] for m in members}) < 2:
                continue
            name = f"{kind}:matrix{i}"
            inferred.add(name)
            for member in members:
                grown.setdefault(tops[member], name)
                tops[member] = name
    return grown, frozenset(inferred)


def _nvswitches(functions: Mapping[str, PciFunction]) -> list[Device]:
    return [
        Device(id=f.bdf, kind="nvswitch", bdf=f.bdf, pci_id=pci_id_of(f), model=f.name,
               numa_node=f.numa_node, pci=f, lines=f.lines)
        for f in functions.values()
        if is_nvswitch(f)
    ]  # fmt: skip


__all__ = ["build"]
