"""
NCCL's settings keep a GPU from its own NIC, or NCCL would choose a farther one.

Why it costs: the GPU's traffic takes a NIC across the CPU or shares another GPU's, and its own idles.

Usual cause: an NCCL_IB_HCA copied from another kind of node, or one that lists ports that were renamed.

Repair: name all compute NICs in NCCL_IB_HCA ("=mlx5_0,…"), or unset it where NCCL finds them by itself.

Silent when: no NCCL_* variable is in the input (`-v` shows the choice of NCCL 2.27); NICs equally near are taken in
another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import RANK, Device, Topology
from topocheck.hardware.network import FAR_BRIDGE_LOSS
from topocheck.model import Scenario
from topocheck.nccl import VERSION, chosen_nics, matches
from topocheck.nearness import no_distance, row_of
from topocheck.patches import SetField

ID = "AFF006"
NAME = "nccl-picks-other-nic"


def check(node: Topology) -> Iterator[Answer]:
    """NCCL_IB_HCA against each GPU's own NICs; NCCL's choice against the best assignment."""
    reason = no_distance(node)
    if reason or all(n.efa for n in node.compute_nics):
        yield NotApplicable(reason or "EFA's plugin chooses, not NCCL")
        return
    environ = node.machine.nccl_environ
    if not environ:
        yield Skip("no NCCL_* variable in the input")
        return
    wanted = environ.get("NCCL_IB_HCA", "")
    if all(n.id == n.bdf for n in node.compute_nics):
        yield Skip("no RDMA name of a NIC in the input")
        return
    left_out = {gpu: nics for gpu, own in node.assignment.items() if (nics := _left_out(node, own, wanted))}
    if left_out:
        yield _left_out_finding(node, left_out, wanted)
    chosen = {gpu: nics for gpu, nics in chosen_nics(node).items() if gpu not in left_out}
    if worse := [gpu for gpu, nics in chosen.items() if _worse(node, gpu, nics)]:
        yield _choice_finding(node, worse, "farther than the GPU's own NIC")
    elif doubled := _doubled(node, chosen):
        yield _choice_finding(node, doubled, "though each GPU has a NIC of its own")


def _left_out(node: Topology, own: tuple[str, ...], wanted: str) -> list[str]:
    return [nic for nic in own if not matches(wanted, node.by_id[nic]) and node.by_id[nic].state != "down"]


def _worse(node: Topology, gpu: str, chosen: tuple[Device, ...]) -> bool:
    """Farther than the GPU's own NIC that is up."""
    own = [n for n in node.assignment.get(gpu, ()) if node.by_id[n].state == "active"]
    if not own or not chosen:
        return False
    return min(RANK[node.pcie_class(gpu, n.id)] for n in chosen) > min(RANK[node.pcie_class(gpu, n)] for n in own)


def _doubled(node: Topology, chosen: dict[str, tuple[Device, ...]]) -> list[str]:
    """GPUs that would take another GPU's NIC only, where there is one for each."""
    first = Counter(nics[0].id for nics in chosen.values() if nics)
    one_each = len(node.compute_nics) >= len(node.gpus)
    return [gpu for gpu, nics in chosen.items() if one_each and len(nics) == 1 and first[nics[0].id] > 1]


def _left_out_finding(node: Topology, left_out: dict[str, list[str]], wanted: str) -> Finding:
    line = node.machine.lines.get("NCCL_IB_HCA")
    pairs = ", ".join(f"{gpu} {'+'.join(nics)}" for gpu, nics in left_out.items())
    unset = {name: value for name, value in (node.machine.nccl_environ or {}).items() if name != "NCCL_IB_HCA"}
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        subjects=tuple(left_out),
        message=f'{pairs} left out by NCCL_IB_HCA ("{wanted}"), though each is its GPU\'s own NIC',
        repair="Name all compute NICs in NCCL_IB_HCA, or unset it",
        evidence=(line,) if line else (),
        patches=(SetField("", "nccl_environ", unset),),
        scenarios=tuple(Scenario("gpu-nic", gpu) for gpu in left_out),
        price_kind="typical",
        loss_range=FAR_BRIDGE_LOSS,
    )


def _choice_finding(node: Topology, worse: list[str], why: str) -> Finding:
    chosen = chosen_nics(node)
    said = ", ".join(f"{gpu} {'+'.join(n.id for n in chosen[gpu])}" for gpu in worse)
    return Finding(
        rule=ID,
        name=NAME,
        severity="info",
        subjects=tuple(worse),
        message=f"{said}: what NCCL {VERSION} would take, {why}",
        repair="Give NCCL a topology file, or name each GPU's NIC to its process (NCCL_IB_HCA)",
        evidence=row_of(node, node.by_id[worse[0]]),
    )
