"""One call of the gate from beginning to end: job, kept reading, reading, second reading, answer, what is kept."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from topocheck.errors import TopocheckError, UsageError
from topocheck.exits import Style, exit_code
from topocheck.gate.cache import kept, key_of
from topocheck.gate.decision import NOTHING, Decision, Ground, Reading, decide, same
from topocheck.gate.job import Job, job_of
from topocheck.gate.state import Folder, open_folder
from topocheck.gate.words import Answer, answer_of, log_line

if TYPE_CHECKING:
    from topocheck.gate.drill import Drill
    from topocheck.policy import Policy
    from topocheck.sources.base import Source

STDIN = ("-", "/dev/stdin")  # as --from
_PORTS = ("NET001", "NET002", "NET005")
_AGAIN_S, _PORTS_AGAIN_S = 1.0, 3.0  # rules.md: what would fail a job is read again that much later
_JUDGING_S = 1.2  # of the budget, left for what follows the driver's answer …
_JUDGING_SHARE = 0.4  # … but no more of it than this
_REREAD_S = 0.8  # what a second reading of the files takes at most


class Call(NamedTuple):
    """The command line."""

    style: Style = "slurm"
    fail_closed: bool = False
    source: str | None = None
    cache_s: float = 0.0
    state: str | None = None
    drill: str | None = None
    root: str | None = None
    tools: str | None = None
    budget_s: float = 8.0
    policy: str | None = None
    output: str | None = None


class Result(NamedTuple):
    """What a call came to. `passed`: why it passes without a look at the node."""

    job: Job
    reading: Reading | None = None
    decision: Decision = NOTHING
    passed: str | None = None
    readings: int = 0
    age_s: float | None = None  # of a kept reading


def work(call: Call, started_s: float, environ: Mapping[str, str]) -> Answer:
    """Answer a call that began at `started_s` of time.monotonic()."""
    folder, job = open_folder(call.state), job_of(environ)
    site = _Site(call)
    last = None
    if call.cache_s > 0 and call.source is None and call.drill is None:
        last = kept(folder, site.key(job), call.cache_s)
        site.settings = last["settings"] if last else None
    result = _unlooked(site, job) or _from_kept(last, job) or _looked(site, job, started_s)
    answer = answer_of(call.style, result, exit_of(site, result), call.drill is not None)
    if result.readings:
        answer = _keep(site, folder, result, answer)
    logged = folder.log(log_line(result, answer))
    return answer if logged or answer.out or not result.decision.notes else answer.on_stderr(log_line(result, answer))


def exit_of(site: _Site, result: Result) -> int:
    """The exit code in the caller's style."""
    decision, settings = result.decision, site.known()
    return exit_code(
        site.call.style,
        worst="error" if decision.grounds else _worst(result.reading),
        unknown=bool(decision.unseen),
        fail_on=settings["fail_on"],
        fail_closed=site.call.fail_closed,
    )


