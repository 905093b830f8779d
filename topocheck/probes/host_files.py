"""Small files of the machine: its name, boot, product, NUMA balancing, whether it is a VM or we are in a container."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from topocheck.facts import Evidence, Fact, Host
from topocheck.probes.cpu_list import kernel_form
from topocheck.sources.base import Source

INPUT = "/proc"

_CPUINFO = "/proc/cpuinfo"
_NUMA_BALANCING = "/proc/sys/kernel/numa_balancing"
_STATUS = "/proc/self/status"
_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*([\d,-]{1,4000})$", re.MULTILINE)
_DMI = "/sys/class/dmi/id"
_CONTAINER_FILES = ("/run/.containerenv", "/.dockerenv")
_CONTAINER_CGROUP = re.compile(r"/(?:docker|kubepods|containerd|libpod|lxc|podman)\b")
_FIRST_CPU_CHARS = 16384  # the first CPU's block: its flags hold for all


def read(source: Source) -> Iterable[Fact]:
    """One fact a file, so that each has its own witness."""
    for path in ("/proc/sys/kernel/hostname", "/etc/hostname"):
        if name := source.read(path):
            yield Host(path, hostname=name)
            break
    if boot_id := source.read("/proc/sys/kernel/random/boot_id"):
        yield Host("/proc/sys/kernel/random/boot_id", boot_id=boot_id)
    if (balancing := source.read(_NUMA_BALANCING) or "").isdecimal():
        line = Evidence(_NUMA_BALANCING, None, balancing)
        yield Host(_NUMA_BALANCING, numa_balancing=int(balancing[:9]), line=line)
    if match := _ALLOWED.search(source.read(_STATUS) or ""):
        yield Host(_STATUS, allowed_cpus=kernel_form(match[1]), line=Evidence(_STATUS, None, match[0]))
    yield from _product(source)
    yield from _virtual(source)
    yield from _container(source)


def _product(source: Source) -> Iterator[Fact]:
    names = (source.read(f"{_DMI}/sys_vendor"), source.read(f"{_DMI}/product_name"))
    if product := " ".join(filter(None, names)):
        yield Host(_DMI, product=product, line=Evidence(_DMI, None, product))
    if tag := source.read(f"{_DMI}/chassis_asset_tag"):
        yield Host(f"{_DMI}/chassis_asset_tag", asset_tag=tag)


def _virtual(source: Source) -> Iterator[Fact]:
    """The hypervisor flag of an x86 CPU; its absence from whole flags is bare metal, other architectures have none."""
    match = re.search(r"^flags\s*:\s*(.*)$", (source.read(_CPUINFO) or "")[:_FIRST_CPU_CHARS], re.MULTILINE)
    if match:
        flag = "hypervisor" in match[1].split()
        yield Host(_CPUINFO, virtual=flag, line=Evidence(_CPUINFO, None, "hypervisor") if flag else None)


def _container(source: Source) -> Iterator[Fact]:
    path = next((path for path in _CONTAINER_FILES if source.read(path) is not None), None)
    if path is None and _CONTAINER_CGROUP.search(source.read("/proc/1/cgroup") or ""):
        path = "/proc/1/cgroup"
    if path:
        yield Host(path, container=True)
