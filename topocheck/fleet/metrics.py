"""The fleet for node_exporter's textfile collector: a bounded number of series however many nodes there are."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Iterator
from time import strptime

from topocheck.fleet.record import SEVERITIES, VERDICTS
from topocheck.fleet.report import Fleet
from topocheck.formats.prometheus import Sample, exposition

MOST_SERIES = 500
_UTC = "%Y-%m-%dT%H:%M:%SZ"
_BYTES_PER_GBIT = 1e9 / 8
_ABOUT = {
    "topocheck_fleet_info": "The topocheck that read the reports, and its verdict.",
    "topocheck_fleet_last_run_timestamp_seconds": "When the fleet was read.",
    "topocheck_fleet_nodes": "Nodes with a report, by the verdict of their report.",
    "topocheck_fleet_missing_nodes": "Nodes that were expected and have no report.",
    "topocheck_fleet_old_nodes": "Nodes whose report is a day older than the newest, or more.",
    "topocheck_fleet_newest_report_timestamp_seconds": "When the newest report was written.",
    "topocheck_fleet_unexpected_nodes": "Nodes with a report that were not expected.",
    "topocheck_fleet_excluded_nodes": "Nodes that no job should get.",
    "topocheck_fleet_unlike_nodes": "Nodes unlike the majority of their kind in what no rule speaks of.",
    "topocheck_fleet_check_nodes": "Nodes with a finding of this rule and severity.",
    "topocheck_fleet_worst_loss_ratio": "The most that a rule's findings cost a path on any node, where computed.",
    "topocheck_fleet_rail_faults": "Cabling faults, by rule and severity.",
    "topocheck_fleet_bisection_bytes_per_second": "Half of the hosts to the other half, one direction, by the cables.",
    "topocheck_fleet_unread": "Lines and files that could not be used, by cause.",
}


def render(fleet: Fleet) -> str:
    """The text a `*.prom` file holds; what would be too much is cut at its end."""
    return exposition(list(dict.fromkeys(_samples(fleet)))[:MOST_SERIES], _ABOUT)


def _samples(fleet: Fleet) -> Iterator[Sample]:
    """Every figure, those of the whole fleet first."""
    name = "topocheck_fleet_"
    yield Sample(f"{name}info", (("version", fleet.version), ("schema", "1"), ("verdict", fleet.verdict)), 1)
    yield Sample(f"{name}last_run_timestamp_seconds", (), timegm(strptime(fleet.time, _UTC)))
    for verdict in VERDICTS:
        yield Sample(f"{name}nodes", (("verdict", verdict),), len(fleet.verdicts.get(verdict, ())))
    yield Sample(f"{name}missing_nodes", (), len(fleet.missing))
    yield Sample(f"{name}old_nodes", (), len(fleet.old))
    if fleet.newest is not None:
        yield Sample(f"{name}newest_report_timestamp_seconds", (), timegm(strptime(fleet.newest, _UTC)))
    yield Sample(f"{name}unexpected_nodes", (), len(fleet.unexpected))
    yield Sample(f"{name}excluded_nodes", (), len(fleet.exclude))
    odd = {host for entry in fleet.unlike if entry.accused for other in entry.unexplained for host in other.hosts}
    yield Sample(f"{name}unlike_nodes", (), len(odd))
    for cause in ("torn", "duplicate", "schema", "foreign"):
        yield Sample(f"{name}unread", (("cause", cause),), getattr(fleet.unread, cause))
    if fleet.rails.bisection_gbit_per_s is not None:
        figure = fleet.rails.bisection_gbit_per_s * _BYTES_PER_GBIT
        yield Sample(f"{name}bisection_bytes_per_second", (), figure)
    yield from _rail_faults(fleet)
    yield from _checks(fleet)


def _rail_faults(fleet: Fleet) -> Iterator[Sample]:
    """Cabling faults; zeros only where cabling was judged."""
    faults: dict[tuple[str, str], int] = {}
    if fleet.rails.why_none is None:
        faults = {(rule, "error"): 0 for rule in ("RAIL001", "RAIL002", "RAIL004")}
    for fault in fleet.rails.faults:
        at = (fault.rule, fault.severity)
        faults[at] = faults.get(at, 0) + 1
    for (rule, severity), number in faults.items():
        yield Sample("topocheck_fleet_rail_faults", (("check", rule), ("severity", severity)), number)


def _checks(fleet: Fleet) -> Iterator[Sample]:
    """Nodes by rule and severity, each once however many of its devices it is; then what it costs at worst."""
    hosts: dict[tuple[str, str], set[str]] = {}
    loss: dict[str, float] = {}
    for group in fleet.groups:
        hosts.setdefault((group.rule, group.severity), set()).update(group.hosts)
        if group.worst_loss is not None:
            loss[group.rule] = max(loss.get(group.rule, 0.0), group.worst_loss)
    for rule, severity in sorted(hosts, key=lambda at: (SEVERITIES.index(at[1]), at[0])):
        labels = (("check", rule), ("severity", severity))
        yield Sample("topocheck_fleet_check_nodes", labels, len(hosts[rule, severity]))
    for rule, worst in sorted(loss.items()):
        yield Sample("topocheck_fleet_worst_loss_ratio", (("check", rule),), worst)
