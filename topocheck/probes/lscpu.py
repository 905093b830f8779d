"""`lscpu`: NUMA nodes, sockets, architecture and hypervisor, from its summary or its tables (`lscpu -e`, `lscpu -p`).

The summary may be nested (two blanks under "NUMA:"), translated ("NUMA-Knoten0 CPU(s):"), have strides ("0-62:2"),
empty nodes, one block for each core type, or no NUMA lines at all. "Virtualization: VT-x" is a capability of the CPU;
only "Hypervisor vendor:" says that this is a virtual machine, and not even that in Xen's own host ("type: none").
`sglang.check_env` prints this line alone, of late with two colons.

    Architecture:            x86_64
    CPU(s):                  16
    On-line CPU(s) list:     0-15
    Model name:              Intel(R) Xeon(R) Silver 4309Y CPU @ 2.80GHz
    Thread(s) per core:      1
    Core(s) per socket:      8
    Socket(s):               2
    Virtualization:          VT-x
    NUMA node(s):            2
    NUMA node0 CPU(s):       0,2,4,6,8,10,12,14
    NUMA node1 CPU(s):       1,3,5,7,9,11,13,15
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact, Gap, Host, NumaNode
from topocheck.probes.cpu_list import MAX_NODE, kernel_form, spell_cpus
from topocheck.probes.lines import lines, sniffed

INPUT = "lscpu"
COMMANDS: tuple[str, ...] = ("lscpu",)
PATHS: tuple[str, ...] = ()
NAME = r"lscpu"

# "NUMA-Knoten0 CPU(s):", "NUMA 节点0 CPU：", "Nœud NUMA 0 de processeur(s) :", "CPU(s) de nó0 NUMA:".
_OF_NODE = (
    r"(?:NUMA[ -]\D{1,12}(?=\d{1,4} CPU)|Nœud NUMA (?=\d{1,4} de proc)|CPU\(s\) de nó(?=\d{1,4} NUMA)"
    r"|CPU\(s\) del nodo NUMA )(\d{1,4})(?: CPU(?:\(s\))?| de processeur\(s\)| NUMA)?[ \t]*[:：]"
)
_SUMMARY = (
    rf"{_OF_NODE}"
    r"|(?:Socket|Core)\(s\)(?: per socket)?:[ \t]+[\d-]|On-line CPU\(s\) list:|Hypervisor vendor::?[ \t]+\w"
)
_TABLE_HEADER = r"(?:# )?CPU[ ,]+(?:[A-Z0-9a-z:]+[ ,]+){0,12}?(?:NODE|SOCKET|Node|Socket)\b"
_SNIFF = re.compile(rf"^[^\S\n]*(?:{_SUMMARY}|{_TABLE_HEADER})", re.MULTILINE)
_NODE = re.compile(rf"{_OF_NODE}\s*(.*)")
_REST_OF_LIST = re.compile(r"[\d,-]+")  # of a list that a terminal's margin broke
_HEADER = re.compile(_TABLE_HEADER)
_KEYS = ("Architecture", "Model name", "Hypervisor vendor", "Virtualization type", "Socket(s)", "CPU(s)")
_IN_ENGLISH = {
    "Sockel": "Socket(s)",
    "座": "Socket(s)",
    "Hypervisor-Anbieter": "Hypervisor vendor",
    "超管理器厂商": "Hypervisor vendor",
    "Constructeur d'hyperviseur": "Hypervisor vendor",
    "Processeur(s)": "CPU(s)",
}

Summary = dict[str, list[str]]
Table = list[dict[str, str]]


def sniff(text: str) -> bool:
    """Whether the text holds lscpu's summary or one of its tables."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """One fact a node and one of the host; a gap for a list of CPUs that cannot be read."""
    summary, lists, table = _read(text)
    nodes, sockets_of = _nodes_of(table)
    for number, printed in lists.items():
        cpus = kernel_form(printed)
        if cpus is None:
            yield Gap(INPUT, f"the list of CPUs of node {number} cannot be read")
        nodes[number] = cpus
    sockets = _sockets(summary, table)
    derived = _spread(sorted(n for n, cpus in nodes.items() if cpus != ""), sockets)
    for number, cpus in sorted(nodes.items()):
        socket = _only(sockets_of[number]) if number in sockets_of else derived.get(number)
        yield NumaNode(INPUT, number, cpus, socket=socket)
    if summary or table:
        yield _host(summary, table, sockets)


