"""The report as one line of JSON, `topocheck.node/1` (interface section 4; schema: `node-1.schema.json` beside this).

All keys are always there; null means not known. GB/s are rounded to 1 MB/s, shares to a tenth of a percent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from topocheck.facts import Evidence, RdmaPort
from topocheck.finding import Finding, Price
from topocheck.report import Device, Disagreement, Numa, NvlinkBundle, Pair, PcieLink, Report

SCHEMA = "topocheck.node/1"
_DIGITS = 3
_EVIDENCE_CHARS = 500  # a log line can be of any length; the document has to stay small


def render(report: Report) -> str:
    """The document, one line with its line end; ASCII, so that any terminal or log takes it."""
    document = {key: clean(value) for key, value in as_dict(report).items()}
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def as_dict(report: Report) -> dict[str, object]:
    """The document as Python values, not rounded yet."""
    return {
        "schema": SCHEMA,
        "version": report.version,
        "host": report.host,
        "time": report.time,
        "duration_s": report.duration_s,
        "privileged": report.privileged,
        "boot_id": report.boot_id,
        "versions": {"driver": report.driver, "kernel": report.kernel, "fabric_manager": report.fabric_manager},
        "source": report.source._asdict(),
        "verdict": report.verdict,
        "coverage": report.coverage._asdict(),
        "platform": {"name": report.platform, "virtual": report.virtual},
        "devices": [_device(device, report.nearest_nics) for device in report.devices],
        "numa_nodes": [_numa(node) for node in report.numa_nodes],
        "pairs": [_pair(pair) for pair in report.pairs],
        "links": [*(_pcie(link) for link in report.links), *(_nvlink(bundle) for bundle in report.nvlinks)],
        "findings": [_finding(finding) for finding in report.findings],
        "together": _figures(report.together) if report.together else None,
        "skipped": [skip._asdict() for skip in report.skipped],
        "gaps": [gap._asdict() for gap in report.gaps],
        "disagreements": [_disagreement(entry) for entry in report.disagreements],
        "assumptions": report.assumptions,
    }


def _numa(node: Numa) -> dict[str, object]:
    return {"id": node.id, "cpus": node.cpus, "socket": node.socket, "memory_gib": node.memory_gib}


def _device(device: Device, nearest_nics: Mapping[str, tuple[str, ...]]) -> dict[str, object]:
    common: dict[str, object] = {
        "id": device.id,
        "kind": device.kind,
        "bdf": device.bdf,
        "pci_id": device.pci_id,
        "model": device.model,
        "firmware": device.firmware,
        "numa_node": device.numa_node,
        "vf_of": device.vf_of,
    }
    if device.kind == "gpu":
        return common | {
            "minor": device.minor,
            "mig": device.mig,
            "pstate": device.pstate,
            "nearest_nics": nearest_nics.get(device.id),
            "nvlinks_active": device.nvlinks_active,
        }
    if device.kind == "nic":
        return common | {
            "board_id": device.board_id,
            "role": device.role or "unknown",
            "role_from": device.role_from,
            "rail": device.rail,
            "state": device.state,
            "rate_gbit_per_s": device.rate_gbit_per_s,
            "ports": [_port(port) for port in device.ports],
        }
    return common


def _port(port: RdmaPort) -> dict[str, object]:
    return {
        "port": port.port,
        "state": port.state,
        "physical": port.physical,
        "rate_gbit_per_s": port.rate_gbit_per_s,
        "link_layer": port.link_layer,
        "mtu": port.mtu,
        "max_mtu": port.max_mtu,
        "lid": port.lid,
        "guid": port.guid,
        "subnet": _subnet(port),
        "netdev": port.netdev,
        "leaf": _leaf(port),
    }


def _subnet(port: RdmaPort) -> str | None:
    """The GID prefix; of a RoCE port the /24 of its address, as RAIL004 compares it: no input gives the length."""
    addresses = [gid.ipv4 for gid in port.gids if gid.ipv4]
    if port.link_layer != "ethernet" or not addresses:
        return port.subnet
    return f"{addresses[0].rpartition('.')[0]}.0/24"


def _leaf(port: RdmaPort) -> dict[str, object] | None:
    """The switch port at the other end; its number where it is one."""
    leaf = port.leaf
    if leaf is None:
        return None
    where = int(leaf.port) if leaf.port and leaf.port.isdecimal() else leaf.port
    return {"switch": leaf.switch, "port": where, "by": leaf.by}


def _pair(pair: Pair) -> dict[str, object]:
    return {
        "a": pair.a,
        "b": pair.b,
        "class": pair.cls,
        "pcie_class": pair.pcie_cls,
        "line_rate_gb_per_s": pair.line_rate_gb_per_s,
        "achievable_gb_per_s": pair.achievable_gb_per_s,
        "bottleneck": pair.bottleneck,
        "p2p": pair.p2p,
    }


def _pcie(link: PcieLink) -> dict[str, object]:
    return {
        "kind": "pcie",
        "a": link.a,
        "b": link.b,
        "speed_gts": link.speed_gts,
        "width": link.width,
        "max_speed_gts": link.max_speed_gts,
        "max_width": link.max_width,
        "a_max_speed_gts": link.a_max_speed_gts,
        "a_max_width": link.a_max_width,
        "links": None,
        "line_rate_gb_per_s": None,
        "achievable_gb_per_s": None,
        "witness": link.witness,
    }


def _nvlink(bundle: NvlinkBundle) -> dict[str, object]:
    own = {
        "kind": "nvlink",
        "a": bundle.a,
        "b": bundle.b,
        "links": bundle.links,
        "line_rate_gb_per_s": bundle.line_rate_gb_per_s,
        "achievable_gb_per_s": bundle.achievable_gb_per_s,
        "witness": bundle.witness,
    }
    return {**dict.fromkeys(_pcie(PcieLink(None, None))), **own}


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "subjects": finding.subjects,
        "message": finding.message,
        "repair": finding.repair,
        "waived": finding.waived,
        "expected_from": finding.expected_from,
        "evidence": [_evidence(evidence) for evidence in finding.evidence],
        "follows": finding.follows,
        "effect": finding.effect,
        "readings": finding.readings,
        "price": _price(finding.price),
    }


def _evidence(evidence: Evidence) -> dict[str, object]:
    text = evidence.text
    return evidence._asdict() | {"text": text if len(text) <= _EVIDENCE_CHARS else text[: _EVIDENCE_CHARS - 1] + "…"}


def _price(price: Price | None) -> dict[str, object] | None:
    if price is None:
        return None
    return {**_figures(price), "range": price.range, "confidence": price.confidence}


def _figures(price: Price) -> dict[str, object]:
    return {
        "scenario": price.scenario,
        "found_gb_per_s": price.found_gb_per_s,
        "repaired_gb_per_s": price.repaired_gb_per_s,
        "loss": price.loss,
    }


def _disagreement(entry: Disagreement) -> dict[str, object]:
    values = [{"value": _scalar(value), "input": source} for value, source in entry.values]
    return {"subject": entry.subject, "field": entry.field, "values": values, "used": _scalar(entry.used)}


def _scalar(value: object) -> object:
    """What two witnesses differ about, as JSON has it."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def clean(value: object) -> object:
    """Rounded numbers, text that is valid Unicode; what is no quantity (negative, infinite) is not known."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return None if value < 0 or not math.isfinite(value) else round(value, _DIGITS)
    if isinstance(value, Mapping):
        return {key: clean(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [clean(entry) for entry in value]
    raise TypeError(f"{type(value).__name__} has no place in the document")
