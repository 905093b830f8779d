"""The fleet in words: what screen and page both say, one line each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from topocheck.fleet.hosts import fold
from topocheck.fleet.record import VERDICTS
from topocheck.fleet.report import Comparison, Fleet, Group, Job, Other, RailEnd, Rails, Unlike, Unread
from topocheck.formats.screen import counted

_UNREAD = (("torn", "torn"), ("schema", "of another schema"), ("foreign", "foreign"))


@lru_cache(maxsize=256)
def folded(hosts: tuple[str, ...]) -> str:
    """Names folded: many groups are of the same nodes, and folding ten thousand takes a fifth of a second."""
    return fold(hosts)


def brief(hosts: tuple[str, ...], most: int | None) -> str:
    """Names folded; what is longer than `most` characters is cut between two names."""
    text = folded(hosts)
    if most is None or len(text) <= most:
        return text
    return f"{text[:most].rpartition(',')[0] or text[:most]},…"


def nodes(number: int) -> str:
    """ "1 node", "2 nodes"."""
    return counted(number, "node")


def percent(loss: float) -> str:
    """ "−45 %"."""
    return f"−{loss * 100:.0f} %"


def counts_of(fleet: Fleet) -> str:
    """How many nodes of each verdict, and what was found beside the nodes' own reports."""
    words = [f"{len(hosts)} {verdict}" for verdict in VERDICTS if (hosts := fleet.verdicts.get(verdict, ()))]
    faults = len(fleet.rails.faults)
    accused = sum(bool(entry.accused and entry.unexplained) for entry in fleet.unlike)
    words += [counted(faults, "cabling fault")] if faults else []
    words += [f"unlike in {counted(accused, 'field')}"] if accused else []
    words += [f"{len(fleet.missing)} missing"] if fleet.missing else []
    words += [f"{len(fleet.old)} with an old report"] if fleet.old else []
    words += [f"{fleet.unread.torn} torn"] if fleet.unread.torn else []
    return ", ".join(words)


def parts_of(fleet: Fleet) -> list[str]:
    """How many nodes, and of what kind they are."""
    head = nodes(len(fleet.hosts))
    if len(fleet.kinds) == 1:
        return [head, str(fleet.kinds[0][0])]
    return [f"{head} of {len(fleet.kinds)} kinds"] if fleet.kinds else [head]


def kinds_of(fleet: Fleet) -> list[str]:
    """The kinds where there are several, with their numbers."""
    return [f"{number} {kind}" for kind, number in fleet.kinds] if len(fleet.kinds) > 1 else []


def position(device: str, bdf: str | None) -> str:
    """ "mlx5_3 (0000:5e:00.0)"."""
    return f"{device} ({bdf})" if device and bdf and device != bdf else device or bdf or ""


def where(group: Group, most: int | None = None) -> str:
    """The position and the nodes that have the fault there."""
    number = f"on {nodes(len(group.hosts))}," if len(group.hosts) > 1 else ""
    parts = (position(group.device, group.bdf), number, brief(group.hosts, most))
    return " ".join(part for part in parts if part)


def message_of(group: Group) -> str:
    """What the worst of them says, without the device that was just named; its price if it is not in there."""
    text = group.message.removeprefix(f"{group.device} ") if group.device else group.message
    loss = group.worst_loss
    return text if not loss or percent(loss) in text else f"{text} ({percent(loss)})"


def unlike_words(entry: Unlike, others: Iterable[Other], *, kind: bool, most: int | None = None) -> str:
    """ "driver: 570.1 on gpu044; 126 of 127 have 580.95.05"; the kind of node where there are several."""
    odd = ", ".join(_other(other, most) for other in others)
    of = f" of {entry.kind}" if kind else ""
    usual = f"{round(entry.share * entry.nodes)} of {entry.nodes}{of} have {entry.majority}"
    field = entry.field if most is None else _first_place(entry.field)
    return f"{field}: {odd}; {usual}" if odd else f"{field}: {usual}"


def _first_place(field: str) -> str:
    """ "PCIe width of 8 places, gpu 0000:19:00.0 …" of one that names several."""
    name, _, places = field.partition(" places: ")
    return f"{name} places, {places.partition(', ')[0]} …" if places else field


