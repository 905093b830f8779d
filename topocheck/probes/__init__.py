"""The probes, and what tells their inputs apart.

The table repeats each module's NAME, COMMANDS and PATHS, so that only the modules whose input is there are imported
(a test compares the two). Of two names that match, the longer match wins.
"""

from __future__ import annotations

from typing import NamedTuple


class TextEntry(NamedTuple):
    """A text probe: its module, and what it says of its input."""

    module: str
    name: str  # regular expression, matched at the start of a file's name
    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    takes_command: bool = False  # parse() wants the command line, as far as the input's name gives it away
    any_length: bool = False  # finds its lines without looking at the others, and what counts may stand last


TEXT_PROBES: tuple[TextEntry, ...] = (
    TextEntry("cpus", r"psutil(?:\.json)?$", ("psutil.json",)),
    TextEntry("environ", r"environ(?:\.json)?$|(?:print)?env(?:\.txt)?$|nccl[._]conf", ("environ.json",)),
    TextEntry("fabric", r"ibqueryerrors|ibswitches|ibhosts|sminfo"),
    TextEntry("fi_info", r"fi_info", ("fi_info -p efa",)),
    TextEntry("hwloc_xml", r"(?:hwloc|lstopo)[\w.-]{0,60}\.xml$"),
    TextEntry("ibdev2netdev", r"ibdev2netdev", ("ibdev2netdev",)),
    TextEntry("iblinkinfo", r"iblinkinfo"),
    TextEntry("ibnetdiscover", r"ibnetdiscover"),
    TextEntry("ibstat", r"ibstat(?!us)", ("ibstat",)),
    TextEntry("ibstatus", r"ibstatus", ("ibstatus",)),
    TextEntry("ibv_devices", r"ibv_devices"),
    TextEntry("ibv_devinfo", r"ibv_devinfo", ("ibv_devinfo -v",)),
    TextEntry("kernel_log", r"dmesg|journalctl|kern(?:el)?[._-]?log|messages|syslog", ("dmesg",), any_length=True),
    TextEntry("kernel_modules", r"lsmod|(?:proc[._])?modules(?:\.txt)?$", (), ("/proc/modules",)),
    TextEntry("lldp", r"lldp(?:ctl|cli)", ("lldpctl -f json",)),
    TextEntry("lscpu", r"lscpu", ("lscpu",)),
    TextEntry(
        "lspci",
        r"(?:sudo_)?lspci(?:_-[nvxkmbDs]+)*(?:_-[sd]_[\w.:-]+)?(?:_-[nvxk]+)*(?:_grep_.*)?(?:[._](?:txt|log|out))?$",
        ("lspci -D -nn -vv",),
    ),
    TextEntry("lspci_hex", r"(?:sudo_)?lspci_-[a-zA-Z]*x{3,4}"),
    TextEntry(
        "lspci_tree", r"(?:sudo_)?lspci(?:_-[a-zA-Z]+)*_-[a-zA-Z]*t[a-zA-Z]*(?:_-[a-zA-Z]+)*(?:[._](?:txt|log|out))?$"
    ),
    TextEntry("mst_status", r"mst[ _.-]status"),
    TextEntry("nccl_log", r"nccl[\w.-]{0,60}\.(?:log|txt|out)$", any_length=True),
    TextEntry("nccl_xml", r"nccl[\w.-]{0,40}topo[\w.-]{0,40}\.xml$|topo\.xml$|virtualTopology\.xml$"),
    TextEntry("numactl", r"numactl(?!.{0,40}-{1,2}s(?:how)?\b)", ("numactl -H",)),
    TextEntry("nvidia_version", r"(?:proc[._])?(?:driver[._])?nvidia[._]version", (), ("/proc/driver/nvidia/version",)),
    TextEntry("perfquery", r"perfquery"),
    TextEntry("pci_ls", r"(?:sudo_)?ls(?:_-[a-zA-Z0-9]+)*_[._]?sys[._]bus[._]pci[._]devices[._]?(?:txt|log|out)?$"),
    TextEntry("proc_cmdline", r"(?:proc[._])?cmdline", (), ("/proc/cmdline",)),
    TextEntry("rdma_link", r"rdma[ _.-]?link", ("rdma link",)),
    TextEntry("show_gids", r"show_gids"),
    TextEntry("smi_list", r"nvidia[-_]?smi[\W_]*(?:L|list[-_]gpus)(?![a-zA-Z])", ("nvidia-smi -L",)),
    TextEntry(
        "smi_nvlink",
        r"(?:nvidia[-_]?smi[\W_]*)?nvlink",
        ("nvidia-smi nvlink -s", "nvidia-smi nvlink -e", "nvidia-smi nvlink -R"),
        takes_command=True,
    ),
    TextEntry(
        "smi_p2p",
        r"nvidia[-_]?smi[\W_]*topo[\W_]*p2p",
        ("nvidia-smi topo -p2p r", "nvidia-smi topo -p2p w", "nvidia-smi topo -p2p n"),
        takes_command=True,
    ),
    TextEntry("smi_query", r"nvidia[-_]?smi[\W_]*q(?:uery)?(?![a-z])(?!-[a-z])(?!.*(?:-x(?![a-z])|xml))"),
    TextEntry(
        "smi_query_xml",
        r"nvidia[-_]?smi[\W_]*(?:q(?:uery)?[\W_]+(?:x(?![a-z])|xml)|x[\W_]+q(?![a-z])|xml)",
        ("nvidia-smi -q -x",),
    ),
    TextEntry("smi_table", r"nvidia[-_]?smi(?:\.(?:txt|out|log|\d+))?$"),
    TextEntry("smi_topo", r"nvidia[-_]?smi[\W_]*topo(?![\W_]*p2p)", ("nvidia-smi topo -m",), takes_command=True),
    TextEntry("sysctl", r"sysctl"),
    TextEntry("uname", r"uname", ("uname -r",)),
    TextEntry("nvml", r"nvml(?:\.json)?$", ("nvml.json",)),  # last: its matrix has no NICs
)
TREE_PROBES: tuple[str, ...] = ("host_files", "nccl_files", "sysfs_ib", "sysfs_numa", "sysfs_pci")


def asked() -> tuple[list[str], list[str]]:
    """The commands and paths that are asked of a live source."""
    commands = [command for entry in TEXT_PROBES for command in entry.commands]
    return commands, [path for entry in TEXT_PROBES for path in entry.paths]
