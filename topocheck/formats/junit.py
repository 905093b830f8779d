"""JUnit XML, for what shows test results: one suite a node, one test case a rule.

Errors and warnings are failures (`type` is the severity); what was not seen or does not apply is skipped, with its
reason; notes and waived findings stand in system-out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topocheck.finding import SEVERITIES, Finding
from topocheck.formats.headline import origin
from topocheck.formats.printable import printable
from topocheck.formats.text_findings import evidence_words, price_words
from topocheck.report import Report

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_EVIDENCE_CHARS = 500


def render(report: Report) -> str:
    """The document."""
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    suites = Element("testsuites")
    suite = SubElement(
        suites,
        "testsuite",
        name=printable(report.host or origin(report)),
        hostname=printable(report.host or "unknown"),
        timestamp=report.time.removesuffix("Z"),
        time=f"{report.duration_s:.3f}",
    )
    properties = SubElement(suite, "properties")
    about = {
        "topocheck": report.version,
        "verdict": report.verdict,
        "reason": report.verdict_reason,
        "source": report.source.name,
    }
    for name, value in about.items():
        SubElement(properties, "property", name=name, value=printable(value))
    for rule in report.rules:
        _case(suite, report, rule)
    for at in (suites, suite):
        at.set("tests", str(len(report.rules)))
        at.set("failures", str(len(suite.findall("testcase/failure"))))
        at.set("errors", "0")
        at.set("skipped", str(len(suite.findall("testcase/skipped"))))
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _case(suite: Element, report: Report, rule: str) -> None:
    from xml.etree.ElementTree import SubElement

    case = SubElement(suite, "testcase", classname="topocheck.node", name=rule)
    found = [f for f in report.findings if f.rule == rule]
    failing = [f for f in found if not f.waived and f.severity != "info"]
    if failing:
        worst = max(failing, key=lambda f: SEVERITIES.index(f.severity))
        message = "; ".join(printable(f.message) for f in failing)
        failure = SubElement(case, "failure", type=worst.severity, message=message)
        failure.text = "\n\n".join(_in_full(f) for f in failing)
    elif not found and (reason := _why_not(report, rule)):
        SubElement(case, "skipped", message=printable(reason))
    said = [_in_full(f) for f in found if f not in failing]
    said += [f"seen in part: {printable(s.reason)}" for s in report.skipped if s.rule == rule and s.partial]
    if said:
        SubElement(case, "system-out").text = "\n\n".join(said)


def _why_not(report: Report, rule: str) -> str | None:
    """Why a rule said nothing; None if it looked and all was well."""
    skipped = next((s.reason for s in report.skipped if s.rule == rule and not s.partial), None)
    return skipped or next((f"not applicable: {why}" for who, why in report.not_applicable if who == rule), None)


def _in_full(finding: Finding) -> str:
    standing = f"waived {finding.waiver or ''}".rstrip() if finding.waived else finding.severity
    lines = [
        f"{standing}: {finding.message}",
        *(evidence_words(e)[:_EVIDENCE_CHARS] for e in finding.evidence),
        *([f"repair: {finding.repair}"] if finding.repair else []),
        *([f"price: {price_words(finding.price)}"] if finding.price else []),
    ]
    return "\n".join(printable(line) for line in lines)
