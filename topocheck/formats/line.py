"""The worst fault in one line of at most 80 bytes: `PCI001 mlx5_3 x8 of x16 -45%`. It is a drain reason and what a
node-problem-detector shows, so: ASCII, cause first, and the loss is never what is cut."""

from __future__ import annotations

import re

from topocheck.finding import Finding
from topocheck.report import Report

MAX_BYTES = 80
_DEVICES = 2  # named; of more the number
# What the messages say in more words: what is, of what could be.
_SHORT: tuple[tuple[str, str], ...] = (
    (r"runs PCIe \S+ (x\d+) where both ends can (x\d+)", r"\1 of \2"),
    (r"runs PCIe \S+ (x\d+) where it ran wider .*?, (x\d+) in", r"\1 of \2"),
    (r"runs PCIe (\S+) x\d+ where both ends can (\d\.\d)", r"PCIe \1 of \2"),
    (r"Active at (\S+) Gb/s, .*? at (\S+?)(?=[:, ]|$)", r"\1 of \2 Gb/s"),
    (r"has (\d+ of \d+ NVLinks) up", r"\1"),
)
_FILLERS = re.compile(r"^(?:the |is |has |runs |port is |: )+")
_ENDS = re.compile(r"(?:[;,:(]| where )")


def render(report: Report) -> str:
    """The line of the worst finding that counts; else the verdict and its reason."""
    finding = next((f for f in report.findings if not f.waived and f.severity != "info"), None)
    line = line_of(finding) if finding else cut(f"{report.verdict}: {report.verdict_reason}")
    return f"{line}\n"


def line_of(finding: Finding, room: int = MAX_BYTES) -> str:
    """Rule, device, what is wrong, loss where it was computed."""
    loss = finding.price.loss if finding.price else None
    end = f" -{loss * 100:.0f}%" if loss and finding.price and finding.price.confidence == "computed" else ""
    head = " ".join(filter(None, [finding.rule, _devices(finding.subjects), _what(finding)]))
    return cut(head, room - len(end)) + end


def cut(text: str, room: int = MAX_BYTES) -> str:
    """The text in ASCII and one line, at most so many bytes."""
    plain = " ".join(text.replace("−", "-").replace("–", "-").encode("ascii", "replace").decode().split())
    return plain if len(plain) <= room else plain[: room - 2].rstrip() + ".."


def _devices(subjects: tuple[str, ...]) -> str:
    if len(subjects) <= _DEVICES:
        return ",".join(subjects)
    return f"{subjects[0]} and {len(subjects) - 1} more"


def _what(finding: Finding) -> str:
    for pattern, words in _SHORT:
        if match := re.search(pattern, finding.message[:400]):
            return match.expand(words)
    text = finding.message
    for subject in finding.subjects:
        text = text.removeprefix(subject).lstrip(", ").removeprefix("and ")
    text = _FILLERS.sub("", text.removeprefix("'s").strip())
    return _ENDS.split(text, maxsplit=1)[0].strip()
