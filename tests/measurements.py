"""Published measurements against topocheck's own constants: tests/measured/rows.tsv and losses.tsv.

A path names what binds: a function of topocheck and its arguments ("copy 32 16": a copy over 32 GT/s x16). Every
figure is a constant of its class times what the link facts say, so the constant refitted without a source is ours
times the median of measured over predicted of the class's other sources.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from itertools import permutations
from math import inf
from pathlib import Path
from statistics import median
from typing import NamedTuple

from topocheck.hardware import collectives, gpus, network, pcie
from topocheck.model import Flow, fair_share

FOLDER = Path(__file__).parent / "measured"
# Classes where only a range is printed, named before anything is counted: host memory decides, not topology.
TYPICAL = ("staged", "far_nic")


class Row(NamedTuple):
    """One published figure. class_ is the constant it tests, "" where nothing is predicted."""

    id: str
    class_: str
    path: str
    measured: float
    unit: str
    system: str
    why_not: str
    source: str

    @property
    def predicted(self) -> float:
        """GB/s by topocheck's constants."""
        return at(self.path)


class Loss(NamedTuple):
    """A figure with a fault and without. found and repaired are paths; where they are empty, `rule` prints a range."""

    id: str
    fault: str
    before: float
    after: float
    found: str
    repaired: str
    rule: str
    source: str

    @property
    def remains(self) -> float:
        """Measured: with the fault over without."""
        return self.before / self.after

    @property
    def predicted(self) -> float | None:
        """Ours, None where a range is printed."""
        return at(self.found) / at(self.repaired) if self.found else None

    @property
    def range(self) -> tuple[float, float]:
        """What may remain by the range of loss the rule prints."""
        low, high = RANGES[self.rule]
        return 1 - high, 1 - low

    @property
    def hit(self) -> bool:
        """Within 0.10 where we compute, in our range where we say typical."""
        if self.predicted is not None:
            return abs(self.predicted - self.remains) <= 0.10
        return self.range[0] <= self.remains <= self.range[1]


RANGES = {"AFF001": network.FAR_SOCKET_LOSS, "AFF002": network.FAR_BRIDGE_LOSS, "P2P001": pcie.STAGED_LOSS}


def rows() -> list[Row]:
    """Every row of groups 1 to 5 (host copies, peer copies, GPU-NIC, one node, several nodes)."""
    return [Row(a, b, c, float(d), *rest) for a, b, c, d, *rest in _table("rows.tsv")]


def losses() -> list[Loss]:
    """Published pairs of a faulty and a healthy figure."""
    return [Loss(a, b, float(c), float(d), *rest) for a, b, c, d, *rest in _table("losses.tsv")]


