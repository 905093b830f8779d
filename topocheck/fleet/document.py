"""The fleet as one line of JSON, `topocheck.fleet/1` (schema: `fleet-1.schema.json` beside this).

All keys are always there; null means not known. Host names are folded as ClusterShell and Slurm write them,
"gpu[017,044]", "" for none. Gb/s and GB/s are of one direction, losses and shares are parts of one.
"""

from __future__ import annotations

import json

from topocheck.fleet.record import VERDICTS
from topocheck.fleet.report import Comparison, Fleet, Group, Job, Leaf, Pod, RailFault, Rails, Unlike
from topocheck.fleet.words import folded, left_out_of
from topocheck.formats.json import clean

SCHEMA = "topocheck.fleet/1"


def render(fleet: Fleet) -> str:
    """The document, one line with its line end; ASCII, so that any terminal or log takes it."""
    document = {key: clean(value) for key, value in as_dict(fleet).items()}
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def as_dict(fleet: Fleet) -> dict[str, object]:
    """The document as Python values, not rounded yet."""
    unread = fleet.unread
    return {
        "schema": SCHEMA,
        "version": fleet.version,
        "time": fleet.time,
        "verdict": fleet.verdict,
        "reason": fleet.reason,
        "nodes": len(fleet.hosts),
        "verdicts": {verdict: len(fleet.verdicts.get(verdict, ())) for verdict in VERDICTS},
        "hosts": {verdict: folded(fleet.verdicts.get(verdict, ())) for verdict in VERDICTS},
        "kinds": [kind._asdict() | {"nodes": number} for kind, number in fleet.kinds],
        "groups": [_group(group) for group in fleet.groups],
        "unlike": [_unlike(entry) for entry in fleet.unlike],
        "rails": _rails(fleet.rails),
        "exclude": folded(fleet.exclude),
        "missing": folded(fleet.missing),
        "unexpected": folded(fleet.unexpected),
        "unread": {cause: getattr(unread, cause) for cause in ("torn", "duplicate", "schema", "foreign")},
        "unread_examples": unread.examples,
        "comparisons": [_comparison(entry) for entry in fleet.comparisons],
        "job": None if fleet.job is None else _job(fleet.job),
        "versions": fleet.versions,
        "skipped": dict(fleet.skipped),
        "newest": fleet.newest,
        "old": folded(fleet.old),
    }


def _group(group: Group) -> dict[str, object]:
    return {
        "rule": group.rule,
        "name": group.name,
        "severity": group.severity,
        "device": group.device,
        "bdf": group.bdf,
        "hosts": folded(group.hosts),
        "count": len(group.hosts),
        "worst_loss": group.worst_loss,
        "message": group.message,
        "effect": group.effect,
    }


def _unlike(entry: Unlike) -> dict[str, object]:
    others = [
        {"value": other.value, "hosts": folded(other.hosts), "count": len(other.hosts), "follows": other.follows}
        for other in entry.others
    ]
    return entry._asdict() | {"kind": entry.kind._asdict(), "others": others}


def _rails(rails: Rails) -> dict[str, object]:
    return {
        "why_none": rails.why_none,
        "by": rails.by,
        "pods": [_pod(pod) for pod in rails.pods],
        "faults": [_fault(fault) for fault in rails.faults],
        "leaves": [_leaf(leaf) for leaf in rails.leaves],
        "bisection_gbit_per_s": rails.bisection_gbit_per_s,
        "notes": rails.notes,
    }


def _pod(pod: Pod) -> dict[str, object]:
    leaves = [{"rail": rail, "port": port, "leaf": leaf} for rail, port, leaf in pod.leaf_of]
    return {"hosts": folded(pod.hosts), "count": len(pod.hosts), "leaves": leaves}


def _fault(fault: RailFault) -> dict[str, object]:
    return fault._asdict() | {"ends": [end._asdict() for end in fault.ends]}


def _leaf(leaf: Leaf) -> dict[str, object]:
    return leaf._asdict() | {"oversubscription": leaf.oversubscription}


def _comparison(entry: Comparison) -> dict[str, object]:
    changes = [change._asdict() | {"hosts": folded(change.hosts)} for change in entry.changes]
    hosts = {"only_then": folded(entry.only_then), "only_now": folded(entry.only_now)}
    return entry._asdict() | hosts | {"changes": changes}


def _job(job: Job) -> dict[str, object]:
    left_out = [{"hosts": folded(hosts), "why": why} for hosts, why in left_out_of(job)]
    return job._asdict() | {"chosen": folded(job.chosen), "left_out": left_out}
