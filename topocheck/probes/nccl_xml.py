"""NCCL's topology XML: what NCCL_TOPO_DUMP_FILE wrote, or a cloud's template for NCCL_TOPO_FILE.

<system version="1">
  <cpu numaid="0" affinity="00000000,0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:15:01.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s" link_width="16">
      <pci busid="0000:1b:00.0" class="0x030200" vendor="0x10de" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:05:00.0" count="4" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:1c:00.0" class="0x020700" vendor="0x15b3" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>

Speeds and widths are what both ends can, never what a link trained to (GPUs excepted from NCCL 2.30 on, which the file
does not tell): maxima here. A bridge stands for a switch's upstream and downstream port; devices below one `cpu` count
as below one host bridge, as NCCL counts them. Only the GPUs of one communicator and NICs with an active port are in it:
what is not there is not missing. Where a document is cut, the switch it was cut in is left out: its NIC may be behind
the cut, its GPU's NVLinks too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

from topocheck.facts import (
    Evidence,
    Fact,
    Gap,
    GpuState,
    Host,
    Matrix,
    NumaNode,
    NvlinkGpu,
    NvlinkPort,
    PciFunction,
    PciListing,
    RdmaDevice,
    RdmaPort,
    full_bdf,
)
from topocheck.probes.cpu_list import MAX_CPU, spell_cpus
from topocheck.probes.lines import sniffed
from topocheck.probes.xml_tree import Element, read_xml

INPUT = "NCCL topology XML"
COMMANDS = ()
PATHS = ()
NAME = r"nccl[\w.-]{0,40}topo[\w.-]{0,40}\.xml$|topo\.xml$|virtualTopology\.xml$"

_OPENING = re.compile(r"<system\s[^>]{0,200}>")
_LOOKS = re.compile(r"<system\s[^>]{0,120}version=\"?\d[^>]{0,120}>(?:\s|<!--[^>]{0,2000}-->){0,9}<cpu\s")
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) ?GT/s")
_MAX_LINKS = 64  # NVLinks of one GPU; NVLink 5 has 18
_MAX_WIDTH = 32
_NV_SWITCH = "0x0680"
_MBIT_PER_GBIT = 1000
_PART = "holds the GPUs of one job and the NICs with an active port: what is lost or down would not be in it"


@dataclass
class _Gpu:
    """A GPU, and how many NVLinks go to which address ("" where it is not told), and to switches in all."""

    index: int
    bdf: str
    line: Evidence
    targets: dict[str, int] = field(default_factory=dict)
    switched: int = 0


@dataclass
class _System:
    """What was read so far."""

    facts: list[Fact] = field(default_factory=list)
    gpus: list[_Gpu] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    foreign: int = 0  # GPUs of another maker


def sniff(text: str) -> bool:
    """Whether a document of NCCL's begins in the text."""
    return sniffed(_LOOKS, text)


def parse(text: str) -> Iterable[Fact]:
    """PCI functions, GPUs, NVLinks, NICs and NUMA nodes of the one host in it."""
    root, problem = read_xml(text, _OPENING, "system")
    system = _System()
    if problem:
        system.gaps.append(Gap(INPUT, problem))
    if root is not None:
        cpus = list(root.named("cpu"))
        hosts = {cpu.get("host_hash") for cpu in cpus}
        if len(hosts) > 1:
            system.gaps.append(Gap(INPUT, f"{len(hosts)} hosts in one file: only the first is read"))
        for cpu in cpus:
            if cpu.get("host_hash") == cpus[0].get("host_hash"):
                _read_cpu(cpu, _whole(cpu, cpus[0]), system)
    if system.gpus:
        system.gaps.append(Gap(INPUT, _PART))
    elif system.facts and not system.foreign:
        system.gaps.append(Gap(INPUT, "names no GPU (no gpu element): a template of the machine's tree"))
    if system.foreign:
        system.gaps.append(Gap(INPUT, f"{system.foreign} GPUs that are not NVIDIA's: not read"))
    return [*system.facts, *_nvlinks(system.gpus), *system.gaps]


def _whole(cpu: Element, first: Element) -> list[Element]:
    """The CPU's children that no cut has left incomplete: a GPU directly on a CPU may have its NIC there, after it."""
    whole = [child for child in cpu.children if child.closed]
    return whole if cpu.closed or cpu is first else [child for child in whole if any(child.named("pci"))]


def _read_cpu(cpu: Element, children: list[Element], system: _System) -> None:
    node = int(cpu.get("numaid")[:4]) if cpu.get("numaid").isdecimal() else None
    if node is not None:
        system.facts.append(NumaNode(INPUT, node, cpus=_cpus(cpu.get("affinity"))))
    if arch := cpu.get("arch"):
        system.facts.append(Host(INPUT, arch=arch, line=cpu.evidence(INPUT)))
    root = f"cpu{cpu.get('numaid')}"
    pending = [(child, "") for child in reversed(children)]
    while pending:
        element, above = pending.pop()
        if element.name == "nic":
            _read_nets(element, None, system)
        if element.name != "pci" or (bdf := full_bdf(element.get("busid"))) is None:
            continue
        _read_pci(element, bdf, above, root, node, system)
        pending += [(child, bdf) for child in reversed(element.children) if child.name == "pci"]