def _table(name: str) -> list[list[str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


def at(path: str) -> float:
    """GB/s on a path; the arguments are a part's name, counts, GT/s, lanes and Gb/s."""
    name, *words = path.split()
    return PATHS[name](*words)


def without_own_source(row: Row, of_class: Iterable[Row]) -> float | None:
    """The prediction with the constant fitted on the other sources of the class; None if there is no other."""
    others = [r.measured / r.predicted for r in of_class if r.class_ == row.class_ and r.source != row.source]
    return row.predicted * median(others) if others else None


def error(predicted: float, row: Row) -> float:
    """Predicted over measured, less 1."""
    return predicted / row.measured - 1


def errors(of_class: list[Row], fitted_on: list[Row]) -> tuple[list[float], list[float]]:
    """Absolute relative errors: by our constants, and by constants fitted without the row's own source."""
    ours = [abs(error(row.predicted, row)) for row in of_class]
    pairs = [(row, without_own_source(row, fitted_on)) for row in of_class]
    return ours, [abs(error(refitted, row)) for row, refitted in pairs if refitted is not None]


def percentile(values: Iterable[float], share: float) -> float:
    """Linear between the two nearest, as numpy and spreadsheets do."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _copy(gts: str, lanes: str) -> float:
    return pcie.achievable_gb_per_s(float(gts), int(lanes))


def _copies(count: str, gts: str, lanes: str) -> float:
    flows = [Flow(str(i), ((str(i), "up"),), inf) for i in range(int(count))]
    return sum(fair_share(flows, {(f.owner, "up"): _copy(gts, lanes) for f in flows}))


def _shared(count: str, gts: str, lanes: str) -> list[float]:
    flows = [Flow(str(i), (("uplink", "up"),), inf) for i in range(int(count))]
    return fair_share(flows, {("uplink", "up"): _copy(gts, lanes)})


def _to_host(switches: str, each: str, gts: str, lanes: str) -> float:
    """All GPUs of some switches to host memory at once."""
    return sum(sum(_shared(each, gts, lanes)) for _ in range(int(switches)))


def _all_to_all(switches: str, each: str, gts: str, lanes: str) -> float:
    """Every GPU to every other at once, in bulk: the slowest flow sets the time of all."""
    seats = [(s, g) for s in range(int(switches)) for g in range(int(each))]
    flows = []
    for a, b in permutations(seats, 2):
        crosses = [(f"{a}", "up"), (f"{b}", "down")]
        if a[0] != b[0]:
            crosses += [(f"{a[0]}", "up"), (f"{b[0]}", "down")]
        flows.append(Flow(f"{a}", tuple(crosses), inf))
    links = {resource for flow in flows for resource in flow.crosses}
    return len(flows) * min(fair_share(flows, dict.fromkeys(links, _copy(gts, lanes))))


def _part(name: str) -> gpus.Part:
    part = gpus.part_of(f"NVIDIA {name.replace('-', ' ', 1)}")
    if part is None:
        raise LookupError(name)
    return part


def _nvlink(part: str, links: str) -> float:
    return gpus.nvlink_achievable_gb_per_s(int(links), _part(part))


def _nvls(part: str, links: str) -> float:
    return collectives.nvls_gb_per_s(int(links), _part(part)) or 0.0


def _nics_behind(count: str, gbit: str, gts: str, lanes: str) -> float:
    """A ring over NICs whose slowest edge may be one PCIe link."""
    return min(collectives.nics_gb_per_s(int(count) * float(gbit)), pcie.ring_gb_per_s(float(gts), int(lanes)))


def _two_nodes(part: str, links: str, per_node: str, count: str, gbit: str) -> float:
    """A tree over the NICs, up to what the node itself does."""
    inside = _nvls(part, links) or gpus.nvlink_ring_gb_per_s(int(links), _part(part))
    return min(collectives.tree_of_two_gb_per_s(int(count) * float(gbit), int(per_node)), inside)


PATHS: dict[str, Callable[..., float]] = {
    "copy": _copy,
    "copies": _copies,
    "both_ways": lambda gts, lanes: 2 * _copy(gts, lanes),
    "one_uplink": lambda count, gts, lanes: sum(_shared(count, gts, lanes)),
    "half_of_uplink": lambda gts, lanes: _shared("2", gts, lanes)[0],
    "to_host": _to_host,
    "all_to_all": _all_to_all,
    "nvlink": _nvlink,
    "nvlink_both_ways": lambda part, links: 2 * _nvlink(part, links),
    "ring": lambda part, links: gpus.nvlink_ring_gb_per_s(int(links), _part(part)),
    "nvls": _nvls,
    "pcie_ring": lambda gts, lanes: pcie.ring_gb_per_s(float(gts), int(lanes)),
    "nics_behind": _nics_behind,
    "port": lambda gbit: network.achievable_gb_per_s(float(gbit)),
    "port_behind": lambda gbit, gts, lanes: min(network.achievable_gb_per_s(float(gbit)), _copy(gts, lanes)),
    "nics": lambda count, gbit: collectives.nics_gb_per_s(int(count) * float(gbit)),
    "two_nodes": _two_nodes,
    "tcp": lambda: collectives.TCP_GB_PER_S,
    "far_port": lambda gbit: network.achievable_gb_per_s(float(gbit)) * collectives.FAR_NIC,
    "staged": lambda gts, lanes: pcie.staged_gb_per_s(float(gts), int(lanes)),
    "staged_both_ways": lambda gts, lanes: 2 * pcie.staged_gb_per_s(float(gts), int(lanes)),
    "staged_one_uplink": lambda gts, lanes: pcie.staged_gb_per_s(float(gts), int(lanes)),
}
