"""Which PCIe links rules judge, whose they are, and what equals prove."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from topocheck.expected import EarlierLink
from topocheck.facts import Evidence
from topocheck.finding import NotApplicable, Severity, Skip, enough, equals_of
from topocheck.graph import Device, PcieLink, Topology
from topocheck.hardware.pcie import GTS_OF_GEN, gen_word
from topocheck.model import Scenario


class JudgedLink(NamedTuple):
    """A link on the path of a GPU or a compute NIC. subject: the device whose own link it is, else the lower end;
    owner: that device; users: every GPU and compute NIC whose path crosses it."""

    link: PcieLink
    subject: str
    owner: Device | None
    users: tuple[Device, ...]


def judged_links(node: Topology) -> list[JudgedLink]:
    """The links rules may speak of: not those of other endpoints, of GPUs with C2C, nor of emulated bridges."""
    users: dict[str, list[Device]] = {}
    for device in (*node.gpus, *judged_nics(node)):
        if device.is_vf or (device.part and device.part.c2c):
            continue
        for link in node.path_up(device):
            users.setdefault(link.id, []).append(device)
    found = [_judged(node.links[key], tuple(users[key])) for key in node.links if key in users]
    orphans = [x for x in node.links.values() if (x.at_boot or _of_a_nameless(node, x)) and x.id not in users]
    return [*found, *(JudgedLink(x, x.id, None, ()) for x in orphans)]


def _of_a_nameless(node: Topology, link: PcieLink) -> bool:
    """Whether the link is that of a card asked for by its address alone (`lspci -s … | grep Lnk`): no line says what it
    is. It is judged, as in the kernel's log, where it can x16, as GPUs and NICs do, and has fewer lanes."""
    f = node.functions.get(link.id)
    if f is None or f.vendor_id or f.class_id or f.name or f.port_type or not f.bdf.endswith(":00.0"):
        return False
    on_root_bus = f.bdf.split(":")[1] == "00"
    return not on_root_bus and lanes(link) < (f.max_width or 0) >= 16


def unread_links(node: Topology, judged: list[JudgedLink], read: int, how: str) -> Iterator[Skip | NotApplicable]:
    """What a rule of PCIe links says where it could not look at every one; `read`: at how many, `how`: at what."""
    if not judged:
        yield Skip("no PCIe link field in the input") if node.devices else NotApplicable("no GPU or compute NIC")
    elif read < (due := _links_due(node, judged)):
        yield Skip(f"{read} of {due} links read{how}", partial=read > 0)


def _links_due(node: Topology, judged: list[JudgedLink]) -> int:
    """How many links there are to judge: those read at some end, and the own links of GPUs and NICs that were not."""
    read = {j.link.id for j in judged}
    devices = [d for d in (*node.gpus, *judged_nics(node)) if not d.is_vf and not (d.part and d.part.c2c)]
    return len(judged) + sum((d.bdf or d.id) not in read for d in devices)


def judged_nics(node: Topology) -> list[Device]:
    """Compute NICs, and those whose role cannot be told."""
    return [n for n in node.nics if n.role == "compute" or (n.role == "unknown" and not n.is_vf)]


def _judged(link: PcieLink, users: tuple[Device, ...]) -> JudgedLink:
    owner = next((d for d in users if link.b in (d.bdf, d.id)), None)
    return JudgedLink(link, owner.id if owner else link.id, owner, users)


def lanes(link: PcieLink) -> int:
    """The width the link runs at, 0 where it was not read."""
    return link.width or 0


def gts(link: PcieLink) -> float:
    """The speed the link runs at, 0 where it was not read."""
    return link.speed_gts or 0.0


def can_lanes(link: PcieLink) -> int:
    """The width both ends can, 0 where one was not read."""
    return link.can_width or 0


def can_gts(link: PcieLink) -> float:
    """The speed both ends can, 0 where one was not read."""
    return link.can_speed_gts or 0.0


def awake_gts(link: PcieLink) -> float:
    """The speed the link runs at, or would run at awake; 0 where it was not read."""
    return (link.can_speed_gts or link.max_speed_gts or 0.0) if link.asleep else gts(link)


def measurable(judged: JudgedLink) -> bool:
    """Whether the trained width and speed were read at all."""
    link = judged.link
    return bool(link.width) and bool(link.speed_gts) and not link.implausible


def misstated(node: Topology, j: JudgedLink) -> bool:
    """Whether the link is below an upstream port whose stated maximum is below its root port and below all its devices:
    it is not believed. A port below it that states even less, in speed or width, speaks for itself."""
    port = node.functions.get(j.link.a or "")
    if port is None or port.port_type != "downstream":
        return False
    upstream = node.functions.get(node.parents.get(port.bdf, ""))
    link = node.links.get(upstream.bdf) if upstream else None
    if upstream is None or link is None or not upstream.max_speed_gts:
        return False
    if (port.max_speed_gts or 0.0) < upstream.max_speed_gts or (j.link.a_max_width or 0) < (j.link.max_width or 0):
        return False
    below = [x for d in j.users if (x := node.links.get(d.bdf or d.id))]
    return (link.a_max_speed_gts or 0.0) > upstream.max_speed_gts and all(
        (x.max_speed_gts or 0.0) > upstream.max_speed_gts for x in below
    )


