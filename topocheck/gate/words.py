"""What the gate says: one line where a job may not run, nothing where it may, and a line of log in any case."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from topocheck.exits import Style, failure_code
from topocheck.formats.nagios import status_line

if TYPE_CHECKING:
    from topocheck.gate.work import Result

PREFIX = "topocheck: "
MAX_BYTES = 80  # of what a node-problem-detector shows
_MOST_LOG_CHARS = 2000


class Answer(NamedTuple):
    """The exit code, and what is printed."""

    code: int
    out: str = ""
    err: str = ""

    def without_report(self, why: str) -> Answer:
        """The same, saying that its report was not kept."""
        end = f" (no report: {why})"
        line = self.out.rstrip("\n")
        if not line.startswith(PREFIX):
            return self
        room = MAX_BYTES - len(" (no report)")
        return self._replace(out=(line + end if len(line + end) <= MAX_BYTES else line[:room] + " (no report)") + "\n")

    def on_stderr(self, line: str) -> Answer:
        """The same with a line for whoever keeps what is printed there."""
        return self._replace(err=f"{self.err}{line}\n")


def answer_of(style: Style, result: Result, code: int, drill: bool) -> Answer:
    """The answer to a call whose work is done."""
    decision = result.decision
    if decision.grounds:
        words = decision.grounds[0]["line"]
    elif decision.unseen:
        words = f"no verdict: {decision.unseen[0]}"
    else:
        words = _passes(result, drill)
    if style == "nagios":
        return Answer(code, _for_nagios(result, code, words))
    line = f"{PREFIX}{plain(words, MAX_BYTES - len(PREFIX))}\n"
    if code or drill:
        return Answer(code, line)
    return Answer(code, "", line) if decision.unseen else Answer(code)


def failed(style: Style, reason: str, *, fail_closed: bool) -> Answer:
    """The answer where the gate itself failed."""
    code = failure_code(style, fail_closed=fail_closed)
    words = f"no verdict: {reason}"
    if style == "nagios":
        return Answer(code, status_line(code, plain(words, 200), 0, 0, 0.0))
    line = f"{PREFIX}{plain(words, MAX_BYTES - len(PREFIX))}\n"
    return Answer(code, line) if code else Answer(code, "", line)


def log_line(result: Result, answer: Answer) -> str:
    """The call in one line of log: when, which job, what came of it and why."""
    job, decision = result.job, result.decision
    who = f"job {job.id}" if job.id else "no job"
    gpus = f" gpus {','.join(job.gpus)}" if job.gpus else ""
    verdict = "fail" if decision.grounds else "unknown" if decision.unseen else "pass"
    why = [ground["line"] for ground in decision.grounds] + decision.unseen + decision.notes
    if result.passed:
        why.append(result.passed)
    if result.age_s is not None:
        why.append(f"by a reading {result.age_s:.0f} s old")
    return stamped(f"{who}{gpus}: {verdict}, exit {answer.code}{': ' if why else ''}{'; '.join(why)}")


def stamped(text: str) -> str:
    """A line of log with its time."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {plain(text, _MOST_LOG_CHARS)}"


def plain(text: str, room: int) -> str:
    """One line of ASCII, at most so many bytes."""
    line = " ".join(text.replace("−", "-").replace("–", "-").encode("ascii", "replace").decode().split())
    return line if len(line) <= room else line[: room - 2].rstrip() + ".."


def _passes(result: Result, drill: bool) -> str:
    if drill:
        return f"passes: {(result.decision.notes or ['this fault fails no job'])[-1]}"
    report = result.reading["report"] if result.reading else None
    return f"{report['verdict']}, nothing that fails a job" if report else f"passes: {result.passed}"


def _for_nagios(result: Result, code: int, words: str) -> str:
    findings: list[dict[str, Any]] = result.reading["report"]["findings"] if result.reading else []
    counting = [f for f in findings if not f["waived"]]
    losses = [f["price"]["loss"] for f in counting if f["price"] and f["price"]["confidence"] == "computed"]
    count = [sum(f["severity"] == severity for f in counting) for severity in ("error", "warning")]
    return status_line(code, words, count[0], count[1], max((loss or 0.0 for loss in losses), default=0.0))
