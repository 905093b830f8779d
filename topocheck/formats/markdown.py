"""The report for a ticket: GitHub's Markdown, which GitLab and Jira's importers read too.

Whatever a capture says is text here: nothing of it becomes a link, an image, a tag or a table's border.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from topocheck.finding import Finding
from topocheck.formats.headline import counts_of, origin, parts_of, settings_of, verdict_word
from topocheck.formats.printable import printable
from topocheck.formats.screen import MARKS, SEPARATOR, counted
from topocheck.formats.text_findings import evidence_words, price_words, standing_words, together_words
from topocheck.formats.text_more import sections
from topocheck.formats.text_table import columns
from topocheck.report import Report

_EVIDENCE = 12  # lines a finding; a ticket is no log
_EVIDENCE_CHARS = 300
# Emphasis within a word is none, so `mlx5_3` stays; a bare address would become a link by its ":" or its "www.".
_MARKUP = re.compile(r"[\\`*\[\]<|~&#@!]|^[>+-]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.", re.IGNORECASE)


def render(report: Report) -> str:
    """One page: verdict, findings with evidence, the node as a table, what was not seen."""
    lines = [
        f"# topocheck: {verdict_word(report)} {plain(report.host or origin(report))}",
        "",
        plain(SEPARATOR.join(parts_of(report))),
        "",
        *_facts(report),
        *_findings(report),
        *_table(report),
        *_more(report),
    ]
    return "\n".join(lines).rstrip() + "\n"


def plain(text: str) -> str:
    r"""The text as one line without markup.

    >>> plain("mlx5_3 <b>|http://x_"), plain("a\n# b")
    ('mlx5_3 \\<b>\\|http\\://x\\_', 'a \\# b')
    """
    return _MARKUP.sub(lambda match: "\\" + match[0], printable(text))


def _facts(report: Report) -> Iterator[str]:
    ran, skipped, not_applicable = report.coverage
    counts = counts_of(report)
    rules = f"{counted(ran, 'rule')} ran, {skipped} skipped, {not_applicable} not applicable"
    yield f"- **{verdict_word(report)}**: {plain(counts or report.verdict_reason)}; {rules}"
    for words in settings_of(report):
        yield f"- {plain(words)}"
    read = f"{report.source.kind} {report.source.name}"
    yield f"- read {report.time} from {plain(read)} by topocheck {plain(report.version)}"


def _findings(report: Report) -> Iterator[str]:
    yield from ("", "## Findings", "")
    if not report.findings:
        yield "None."
    for finding in report.findings:
        yield from _finding(finding)
    if words := together_words(report):
        yield f"All repaired: {plain(words)}"


def _finding(finding: Finding) -> Iterator[str]:
    kind = "waived" if finding.waived else finding.severity
    yield f"### {finding.rule} {plain(' '.join(finding.subjects))} ({kind})"
    yield from ("", plain(finding.message), "")
    if finding.repair:
        yield f"- Repair: {plain(finding.repair)}"
    if finding.price is not None:
        yield f"- Price: {plain(price_words(finding.price))}"
    yield f"- {plain(standing_words(finding))}"
    if finding.follows:
        yield f"- Explains: {plain(', '.join(finding.follows))}"
    if finding.evidence:
        yield from ("", *_fenced([evidence_words(e) for e in finding.evidence]))
    yield ""


def _fenced(lines: list[str]) -> list[str]:
    """Lines as they are. Each begins with the name of its input, so none can be the fence's end."""
    shown = [printable(line)[:_EVIDENCE_CHARS] for line in lines[:_EVIDENCE]]
    if len(lines) > _EVIDENCE:
        shown.append(f"… {len(lines) - _EVIDENCE} more lines")
    return ["```text", *shown, "```"]


def _table(report: Report) -> Iterator[str]:
    known = columns(report) if report.rows else []
    if not known:
        return
    yield from ("## Node", "")
    yield _row([column.title for column in known])
    yield "|---" * len(known) + "|"
    for cells in zip(*(column.cells for column in known), strict=True):
        yield _row([f"{c.words} {MARKS[c.severity]}" if c.severity else c.words for c in cells])
    yield ""


def _row(words: list[str]) -> str:
    return f"| {' | '.join(plain(word) for word in words)} |"


def _more(report: Report) -> Iterator[str]:
    for title, entries in sections(report):
        if entries:
            yield from (f"## {title[0].upper()}{title[1:]}", "", *(f"- {plain(entry)}" for entry in entries), "")
