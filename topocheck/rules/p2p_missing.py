"""
Two GPUs that meet on NVLink or in one PCIe switch cannot read or write each other's memory.

Why it costs: copies between them are staged through host memory: 21 to 66 % slower on PCIe, about a tenth of NVLink.

Usual cause: peer-to-peer disabled by a driver option (regkey), a chipset the driver does not trust, a fabric that is
not up.

Repair: remove the option that disables peer-to-peer (`nvidia-smi topo -p2p r` names the reason), update the driver.

Silent when: `topo -p2p n` only; one of the two is in MIG mode, a vGPU or confidential; the pair crosses sockets;
products that never have peer-to-peer (GeForce): info.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from topocheck.facts import Evidence
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip
from topocheck.graph import RANK, SWITCH_LOCAL, Device, Topology
from topocheck.hardware.gpus import NVLINK_PAIR_STAGED_REMAINS
from topocheck.hardware.pcie import STAGED_LOSS
from topocheck.model import Scenario
from topocheck.nvlink import on_nvlink
from topocheck.patches import SetP2p

ID = "P2P001"
NAME = "p2p-missing"
_REASONS = {
    "NS": "not supported", "GNS": "GPU not supported", "CNS": "chipset not supported", "TNS": "topology not supported",
    "DR": "disabled by regkey", "U": "unknown to the driver",
}  # fmt: skip


def check(node: Topology) -> Iterator[Answer]:
    """Read and write status of every pair that shares NVLink or a switch."""
    if len(node.gpus) < 2:
        yield NotApplicable("fewer than two GPUs")
        return
    if not node.p2p_read_write:
        yield Skip("no nvidia-smi topo -p2p r or w in the input")
        return
    unknown = 0
    for a, b in combinations(node.gpus, 2):
        bad = _status(node, a, b)
        if bad is None or _exempt(a) or _exempt(b) or not _near(node, a, b):
            continue
        if a.part is None and not on_nvlink(node, a, b):
            unknown += 1
        else:
            yield _finding(node, a, b, *bad)
    if unknown:
        yield Skip(f"{unknown} pairs of a product not known: it may never have peer-to-peer", partial=True)


def _status(node: Topology, a: Device, b: Device) -> tuple[str, Evidence | None] | None:
    """The first read or write status that is not OK, with its row."""
    for matrix in node.p2p_read_write:
        for row, column in ((a, b), (b, a)):
            cell = matrix.cells.get((row.id.upper(), column.id.upper()))
            if cell is not None and cell not in ("OK", "X"):
                return cell, matrix.lines.get(row.id.upper())
    return None


def _exempt(gpu: Device) -> bool:
    return gpu.mig or bool(gpu.gpu and (gpu.gpu.vgpu or gpu.gpu.confidential))


def _near(node: Topology, a: Device, b: Device) -> bool:
    return on_nvlink(node, a, b) or RANK[node.pcie_class(a.id, b.id)] <= SWITCH_LOCAL


def _finding(node: Topology, a: Device, b: Device, status: str, line: Evidence | None) -> Finding:
    nvlink = on_nvlink(node, a, b)
    board = a.part.board == "nvswitch" if a.part else len(node.gpus) >= 8
    never = not nvlink and bool(a.part and a.part.no_p2p)
    severity: Severity = "info" if never else "error" if nvlink and board else "warning"
    path = node.pair_class(a.id, b.id)
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(a.id, b.id),
        message=f"{a.id} and {b.id} have no peer-to-peer although they meet at {path} "
        f"({_REASONS.get(status, status)}{', as this product never has' if never else ''})",
        repair="Remove what disables peer-to-peer (driver option, chipset setting) and check nvidia-smi topo -p2p r",
        evidence=(line,) if line else (),
        patches=(SetP2p(a.id, b.id),),
        scenarios=(Scenario("gpu-pair", a.id, b.id),),
        price_kind="typical",
        loss_range=(1 - NVLINK_PAIR_STAGED_REMAINS, 1 - NVLINK_PAIR_STAGED_REMAINS) if nvlink else STAGED_LOSS,
        covers=frozenset({a.id, b.id}),
    )
