"""What every source answers. A source hands out raw text and where it came from; it knows no meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

# sosreport's rule for turning a command into a file name (sos/utilities.py, `mangle_command`).
_UNSAFE = re.compile(r"[^\w\-./]+")

# What the reasons for two kinds of missing input begin with.
NO_ANSWER = "no answer within"  # killed at its deadline
NO_DRIVER = "not run: the NVIDIA driver is not loaded"
# Tools whose output is worth reading where somebody attached it; topocheck does not run them.
NEVER_RUN = (
    "iblinkinfo", "ibnetdiscover", "perfquery", "mst", "opt.mellanox.bin.mst", "lsmod", "ibv_devices", "sysctl",
)  # fmt: skip
MAX_TEXT_BYTES = 64 * 1024 * 1024  # interface section 1: what is read of one file or of standard input


class Raw(NamedTuple):
    """One text as the machine's tool printed it.

    input: the command or absolute path it is the output of ("nvidia-smi topo -m", "/proc/cmdline"), as far as the
    source knows; name: the file it was read from, for messages.
    """

    input: str
    text: str
    name: str


class Missing(NamedTuple):
    """An input that should have been there and is not, with the reason in plain words."""

    input: str
    reason: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a source knows of its own making; all None or empty where it does not know."""

    host: str | None = None
    time: str | None = None  # of the capture, "2026-11-20T03:04:05Z"
    privileged: bool | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)  # file in the folder → command or path
    missing: tuple[Missing, ...] = ()
    realpath: Mapping[str, str] = field(default_factory=dict)  # "/sys/bus/pci/devices/…" → "/sys/devices/…"


class Source(Protocol):
    """Where raw text comes from: this machine, a folder, one file, standard input."""

    @property
    def manifest(self) -> Manifest:
        """Host, time and rights of the capture, as far as it says."""

    @property
    def kind(self) -> str:
        """One of live, folder, archive, root, sosreport, bug-report, nccl-xml, hwloc-xml, text."""

    @property
    def name(self) -> str:
        """What the user would call it: a path, "stdin", a host name."""

    def texts(self, commands: Sequence[str], paths: Sequence[str]) -> Iterable[Raw | Missing]:
        """Every text there is, one after the other, so that no more than one need be held.

        A live source runs `commands` and reads `paths`. A folder hands out all its files, since people name files
        as they like and probes recognise them; of what is a copy of the system (`proc/…`, `etc/…`,
        `sos_commands/…`: thousands of files) only what `commands` and `paths` ask for.
        """

    def read(self, path: str) -> str | None:
        """The text of a file of the machine's tree ("/sys/class/infiniband/mlx5_0/fw_ver"), stripped, or None."""

    def read_bytes(self, path: str) -> bytes | None:
        """The same as bytes (PCI config space); None if not there or not readable."""

    def glob(self, pattern: str) -> list[str]:
        """Paths of the machine's tree that match ("/sys/bus/pci/devices/*"), sorted."""

    def sampled(self, paths: Sequence[str], rank: Callable[[str], float]) -> dict[str, str]:
        """The texts of files that change while one looks: of several readings of a live source the one of the highest
        rank, else the only one there is."""

    def realpath(self, path: str) -> str | None:
        """Where a link of the machine's tree points, from the tree's own root; None if no link of it is known."""


def mangle(command: str) -> str:
    """The file name sosreport gives to a command's output.

    >>> mangle("nvidia-smi topo -m")
    'nvidia-smi_topo_-m'
    """
    return _UNSAFE.sub("_", command).replace("/", ".").strip(" ._-")[:255]