class _Site:
    """What the site has decided: its policy, read once, and what of it a kept reading carries along."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.settings: dict[str, Any] | None = None
        self._policy: Policy | None = None

    @property
    def policy(self) -> Policy:
        """The policy file, or what holds without one."""
        if self._policy is None:
            from topocheck.policy import Policy, load

            self._policy = Policy() if self.call.policy is None else load(self.call.policy)
        return self._policy

    def known(self) -> dict[str, Any]:
        """What of the policy concerns the job; without a file nothing need be imported for it."""
        if self.settings is None:
            plain = self.call.policy is None
            self.settings = {
                "job_without_gres": "pass" if plain else self.policy.job_without_gres,
                "job_opt_out": None if plain else self.policy.job_opt_out,
                "fail_on": "error" if plain else self.policy.fail_on,
            }
        return self.settings

    def key(self, job: Job) -> dict[str, Any]:
        """The key of the kept reading."""
        name = self.call.policy
        try:
            text = b"" if name is None else _bytes(name)
        except OSError as error:
            raise UsageError(f"{name}: {(error.strerror or str(error)).lower()}: give a policy file") from None
        return key_of(self.call.root, self.call.tools, text, leaves_node=job.leaves_node)


def _unlooked(site: _Site, job: Job) -> Result | None:
    """A job that passes whatever the node is like."""
    settings = site.known()
    if job.without_gpus and settings["job_without_gres"] == "pass":
        return Result(job, passed="it has no GPUs")
    out = settings["job_opt_out"]
    if out and out in job.comment:
        return Result(job, passed=f"its comment has {out}")
    return None


def _from_kept(last: Reading | None, job: Job) -> Result | None:
    """A kept reading can only let a job pass: what would fail it is read afresh."""
    if last is None:
        return None
    decision = decide(last, job)
    if decision.grounds or decision.unseen:
        return None
    return Result(job, last, decision, age_s=time.time() - last["time_s"])


def _looked(site: _Site, job: Job, started_s: float) -> Result:
    """The node read; what would fail the job read a second time, if it is a machine and time allows."""
    drill = _drill(site.call)
    ends_s = started_s + site.call.budget_s
    began_s = time.monotonic()
    source = _source(site.call, ends_s)
    from topocheck.gate.reading import read  # its commands run while this is imported

    reading = read(source, site.policy, job, drill)
    decision = decide(reading, job)
    once = [ground for ground in decision.grounds if "said" not in ground]
    if not once or drill or site.call.source is not None:
        return Result(job, reading, decision, readings=1)
    files_read_s = (
        began_s if reading["hung"] else time.monotonic()
    )  # all else was read before the driver was waited for
    at_s = _when_again(once, files_read_s, ends_s)
    if at_s is None:
        lines = "; ".join(ground["line"] for ground in once)
        doubt = f"seen once, no time to read it again: {lines}"
        grounds = [ground for ground in decision.grounds if ground not in once]
        return Result(job, reading, Decision(grounds, [*decision.unseen, doubt], decision.notes), readings=1)
    time.sleep(max(0.0, at_s - time.monotonic()))
    second = read(_source(site.call, ends_s, ask_driver=not reading["hung"]), site.policy, job)
    return Result(job, reading, _both(reading, decision, second, decide(second, job)), readings=2)


def _drill(call: Call) -> Drill | None:
    if call.drill is None:
        return None
    from topocheck.gate.drill import parsed

    return parsed(call.drill)


def _source(call: Call, ends_s: float, *, ask_driver: bool = True) -> Source:
    """What is read; the driver may take what the budget has left, less what judging takes."""
    if call.source is not None:
        from topocheck.sources.open import open_source

        return open_source(call.source)
    from topocheck.sources.brief import BriefSource
    from topocheck.sources.live import open_live

    left_s = ends_s - time.monotonic()
    budget_s = max(0.1, left_s - min(_JUDGING_S, _JUDGING_SHARE * left_s))
    live = open_live(root=call.root, tools=call.tools, budget_s=budget_s, rates=False)
    source = BriefSource(live, ask_driver=ask_driver)
    source.start()
    return source


def _when_again(grounds: list[Ground], read_s: float, ends_s: float) -> float | None:
    """When to read again what was read at `read_s`; None if the budget does not allow it."""
    wait_s = _PORTS_AGAIN_S if any(ground["rule"] in _PORTS for ground in grounds) else _AGAIN_S
    at_s = max(time.monotonic(), read_s + wait_s)
    return at_s if at_s <= ends_s - _REREAD_S else None


def _both(reading: Reading, first: Decision, again: Reading, second: Decision) -> Decision:
    """What both readings say fails the job. A second one that could not see is no word against the first."""
    stands = [g for g in first.grounds if "said" in g or any(same(g, other) for other in second.grounds)]
    gone = [g["line"] for g in first.grounds if g not in stands]
    new = [g["line"] for g in second.grounds if not any(same(g, other) for other in first.grounds)]
    for finding in reading["report"]["findings"]:
        if any(finding["rule"] == g["rule"] and finding["subjects"] == g["subjects"] for g in stands):
            finding["readings"] = 2
    blind = gone and (again["late"] or second.unseen)
    doubts = [f"seen once, not seen again nor seen well: {line}" for line in dict.fromkeys(gone)] if blind else []
    once = [f"seen once of two readings, passes: {line}" for line in dict.fromkeys([*gone, *new])]
    return Decision(stands, [*first.unseen, *doubts], [*first.notes, *([] if blind else once)])


def _worst(reading: Reading | None) -> str | None:
    """The gate fails for no other error: it is worth a warning."""
    findings = reading["report"]["findings"] if reading else []
    counts = any(f["severity"] in ("error", "warning") and not f["waived"] for f in findings)
    return "warning" if counts else None


def _keep(site: _Site, folder: Folder, result: Result, answer: Answer) -> Answer:
    """Keep the reading and the report of this run; the answer says so where that was not possible."""
    assert result.reading is not None
    call, decision = site.call, result.decision
    document = {
        "schema": "topocheck.gate/1",
        "job": result.job._asdict(),
        "drill": call.drill,
        "exit_code": answer.code,
        "line": answer.out.rstrip("\n") or None,
        "grounds": decision.grounds,
        "unseen": decision.unseen,
        "notes": decision.notes,
        "readings": result.readings,
        "report": result.reading["report"],
    }
    if call.drill is None and call.source is None:
        reusable = not (decision.grounds or decision.unseen or result.reading["late"])
        key = site.key(result.job)
        content = {**result.reading, "key": key, "settings": site.known(), "time_s": time.time(), "reusable": reusable}
        folder.keep_last(content)
    not_written = _to_file(document, call.output) if call.output is not None else None
    why_not = folder.keep_report(document) or not_written  # in this order: it may lie in the folder, and counts there
    return answer.without_report(why_not) if why_not else answer


def _to_file(document: dict[str, Any], name: str) -> str | None:
    """Write the report where the caller wants it; why that failed, None if it did not."""
    from topocheck.output import to_file

    try:
        to_file(json.dumps(document) + "\n", name)
    except TopocheckError as error:
        return str(error)
    return None


def _bytes(name: str) -> bytes:
    with open(name, "rb") as file:
        return file.read()
