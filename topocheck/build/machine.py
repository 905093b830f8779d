"""The host, joined from every input that says something of the machine as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from topocheck.build.merge import merged
from topocheck.facts import Evidence, Host
from topocheck.graph import Machine


def machine_of(hosts: Iterable[Host]) -> Machine:
    """One record of the machine; the first input that states a value wins."""
    known = list(hosts)
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
        virtual=True if host.virtual or host.hypervisor else host.virtual,
        container=host.container,
        product=host.product,
        driver=host.driver,
        driver_error=error.driver_error if error else None,
        driver_error_line=error.line if error else None,
        fabric_manager=host.fabric_manager,
        modules=host.modules,
        numa_balancing=host.numa_balancing,
        lines=_lines(known),
    )


def _lines(hosts: list[Host]) -> dict[str, Evidence]:
    """The line behind each value that has one of its own."""
    names = [f.name for f in fields(Host) if f.name not in ("witness", "line")]
    stated = ((name, host.line) for host in reversed(hosts) for name in names if getattr(host, name) is not None)
    return {name: line for name, line in stated if line}
