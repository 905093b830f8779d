"""The pairs in `nvml.json`: peer-to-peer status, and the distance matrix that nvidia-smi topo -m makes of the same
calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

from topocheck.facts import Evidence, Fact, Matrix, P2pMatrix, full_bdf

_INPUT = "nvml.json"
_WITNESS = "nvml"
_ANCESTORS = {10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}  # nvmlGpuTopologyLevel_t
_STATUS = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}  # nvmlGpuP2PStatus_t
_CAPABILITIES = {"p2p_read": "r", "p2p_write": "w", "p2p_nvlink": "n", "p2p_atomics": "a", "p2p_pcie": "p"}
_SWITCH = 2  # nvmlIntNvLinkDeviceType_t
_MOST_GPUS = 512

Cells = dict[tuple[str, str], str]


def matrices(records: list[dict[str, Any]]) -> Iterator[Fact]:
    """One matrix a capability, and one of distances."""
    pairs = [r for r in records if isinstance(r.get("gpu"), int) and isinstance(r.get("to"), int)]
    numbers = sorted({n for pair in pairs for n in (pair["gpu"], pair["to"])})
    names = tuple(f"GPU{n}" for n in numbers)
    if not 1 < len(numbers) <= _MOST_GPUS:
        return
    for key, capability in _CAPABILITIES.items():
        cells: Cells = {}
        for pair in pairs:
            a, b = f"GPU{pair['gpu']}", f"GPU{pair['to']}"
            there, back = pair.get(key), pair.get(f"{key}_back", pair.get(key))
            if isinstance(there, int) and isinstance(back, int):
                cells |= {(a, b): _STATUS.get(there, "U"), (b, a): _STATUS.get(back, "U")}
        if cells:
            yield P2pMatrix(_WITNESS, capability, names, cells, _rows(names, cells, f"P2P {capability}"))
    cells = _distances(pairs, _nvlinks(records))
    if cells:
        lines = _rows(names, cells, "distance")
        yield Matrix(_WITNESS, names, cells, {}, {}, lines=lines)


def _rows(names: tuple[str, ...], cells: Cells, what: str) -> Mapping[str, Evidence]:
    return {
        name: Evidence(_INPUT, None, f"{what} {name}: {' '.join(cells.get((name, other), 'X') for other in names)}")
        for name in names
    }


def _distances(pairs: list[dict[str, Any]], nvlinks: Mapping[tuple[int, int], int]) -> Cells:
    """NV<n> for pairs with NVLinks between them, else what their PCIe paths have in common."""
    cells: Cells = {}
    for pair in pairs:
        a, b = pair["gpu"], pair["to"]
        ancestor = pair.get("ancestor")
        word = _ANCESTORS.get(ancestor) if isinstance(ancestor, int) else None
        for x, y in ((a, b), (b, a)):
            token = f"NV{nvlinks[x, y]}" if nvlinks.get((x, y)) else word
            if token:
                cells[f"GPU{x}", f"GPU{y}"] = token
    return cells


def _nvlinks(records: list[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """How many active NVLinks join each pair: those whose far end is the other GPU, or both GPUs' links to switches."""
    bdfs = {r["gpu"]: full_bdf(str(r["pci"].get("busId"))) for r in records if isinstance(r.get("pci"), dict)}
    links = {
        r["gpu"]: [x for x in r["links"] if isinstance(x, dict) and x.get("state") == 1]
        for r in records
        if isinstance(r.get("links"), list)
    }
    to_switch = {gpu: sum(x.get("remote_type") == _SWITCH for x in active) for gpu, active in links.items()}
    counts: dict[tuple[int, int], int] = {}
    for a, b in permutations(list(links)[:_MOST_GPUS], 2):
        direct = sum(full_bdf(str(x.get("remote"))) == bdfs.get(b) is not None for x in links[a])
        counts[a, b] = direct or min(to_switch[a], to_switch[b])
    return counts