def _read_pci(element: Element, bdf: str, above: str, root: str, node: int | None, system: _System) -> None:
    gpu = next(element.named("gpu"), None)
    vendor = _hex(element.get("vendor"))
    if gpu is not None:
        if gpu.get("gcn") or gpu.get("arch") or vendor not in (None, "10de"):
            system.foreign += 1
        else:
            vendor = "10de"  # files before NCCL 2.9 name no vendors
            _read_gpu(gpu, bdf, system)
    function = _function(element, bdf, vendor, gpu is not None)
    system.facts.append(_placed(function, above, root, node, element))
    if function.is_bridge and not above:
        system.facts.append(PciListing(INPUT, whole=False))
    for nic in element.named("nic"):
        _read_nets(nic, bdf, system)


def _function(element: Element, bdf: str, vendor: str | None, has_gpu: bool) -> PciFunction:
    class_id = (_hex(element.get("class")) or "")[:4] or ("0302" if has_gpu else None)
    speed = _SPEED.match(element.get("link_speed"))
    width = int(element.get("link_width")[:3]) if element.get("link_width").isdecimal() else 0
    subsystem = (_hex(element.get("subsystem_vendor")), _hex(element.get("subsystem_device")))
    return PciFunction(
        bdf,
        INPUT,
        class_id=class_id,
        vendor_id=vendor,
        device_id=_hex(element.get("device")),
        subsystem=f"{subsystem[0]}:{subsystem[1]}" if all(subsystem) else None,
        is_bridge=class_id == "0604",
        port_type="upstream" if class_id == "0604" else None,
        max_speed_gts=float(speed[1]) if speed else None,
        max_width=width if 0 < width <= _MAX_WIDTH else None,
    )


def _placed(function: PciFunction, above: str, root: str, node: int | None, element: Element) -> PciFunction:
    line = element.evidence(INPUT)
    lines = {"header": line} | ({"LnkCap": line} if function.max_width else {})
    return replace(function, parent=above, root=None if above else root, numa_node=node, lines=lines)


def _read_gpu(gpu: Element, bdf: str, system: _System) -> None:
    number = gpu.get("dev")
    taken = {known.index for known in system.gpus}
    if not number.isdecimal() or len(number) > 3 or int(number) in taken:
        return
    found = _Gpu(int(number), bdf, gpu.evidence(INPUT))
    for link in gpu.named("nvlink"):
        target, count = full_bdf(link.get("target")), link.get("count")
        if target != bdf and count.isdecimal() and 0 < int(count[:4]) <= _MAX_LINKS:
            found.targets[target or ""] = found.targets.get(target or "", 0) + int(count)
            found.switched += int(count) if link.get("tclass").startswith(_NV_SWITCH) else 0
    system.gpus.append(found)
    system.facts.append(GpuState(INPUT, found.index, bdf=bdf, lines={"bdf": found.line}))


def _read_nets(nic: Element, bdf: str | None, system: _System) -> None:
    """RDMA ports; a `net` without a GUID is a socket's interface. NCCL lists active ports only."""
    for net in nic.named("net"):
        name = re.sub(r"-(?:rdm|dgrm)$", "", net.get("name"))
        guid, port, speed = net.get("guid"), net.get("port"), net.get("speed")
        if not name or not guid.strip("0x") or not port.isdecimal():
            continue
        rate = int(speed[:9]) / _MBIT_PER_GBIT if speed.isdecimal() and int(speed[:9]) else None
        line = net.evidence(INPUT)
        lines = {"state": line, "rate_gbit_per_s": line}
        read = RdmaPort(int(port[:3]), state="active", rate_gbit_per_s=rate, guid=guid, lines=lines)
        system.facts.append(RdmaDevice(INPUT, name, bdf=bdf, node_guid=guid, ports=(read,), line=line))


def _nvlinks(gpus: list[_Gpu]) -> Iterator[Fact]:
    """Links by GPU, and what that makes of each pair: through switches as many as the one with fewer has."""
    if not any(gpu.targets for gpu in gpus):
        return
    for gpu in gpus:
        ends = [target for target, count in gpu.targets.items() for _ in range(count)]
        ports = (NvlinkPort(i, True, None, end or None, line=gpu.line) for i, end in enumerate(ends[:_MAX_LINKS]))
        yield NvlinkGpu(INPUT, gpu.index, ports=tuple(ports), line=gpu.line)
    cells: dict[tuple[str, str], str] = {}
    for a, b in combinations(gpus, 2):
        switched = min(a.switched, b.switched)
        there, back = a.targets.get(b.bdf) or switched, b.targets.get(a.bdf) or switched
        if there and back:
            first, second = f"GPU{a.index}", f"GPU{b.index}"
            cells |= {(first, second): f"NV{there}", (second, first): f"NV{back}"}
    if cells:
        names = tuple(f"GPU{gpu.index}" for gpu in gpus)
        lines = {f"GPU{gpu.index}": gpu.line for gpu in gpus}
        yield Matrix(INPUT, names, cells, {}, {}, lines=lines)


def _cpus(mask: str) -> str | None:
    """A mask in groups of 32 bits, the highest first, as a list."""
    digits = mask.replace(",", "")
    if not re.fullmatch(r"[0-9a-fA-F]{1,2048}", digits):
        return None
    bits = int(digits, 16)
    return spell_cpus(i for i in range(min(bits.bit_length(), MAX_CPU + 1)) if bits >> i & 1)


def _hex(text: str) -> str | None:
    """ "0x10de" as "10de"; None for what is no number, zero or all ones."""
    digits = text.lower().removeprefix("0x")
    return digits if re.fullmatch(r"[0-9a-f]{4,6}", digits) and digits.strip("0") and digits.strip("f") else None