def _read(text: str) -> tuple[Summary, dict[int, str], Table]:
    summary: Summary = {}
    lists: dict[int, str] = {}
    table: Table = []
    header: list[str] = []
    last: int | None = None  # the node whose list the line before holds
    for line in lines(text):
        if last is not None and _REST_OF_LIST.fullmatch(line.text) and "," in lists[last][-1:] + line.text:
            lists[last] += line.text
            continue
        key, _, value = line.text.replace("：", ":", 1).partition(":")
        key, value = _IN_ENGLISH.get(key.rstrip(), key.rstrip()), value.removeprefix(":").strip()
        match = _NODE.match(line.text)
        last = int(match[1]) if match and int(match[1]) <= MAX_NODE and int(match[1]) not in lists else None
        if match and last is not None:
            lists[last] = match[2].strip()
        elif match:
            continue
        elif key in _KEYS and value:
            summary.setdefault(key, []).append(value)
        elif _HEADER.match(line.text):
            header = _cells(line.text.lstrip("# ").upper())
        elif header and line.text[:1].isdigit() and len(cells := _cells(line.text)) >= 2:
            table.append(dict(zip(header, cells, strict=False)))
    return summary, lists, table


def _cells(text: str) -> list[str]:
    return text.split(",") if "," in text else text.split()


def _nodes_of(table: Table) -> tuple[dict[int, str | None], dict[int, set[int]]]:
    """CPUs and sockets of the nodes of a table; an offline CPU has "-" there and belongs to none."""
    cpus: dict[int, set[int]] = {}
    sockets: dict[int, set[int]] = {}
    for row in table:
        cpu, node, socket = (row.get(name, "") for name in ("CPU", "NODE", "SOCKET"))
        if cpu.isdecimal() and node.isdecimal():
            cpus.setdefault(int(node[:6]), set()).add(int(cpu[:6]))
            sockets.setdefault(int(node[:6]), set()).update({int(socket[:6])} if socket.isdecimal() else ())
    return {number: spell_cpus(members) for number, members in cpus.items()}, sockets


def _sockets(summary: Summary, table: Table) -> int | None:
    """How many sockets; of several core types the largest number, since they share them."""
    counted = [int(text[:4]) for text in summary.get("Socket(s)", ()) if text.isdecimal()]
    if counted:
        return max(counted)
    return len({row["SOCKET"] for row in table if row.get("SOCKET", "").isdecimal()}) or None


def _spread(nodes: list[int], sockets: int | None) -> dict[int, int]:
    """The socket of each node with CPUs where they divide evenly, as the firmware numbers them; else nothing."""
    if not sockets or not nodes or len(nodes) % sockets:
        return {}
    per_socket = len(nodes) // sockets
    return {number: position // per_socket for position, number in enumerate(nodes)}


def _only(sockets: set[int]) -> int | None:
    return next(iter(sockets)) if len(sockets) == 1 else None


def _host(summary: Summary, table: Table, sockets: int | None) -> Host:
    vendor = summary.get("Hypervisor vendor", [None])[0]
    is_guest = vendor is not None and summary.get("Virtualization type") != ["none"]
    count = summary.get("CPU(s)", [""])[0]
    return Host(
        INPUT,
        arch=summary.get("Architecture", [None])[0],
        sockets=sockets,
        hypervisor=vendor if is_guest else None,
        virtual=True if is_guest else None,
        cpu_count=int(count[:6]) if count.isdecimal() else len(table) or None,
    )