def equal_links(node: Topology, judged: JudgedLink) -> list[PcieLink]:
    """The links of the owner's equals; for a link between bridges, those whose lower ends are the same part in the
    same place on other GPU and NIC paths."""
    if judged.owner is not None:
        equals = equals_of(node, judged.owner)
        return [x for d in equals if (x := node.links.get(d.bdf or d.id)) is not None]
    mine = node.functions.get(judged.link.id)
    if mine is None:
        return []
    return [
        other.link
        for other in judged_links(node)
        if other.link.id != judged.link.id
        and (f := node.functions.get(other.link.id)) is not None
        and (f.vendor_id, f.device_id, f.port_type) == (mine.vendor_id, mine.device_id, mine.port_type)
    ]


def severity_by_equals(equals: list[PcieLink], better: Callable[[PcieLink], bool]) -> tuple[Severity, int]:
    """error when at least half of the equals, and at least two, are better; and how many are."""
    count = sum(better(x) for x in equals)
    return ("error" if enough(count, len(equals)) else "warning"), count


def lanes_before(node: Topology, link: PcieLink) -> int:
    """The width the link had in the baseline, 0 where it does not say."""
    then = _ran_before(node, link)
    return (then.width or 0) if then else 0


def gts_before(node: Topology, link: PcieLink) -> float:
    """The speed it had then."""
    then = _ran_before(node, link)
    return (then.speed_gts or 0.0) if then else 0.0


def _ran_before(node: Topology, link: PcieLink) -> EarlierLink | None:
    """The link as the baseline has it: above the same device, or between the same two bridges."""
    baseline = node.expected.baseline
    then = baseline.links.get(link.id) if baseline else None
    if baseline is None or then is None:
        return None
    device = next((d for d in baseline.devices if d.bdf == link.id), None)
    now = node.by_id.get(link.id)
    same = then.a == link.a if device is None else now is not None and now.pci_id == device.pci_id
    return then if same else None


def built_lanes(node: Topology, j: JudgedLink) -> int:
    """The width of the platform's GPUs and compute NICs, 0 where its row does not say."""
    return _built(node, j).get("width", 0)


def built_gts(node: Topology, j: JudgedLink) -> float:
    """Their speed."""
    return GTS_OF_GEN.get(_built(node, j).get("gen", 0), 0.0)


def _built(node: Topology, j: JudgedLink) -> Mapping[str, int]:
    own = j.owner is not None and (j.owner.kind == "gpu" or j.owner.role == "compute")
    return node.platform.pcie if node.platform and own else {}


def link_scenarios(node: Topology, judged: JudgedLink) -> tuple[Scenario, ...]:
    """By RDMA of a GPU whose traffic crosses the link, else to host memory."""
    gpus = [d.id for d in judged.users if d.kind == "gpu"]
    nics = [d.id for d in judged.users if d.kind == "nic"]
    gpus += [gpu for gpu, own in node.assignment.items() if set(own) & set(nics) and gpu not in gpus]
    by_rdma = tuple(Scenario("gpu-nic", gpu) for gpu in gpus)
    to_host = tuple(Scenario("gpu-host", d.id) for d in judged.users if d.kind == "gpu")
    return (*by_rdma, *to_host, *(Scenario("nic-host", nic) for nic in nics))


def link_words(link: PcieLink) -> str:
    """ "PCIe 5.0 x8"; "PCIe ~4.0 x16" for a link that sleeps and is taken at what it can."""
    if not link.speed_gts:
        return f"PCIe x{link.width}"
    awake = link.asleep and awake_gts(link)
    return f"PCIe ~{gen_word(awake)} x{link.width}" if awake else f"PCIe {gen_word(link.speed_gts)} x{link.width}"


def link_evidence(link: PcieLink, field: str) -> tuple[Evidence, ...]:
    """The line that shows the trained value; `field` is "width" or "gen" for nvidia-smi's own line."""
    for key in ("LnkSta", "a LnkSta", f"smi {field}", "kernel"):
        line = link.lines.get(key)
        if line is not None and _shows(line, link, field):
            return (line,)
    return tuple(
        line for key in ("LnkSta", "a LnkSta", f"smi {field}", "kernel", "header") if (line := link.lines.get(key))
    )[:1]


def _shows(line: Evidence, link: PcieLink, field: str) -> bool:
    wanted = f"{link.width}" if field == "width" else f"{link.speed_gts:g}"
    return wanted in line.text