def _other(other: Other, most: int | None) -> str:
    told = f" (told by {', '.join(other.follows)})" if other.follows else ""
    return f"{other.value} on {brief(other.hosts, most)}{told}"


def end_words(end: RailEnd) -> str:
    """ "gpu017 mlx5_3 (0000:5e:00.0): leaf-4 port 17, belongs at leaf-3"; the NIC's port unless it is the first."""
    port = f" port {end.port}" if end.port != 1 else ""
    found = "at no leaf" if end.leaf is None else end.leaf + (f" port {end.leaf_port}" if end.leaf_port else "")
    belongs = f", belongs at {end.expected_leaf}" if end.expected_leaf and end.expected_leaf != end.leaf else ""
    return f"{end.host} {position(end.nic, end.bdf)}{port}: {found}{belongs}"


def rails_words(rails: Rails) -> str:
    """What is known of the cabling as a whole; nothing where nothing is."""
    if rails.why_none is not None:
        return f"not judged: {rails.why_none}"
    ratios = [(ratio, leaf.switch) for leaf in rails.leaves if (ratio := leaf.oversubscription) is not None]
    words = [f"by {', '.join(rails.by)}"] if rails.by else []
    if rails.pods:
        seen = sum(len(pod.hosts) for pod in rails.pods)
        words.append(f"{nodes(seen)} in {counted(len(rails.pods), 'pod')}")
    words += [f"{len(rails.leaves)} {'leaf' if len(rails.leaves) == 1 else 'leaves'}"] if rails.leaves else []
    if ratios:
        worst, switch = max(ratios)
        words.append(f"oversubscription at most {worst:.2f} ({switch})")
    if rails.bisection_gbit_per_s is not None:
        words.append(f"bisection {rails.bisection_gbit_per_s:,.0f} Gb/s")
    return ", ".join(words)


def job_words(job: Job, most: int | None = None) -> str:
    """Which nodes a job gets."""
    short = "" if job.enough else f"only {len(job.chosen)} fit: "
    return f"{short}{brief(job.chosen, most) or 'none'}"


def pace_words(job: Job) -> str:
    """What the slowest chosen node makes of a collective; nothing where it is not known or none is slower."""
    slow, usual = job.slowest_gb_per_s, job.usual_gb_per_s
    if job.slowest is None or slow is None:
        return ""
    if not usual or slow >= usual:
        return f"{slow:.1f} GB/s a node, one direction, all NICs together: none is slower"
    return (
        f"{job.slowest} has {slow:.1f} of {usual:.1f} GB/s ({percent(1 - slow / usual)}): a collective runs at its pace"
    )


def left_out_of(job: Job) -> list[tuple[tuple[str, ...], str]]:
    """The nodes left out, those with one reason together."""
    hosts: dict[str, list[str]] = {}
    for left in job.left_out:
        hosts.setdefault(left.why, []).append(left.host)
    return [(tuple(who), why) for why, who in hosts.items()]


def comparison_words(entry: Comparison, most: int | None = None) -> str:
    """How many nodes could be compared, and which stand on one side only."""
    unchanged = [] if entry.changes else ["nothing changed" if entry.nodes else "nothing to compare"]
    words = [f"{nodes(entry.nodes)} in both", *unchanged]
    words += [f"no report now: {brief(entry.only_then, most)}"] if entry.only_then else []
    words += [f"none then: {brief(entry.only_now, most)}"] if entry.only_now else []
    return "; ".join(words)


def unread_words(unread: Unread) -> str:
    """What cost a line; nothing where all was read."""
    words = [f"{getattr(unread, cause)} {word}" for cause, word in _UNREAD if getattr(unread, cause)]
    words += [f"{unread.duplicate} older of a host seen twice"] if unread.duplicate else []
    return ", ".join(words)


def skipped_words(fleet: Fleet) -> list[str]:
    """ "P2P003 on all", "NET003 on 12 of 128": rules that could not see."""
    total = len(fleet.hosts)
    return [f"{rule} on {'all' if number == total else f'{number} of {total}'}" for rule, number in fleet.skipped]
