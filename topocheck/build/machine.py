"""The host, joined from every input that says something of the machine as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from topocheck.build.merge import merged
from topocheck.facts import Host
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
    )
