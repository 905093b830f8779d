"""Which nodes a job of N gets, what the slowest of them makes of its collectives, and which nodes no job should get."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from topocheck.fleet.record import RANK, NodeRecord
from topocheck.fleet.report import Job, LeftOut, Rails

_VERDICTS = {"healthy": 0, "degraded": 1, "unknown": 2}  # the order in which nodes are taken; failed ones never are
_REASON_CHARS = 120
Family = tuple[str | None, str | None, int]


class _Candidate(NamedTuple):
    """A node that may be taken. Tier: the lower the better, those of one tier are as good as each other."""

    node: NodeRecord
    verdict: int
    slower: int  # than is usual, in whole GB/s; of a node whose rate is not known, as if it had none
    pod: int  # -1: not known

    @property
    def tier(self) -> tuple[int, int]:
        return self.verdict, self.slower


def exclude(nodes: Sequence[NodeRecord], cabling: Rails) -> tuple[LeftOut, ...]:
    """Nodes with an error that nobody waived, their own or of their cables; never one that is just unknown or slow."""
    why: dict[str, str] = {}
    for node in nodes:
        worst = min(node.faults, key=lambda fault: RANK[fault.severity], default=None)
        if node.verdict == "failed" or (worst and worst.severity == "error"):
            why[node.host] = f"failed: {_of_node(node)}"
    for fault in cabling.faults:
        if fault.severity == "error":
            for end in fault.ends:
                nic = "" if end.nic in fault.message else f"{end.nic} "
                why.setdefault(end.host, _short(f"{fault.rule} {nic}{fault.message}"))
    return tuple(LeftOut(host, why[host]) for host in sorted(why) if host)


def job(wanted: int, nodes: Sequence[NodeRecord], cabling: Rails, old: Collection[str] = ()) -> Job:
    """The nodes for a job of `wanted`: of one family if any has enough, the healthy and fast ones first, in as few pods
    as may be; how hosts with an `old` report are nobody knows. Left out are those that are worse than the ones chosen,
    and why; those of their kind first."""
    failed = {entry.host: entry.why for entry in exclude(nodes, cabling)}
    families: dict[Family, list[NodeRecord]] = defaultdict(list)
    for node in nodes:
        if node.host not in failed:
            families[_family(node)].append(node)
    pods = {host: number for number, pod in enumerate(cabling.pods) for host in pod.hosts}
    usual = {family: _usual(members) for family, members in families.items()}
    stale = frozenset(old)
    candidates = {
        f: sorted((_candidate(n, usual[f], pods, stale) for n in families[f]), key=_goodness) for f in families
    }
    chosen: list[_Candidate] = []
    for family in _in_order(candidates, usual, wanted):
        chosen += _take(candidates[family], wanted - len(chosen))
    hosts = {candidate.node.host for candidate in chosen}
    taken = {_family(c.node) for c in chosen}
    own = {node.host for node in nodes if _family(node) in taken}
    rest = [c for found in candidates.values() for c in found if c.node.host not in hosts]
    left = [LeftOut(host, why) for host, why in failed.items()] + _passed_over(rest, chosen)
    rates = [(c.node.nics_gb_per_s, c.node.host) for c in chosen if c.node.nics_gb_per_s is not None]
    rate, slowest = min(rates, default=(None, None))
    most = max((usual[_family(c.node)] or 0.0 for c in chosen), default=0.0)
    return Job(
        wanted=wanted,
        chosen=tuple(sorted(hosts)),
        left_out=tuple(sorted(left, key=lambda entry: (entry.host not in own, entry))),
        slowest=slowest,
        slowest_gb_per_s=rate,
        usual_gb_per_s=most or None,
        enough=len(chosen) >= wanted,
    )


def _family(node: NodeRecord) -> Family:
    """Nodes that one job can share: a NIC more or less is seen in their GB/s."""
    return node.kind.platform, node.kind.gpu_model, node.kind.gpus


def _usual(nodes: Iterable[NodeRecord]) -> float | None:
    """The rate that most of them have, GB/s; the higher of two that are as common."""
    rates = Counter(node.nics_gb_per_s for node in nodes if node.nics_gb_per_s is not None)
    return max(rates, key=lambda rate: (rates[rate], rate), default=None)


def _candidate(node: NodeRecord, usual: float | None, pods: Mapping[str, int], old: Set[str]) -> _Candidate:
    slower = max(0.0, (usual or 0.0) - (node.nics_gb_per_s or 0.0))
    verdict = _VERDICTS["unknown"] if node.host in old else _VERDICTS.get(node.verdict, 2)
    return _Candidate(node, verdict, round(slower), pods.get(node.host, -1))


def _goodness(candidate: _Candidate) -> tuple[object, ...]:
    return *candidate.tier, candidate.node.host


def _in_order(
    candidates: Mapping[Family, Sequence[_Candidate]], usual: Mapping[Family, float | None], wanted: int
) -> list[Family]:
    """The family that has enough, with the best of its worst nodes and the fastest NICs first; if none has, the largest
    first."""

    def order(family: Family) -> tuple[object, ...]:
        found = candidates[family]
        enough = len(found) >= wanted
        worst = found[wanted - 1].tier if enough else ()
        return not enough, worst, -(usual[family] or 0.0) if enough else 0.0, -len(found), str(family)

    return sorted(candidates, key=order)


def _take(candidates: Sequence[_Candidate], wanted: int) -> list[_Candidate]:
    """The first `wanted`; those of the last tier, of which not all are needed, in the fewest pods."""
    if wanted <= 0 or wanted >= len(candidates):
        return list(candidates[: max(wanted, 0)])
    last = candidates[wanted - 1].tier
    better = [c for c in candidates if c.tier < last]
    return better + _in_few_pods([c for c in candidates if c.tier == last], wanted - len(better), better)


def _in_few_pods(candidates: Iterable[_Candidate], wanted: int, chosen: Sequence[_Candidate]) -> list[_Candidate]:
    """Pods in use already, then the smallest that holds all that are still wanted, else the largest."""
    pods: dict[int, list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        pods[candidate.pod].append(candidate)
    used = Counter(c.pod for c in chosen if c.pod >= 0)
    found: list[_Candidate] = []
    while pods and len(found) < wanted:
        need = wanted - len(found)
        fitting = [pod for pod in pods if len(pods[pod]) >= need and pod >= 0]
        if began := [pod for pod in pods if used[pod]]:
            pod = min(began, key=lambda p: (-used[p], p))
        elif fitting:
            pod = min(fitting, key=lambda p: (len(pods[p]), p))
        else:
            pod = min(pods, key=lambda p: (p < 0, -len(pods[p]), p))
        found += pods.pop(pod)[:need]
    return found


def _passed_over(rest: Iterable[_Candidate], chosen: Sequence[_Candidate]) -> list[LeftOut]:
    """Those that would make the job worse; who is as good as the chosen is merely not needed."""
    families = {_family(c.node) for c in chosen}
    worst = max((c.tier for c in chosen), default=(0, 0))
    found = []
    for candidate in rest:
        node = candidate.node
        if _family(node) not in families:
            found.append(LeftOut(node.host, f"another kind of node: {node.kind.platform or node.kind.gpu_model}"))
        elif candidate.verdict > _VERDICTS.get(node.verdict, 2):
            found.append(LeftOut(node.host, f"an old report, of {node.time[:10]}"))
        elif candidate.verdict:
            found.append(LeftOut(node.host, f"{node.verdict}: {_of_node(node)}"))
        elif candidate.tier > worst:
            found.append(LeftOut(node.host, _rate(node)))
    return found


def _rate(node: NodeRecord) -> str:
    rate = node.nics_gb_per_s
    return "its NICs' rate is not known" if rate is None else f"slower: {rate:g} GB/s, all NICs together"


def _of_node(node: NodeRecord) -> str:
    """Its worst finding, or that there is none to name."""
    worst = min(node.faults, key=lambda f: (RANK[f.severity], -(f.loss or 0.0), f.rule, f.device), default=None)
    if worst is None or node.verdict == "unknown":
        return f"{len(node.skipped)} rules could not see" if node.skipped else "no finding says why"
    said = worst.message if worst.message.startswith(worst.device) else f"{worst.device} {worst.message}"
    return _short(f"{worst.rule} {said}")


def _short(text: str) -> str:
    return text if len(text) <= _REASON_CHARS else f"{text[: _REASON_CHARS - 1]}…"
