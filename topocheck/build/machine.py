"""The host, joined from every input that says something of the machine as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from topocheck.build.merge import merged
from topocheck.build.numa import expand
from topocheck.facts import Evidence, GpuState, Host, PciFunction
from topocheck.graph import Device, Machine, Numa
from topocheck.hardware.pci_ids import is_gpu, is_rdma_nic
from topocheck.hardware.platforms import Platform, Seen, platform_of

_PEERMEM = {"nvidia_peermem", "nv_peer_mem"}


def machine_of(hosts: Iterable[Host], gpus: Iterable[GpuState] = ()) -> Machine:
    """One record of the machine; the first input that states a value wins. A GPU that is passed through is in a VM."""
    known = [*hosts, *(Host(g.witness, virtual=True, line=g.lines.get("passthrough")) for g in gpus if g.passthrough)]
    if not known:
        return Machine()
    host = merged(known)
    error = next((h for h in known if h.driver_error), None)
    return Machine(
        hostname=host.hostname,
        boot_id=host.boot_id,
        kernel=host.kernel,
        cmdline=host.cmdline,
        arch=host.arch,
        sockets=host.sockets,
        virtual=_virtual(known),
        container=host.container,
        product=host.product,
        driver=host.driver,
        driver_error=error.driver_error if error else None,
        driver_error_line=error.line if error else None,
        driver_hung=host.driver_hung,
        fabric_manager=host.fabric_manager,
        least_uptime_s=host.least_uptime_s,
        no_rdma_device=bool(host.no_rdma_device),
        modules=host.modules,
        numa_balancing=host.numa_balancing,
        kernel_log=any(h.witness == "dmesg" for h in known),
        open_driver=_is_open(known),
        peermem=_peermem(known, host),
        allowed_cpus=host.allowed_cpus,
        nccl_environ=_environ(known),
        topology_file=host.topology_file,
        topology_gpus=host.topology_gpus,
        asset_tag=host.asset_tag,
        lines=_lines(known),
    )


def _virtual(hosts: list[Host]) -> bool | None:
    """A VM if any input says so, bare metal if one says that and none the contrary."""
    said = {h.virtual or bool(h.hypervisor) for h in hosts if h.virtual is not None or h.hypervisor}
    return any(said) if said else None


def platform_seen(machine: Machine, gpus: Iterable[Device], functions: Mapping[str, PciFunction]) -> Platform | None:
    """The platform this machine is, by DMI, the GPUs and NIC functions on the bus; None unknown."""
    on_bus = [f"{f.vendor_id}:{f.device_id}" for f in functions.values() if is_gpu(f)]
    listed = [g.pci_id for g in gpus if g.pci_id]
    nics = Counter(f"{f.vendor_id}:{f.device_id}" for f in functions.values() if is_rdma_nic(f))
    dmi = " ".join(filter(None, (machine.product, machine.asset_tag))) or None
    return platform_of(Seen(dmi, Counter(on_bus if len(on_bus) > len(listed) else listed), nics))


def with_allowed_numa(machine: Machine, nodes: Iterable[Numa]) -> Machine:
    """The machine with the NUMA nodes on which this process may run."""
    if machine.allowed_cpus is None:
        return machine
    allowed = set(expand(machine.allowed_cpus))
    return replace(machine, allowed_numa=frozenset(n.id for n in nodes if n.cpus and allowed & set(expand(n.cpus))))


def _is_open(hosts: list[Host]) -> bool | None:
    """Which kernel modules the driver runs: False is a word too, so the first that says anything counts."""
    return next((h.open_driver for h in hosts if h.open_driver is not None), None)


def _peermem(hosts: list[Host], host: Host) -> bool | None:
    """Whether a peer-memory module is loaded; the list of modules also says that none is."""
    if any(h.peermem for h in hosts):
        return True
    return None if host.modules is None else bool(host.modules & _PEERMEM)


def _environ(hosts: list[Host]) -> dict[str, str] | None:
    """The NCCL_* variables; those of the environment win over those of nccl.conf."""
    said = [h.nccl_environ for h in hosts if h.nccl_environ is not None]
    return {name: value for pairs in reversed(said) for name, value in pairs} if said else None


def _lines(hosts: list[Host]) -> dict[str, Evidence]:
    """The line behind each value that has one of its own."""
    names = [f.name for f in fields(Host) if f.name not in ("witness", "line")]
    variables = {name: h.line for h in reversed(hosts) for name, _ in h.nccl_environ or () if h.line}
    stated = ((name, host.line) for host in reversed(hosts) for name in names if getattr(host, name) is not None)
    return variables | {name: line for name, line in stated if line}
