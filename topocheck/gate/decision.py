"""A reading and a job → what fails it. Plain data in, plain data out, so that a cached reading costs no imports."""

from __future__ import annotations

from typing import Any, NamedTuple

from topocheck.gate.job import Job

Reading = dict[str, Any]  # made by reading.py, which says what is in it; kept as JSON
Ground = dict[str, Any]  # rule, line, subjects, gpus (addresses), scope: "gpus" | "node" | "whole", jobs
ANY, SEVERAL_GPUS, SEVERAL_NODES = "any", "several-gpus", "several-nodes"


class Share(NamedTuple):
    """The GPUs of a job by PCI address, None where there is no map; `known`: all GPUs that the map knows."""

    gpus: frozenset[str] | None
    whole: bool = False
    known: frozenset[str] = frozenset()
    unmapped: tuple[str, ...] = ()

    @property
    def note(self) -> str | None:
        """What the log has to say of it."""
        if self.gpus is None:
            return f"no map from {','.join(self.unmapped)[:60]} to PCI addresses: only node-wide errors can fail it"
        return f"no GPU is known as {','.join(self.unmapped)[:60]}" if self.unmapped else None


class Decision(NamedTuple):
    """grounds: what fails the job; unseen: what would have to be known for a verdict; notes: for the log."""

    grounds: list[Ground]
    unseen: list[str]
    notes: list[str]


NOTHING = Decision([], [], [])


def decide(reading: Reading, job: Job) -> Decision:
    """What of a reading fails this job."""
    share = share_of(reading, job)
    grounds = [ground for ground in reading["grounds"] if _touches(ground, share, job)]
    if short := _short(reading, job):
        grounds.append(short)
    elsewhere = [ground["line"] for ground in reading["grounds"] if ground not in grounds]
    notes = [*([share.note] if share.note else []), *reading["held"]]
    notes += [f"not this job's: {line}" for line in dict.fromkeys(elsewhere)]
    return Decision(grounds, _unseen(reading, share, job), notes)


def share_of(reading: Reading, job: Job) -> Share:
    """The job's GPUs, by minor number and UUID. All GPUs of the node need no map; where there are MIG devices a number
    is one of those."""
    gpus, named = reading["gpus"], job.gpus
    if not named or (len(named) >= len(gpus) > 0 and not reading["mig"]):
        return Share(frozenset(gpu["at"] for gpu in gpus), whole=True)
    uuids = {gpu["uuid"].lower(): gpu["at"] for gpu in gpus if gpu["uuid"]}
    minors = {} if reading["mig"] else {str(gpu["minor"]): gpu["at"] for gpu in gpus if gpu["minor"] is not None}
    found = {name: (minors if name.isdecimal() else uuids).get(_key(name)) for name in named}
    unmapped = tuple(name for name, at in found.items() if at is None)
    if not any(minors if name.isdecimal() else uuids for name in named):
        return Share(None, unmapped=unmapped)
    mine = frozenset(at for at in found.values() if at)
    return Share(mine, known=frozenset([*minors.values(), *uuids.values()]), unmapped=unmapped)


def same(one: Ground, other: Ground) -> bool:
    """Whether two readings give the same reason."""
    return bool(one["rule"] == other["rule"] and one["subjects"] == other["subjects"])


def _key(name: str) -> str:
    """A UUID as the driver prints it; that of a GPU in the old names of MIG devices."""
    lower = name.lower()
    return lower[4:].partition("/")[0] if lower.startswith("mig-gpu-") else lower


def _touches(ground: Ground, share: Share, job: Job) -> bool:
    several = share.whole or (job.gpus is not None and len(job.gpus) > 1)
    if (ground["jobs"] == SEVERAL_GPUS and not several) or (ground["jobs"] == SEVERAL_NODES and not job.leaves_node):
        return False
    if ground["scope"] == "node" or share.whole:
        return True
    if ground["scope"] == "whole" or share.gpus is None:
        return False
    gone_unnamed = bool(share.unmapped) and ground["rule"] == "GPU001" and not share.known & set(ground["gpus"])
    return bool(share.gpus & set(ground["gpus"])) or gone_unnamed


def _short(reading: Reading, job: Job) -> Ground | None:
    """Fewer GPUs on the bus than the job was given. MIG devices are no GPUs of the bus."""
    on_bus, given = reading["on_bus"], len(job.gpus or ())
    if on_bus is None or given <= on_bus or reading["mig"]:
        return None
    line = f"GPU001 {on_bus} GPUs on the bus, the job has {given}"
    return {"rule": "GPU001", "line": line, "subjects": [], "gpus": [], "scope": "node", "jobs": ANY}


def _unseen(reading: Reading, share: Share, job: Job) -> list[str]:
    """What was not seen of what this job needs."""
    return [
        entry["words"]
        for entry in reading["unseen"]
        if (job.leaves_node or not entry["several_nodes"])
        and (share.whole or entry["gpus"] is None or share.gpus is None or share.gpus & set(entry["gpus"]))
    ]
