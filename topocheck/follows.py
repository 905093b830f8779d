"""One cause, one finding: what follows from a finding goes into its `follows` and counts nowhere (rules.md)."""

from __future__ import annotations

from dataclasses import replace

from topocheck.finding import Finding

_NAMED = 4  # as many are named in a message; `subjects` has all

# Each chain from the cause that is printed to what it brings along; rules of one step may stand side by side.
CHAINS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("NET001",), ("NET006",), ("NET005",), ("RAIL003",), ("AFF001",), ("AFF002",), ("AFF003",)),
    (("PCI001", "PCI002"), ("PCI003",), ("PCI004",), ("PCI005",)),
    (("GPU001",), ("NVL005",), ("NVL001",), ("NVL002",), ("P2P001",), ("P2P004",)),
    (("P2P003",), ("P2P002",)),
    (("GPU001",), ("GPU004",)),  # an Xid 79 is how a lost GPU was lost
)


def fold(findings: list[Finding]) -> list[Finding]:
    """The findings that stand, each with what follows from it. A finding follows from one that comes earlier in its
    chain and covers one of the things it covers; a note explains no fault."""
    standing = list(findings)
    for chain in CHAINS:
        steps = {rule: i for i, rules in enumerate(chain) for rule in rules}
        members = sorted((f for f in standing if f.rule in steps), key=lambda f: steps[f.rule])
        brought: dict[int, list[str]] = {}
        causes: list[Finding] = []
        gone: set[int] = set()
        for finding in members:
            cause = next((c for c in causes if steps[c.rule] < steps[finding.rule] and _explains(c, finding)), None)
            if cause is None:
                causes.append(finding)
            else:
                brought.setdefault(id(cause), []).append(f"{finding.rule} {' '.join(finding.subjects)}".strip())
                gone.add(id(finding))
        standing = [
            replace(f, follows=(*f.follows, *brought[id(f)])) if id(f) in brought else f
            for f in standing
            if id(f) not in gone
        ]
    return _told_as_one(standing)


def _explains(cause: Finding, finding: Finding) -> bool:
    return bool(cause.covers & finding.covers) and (cause.severity != "info" or finding.severity == "info")


def _told_as_one(findings: list[Finding]) -> list[Finding]:
    """Findings of one rule that say the same of several devices become one, with all devices as subjects."""
    told: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        key = (finding.rule, finding.severity, finding.waiver, finding.alike) if finding.alike else (id(finding),)
        if key not in told:
            told[key] = finding
            continue
        first = told[key]
        subjects = (*first.subjects, *finding.subjects)
        told[key] = replace(
            first,
            subjects=subjects,
            message=f"{_names(subjects)} each {finding.alike}",
            evidence=(*first.evidence, *finding.evidence),
            patches=(*first.patches, *finding.patches),
            covers=first.covers | finding.covers,
            follows=(*first.follows, *finding.follows),
        )
    return list(told.values())


def _names(subjects: tuple[str, ...]) -> str:
    """Their names, of many the first and how many more: what is said of them must stay in sight."""
    if len(subjects) <= _NAMED:
        return ", ".join(subjects)
    return f"{', '.join(subjects[: _NAMED - 1])} and {len(subjects) - _NAMED + 1} more"
