"""Faults of GPUs: gone, unusable, unhealthy, unlike their equals; and of the machine around them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from nodesim import oracle
from nodesim.faults import WITHOUT_NIC, Fault, changing, inputs
from nodesim.spec import Gpu, Nic, Node


def _of_gpu(
    gpu: Gpu, name: str, rule: str, seen: tuple[frozenset[str], ...], worst: str = "error", **values: object
) -> Fault:
    shown = frozenset(name for need in seen for name in need)
    return Fault(
        f"{gpu.uid} {name}",
        changing(gpu.uid, **values),
        (rule,),
        (frozenset({gpu.uid}),),
        worst,
        seen,
        shown,
        touches=frozenset({gpu.uid}),
    )


def lost(draw: st.DrawFn, node: Node) -> Fault | None:
    """A GPU has fallen off the bus."""
    gpu = draw(st.sampled_from(node.gpus))
    return _of_gpu(gpu, "lost", "GPU001", inputs("lspci", "query"), lost=True)


def no_driver(draw: st.DrawFn, node: Node) -> Fault | None:
    """No driver, another driver, or no BARs: on a GPU or a compute NIC."""
    cards = oracle.compute_cards(node) if oracle.roles_clear(node) and len(oracle.compute_cards(node)) > 2 else []
    child = draw(st.sampled_from([*node.gpus, *cards]))
    driver = draw(st.sampled_from((None, "nouveau"))) if isinstance(child, Gpu) else None
    bars = driver is not None or draw(st.booleans())
    uids = oracle.functions_of(child)
    proven = isinstance(child, Gpu) and oracle.equals(node, child) >= 2
    return Fault(
        f"{child.uid} driver {driver} bars {bars}",
        changing(child.uid, driver=driver, bars=bars),
        ("GPU003",) if isinstance(child, Gpu) else ("GPU003", "NET005"),
        (uids,),
        "error" if proven else "warning",
        inputs("lspci") if isinstance(child, Gpu) else inputs("lspci rdma"),
        frozenset({"lspci"}),
        also=frozenset() if isinstance(child, Gpu) else frozenset({"GPU003", *WITHOUT_NIC}),
        blind_without=frozenset({"lspci", "topo", "rdma"}),
        surely=isinstance(child, Gpu) or oracle.roles_clear(node.changed(child.uid, lambda _: None)),
        touches=uids,
        moves=True,
    )


def fabric(draw: st.DrawFn, node: Node) -> Fault | None:
    """A GPU of an NVSwitch board is not in the fabric, or its routes are unhealthy."""
    gpus = [g for g in node.gpus if g.part.has_fabric and g.fabric]
    if not gpus:
        return None
    gpu = draw(st.sampled_from(gpus))
    if draw(st.booleans()):
        return _of_gpu(gpu, "route unhealthy", "NVL005", inputs("query"), unhealthy_route=True)
    state = draw(st.sampled_from((("Not Started", "N/A"), ("Completed", "Unknown Error"))))
    return _of_gpu(gpu, f"fabric {state}", "NVL005", inputs("query"), fabric=state)


def unlike(draw: st.DrawFn, node: Node) -> Fault | None:
    """One GPU has a lower power limit or clock than its equals."""
    if len(node.gpus) < 3:
        return None
    gpu = draw(st.sampled_from(node.gpus))
    values = draw(st.sampled_from(({"power_w": gpu.part.power_w * 3 // 4}, {"clock_mhz": gpu.part.clock_mhz // 2})))
    return _of_gpu(gpu, f"{values}", "GPU002", inputs("query"), "warning", **values)


def recovery(draw: st.DrawFn, node: Node) -> Fault | None:
    """The driver asks for a reset or a reboot."""
    gpu = draw(st.sampled_from(node.gpus))
    action = draw(st.sampled_from(("Reset", "Reboot", "Drain P2P")))
    return _of_gpu(gpu, f"recovery {action}", "GPU004", inputs("query"), recovery_action=action)


def memory(draw: st.DrawFn, node: Node) -> Fault | None:
    """Row remapping has failed, or uncorrectable errors since the driver was loaded."""
    gpu = draw(st.sampled_from(node.gpus))
    if draw(st.booleans()):
        return _of_gpu(gpu, "remap failed", "GPU005", inputs("query"), remap_failed=True)
    return _of_gpu(gpu, "uncorrectable ECC", "GPU005", inputs("query"), "warning", ecc_uncorrectable=2)


def small_bar(draw: st.DrawFn, node: Node) -> Fault | None:
    """BAR1 of 256 MiB where it covers the memory on the equals."""
    if len(node.gpus) < 3 or node.gpus[0].part.bar1_bytes <= 256 << 20:
        return None
    gpu = draw(st.sampled_from(node.gpus))
    return _of_gpu(gpu, "BAR1 256 MiB", "PCI008", inputs("lspci", "query"), "warning", bar1_bytes=256 << 20)


def relaxed_ordering(draw: st.DrawFn, node: Node) -> Fault | None:
    """Relaxed ordering off on one GPU or compute NIC whose equals have it on."""
    cards = [n for n in oracle.compute_cards(node) if oracle.roles_clear(node)]
    children = [c for c in (*node.gpus, *cards) if oracle.equals(node, c) - len(oracle.functions_of(c)) >= 1]
    if not children:
        return None
    child = draw(st.sampled_from(children))
    needs = inputs("lspci rdma") if isinstance(child, Nic) else inputs("lspci")
    return Fault(
        f"{child.uid} RlxdOrd-",
        changing(child.uid, relaxed=False),
        ("PCI009",),
        (oracle.functions_of(child),),
        "warning",
        needs,
        frozenset({"lspci"}),
        touches=oracle.functions_of(child),
    )


def numa_unknown(draw: st.DrawFn, node: Node) -> Fault | None:
    """The kernel does not know the NUMA node of a GPU or compute NIC."""
    if len(node.numa_nodes) < 2:
        return None
    cards = [n for n in oracle.compute_cards(node) if oracle.roles_clear(node)]
    children = [c for c in (*node.gpus, *cards) if oracle.equals(node, c) - len(oracle.functions_of(c)) >= 0]
    if not children:
        return None
    child = draw(st.sampled_from(children))
    needs = inputs("lspci rdma numa host") if isinstance(child, Nic) else inputs("lspci numa host")
    return Fault(
        f"{child.uid} numa -1",
        changing(child.uid, numa=-1),
        ("NUM001",),
        (oracle.functions_of(child),),
        "warning",
        needs,
        frozenset({"lspci"}),
        touches=oracle.functions_of(child),
    )


def numa_wrong(draw: st.DrawFn, node: Node) -> Fault | None:
    """A device states another NUMA node than its host bridge: info, and nothing graver."""
    if len(node.numa_nodes) < 2:
        return None
    child = draw(st.sampled_from([*node.gpus, *oracle.compute_cards(node)]))
    bridge, _ = node.above(child.uid)
    numa = draw(st.sampled_from([k for k in node.numa_nodes if k != bridge.numa]))
    return Fault(
        f"{child.uid} numa {numa}",
        changing(child.uid, numa=numa),
        ("NUM002",),
        (oracle.functions_of(child),),
        "info",
        inputs("lspci rdma topo"),
        frozenset({"lspci", "topo"}),
        also=frozenset({"AFF001"}),
        touches=oracle.functions_of(child),
        told_as="info",
    )


def held_back(draw: st.DrawFn, node: Node) -> Fault | None:
    """The hardware holds one GPU's clocks; one reading of it is a note."""
    gpu = draw(st.sampled_from(node.gpus))
    reason = draw(st.sampled_from(("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown")))
    fault = _of_gpu(gpu, reason, "GPU006", inputs("query"), "info", slowdowns=frozenset({reason}))
    return replace(fault, told_as="info")


def no_gpudirect(draw: st.DrawFn, node: Node) -> Fault | None:
    """Neither nvidia_peermem nor dma-buf: the proprietary module, or an old kernel."""
    old = draw(st.booleans())
    values = {"peermem": False, **({"kernel": "5.4.0-150-generic"} if old else {"open_driver": False})}
    if not oracle.compute_cards(node) or not oracle.roles_clear(node):
        return None
    return Fault(
        f"no GPUDirect RDMA {values}",
        lambda n: replace(n, **values),
        ("AFF004",),
        (),
        "warning",
        inputs("host lspci rdma topo query"),
        frozenset({"host"}),
    )


def some_mig(draw: st.DrawFn, node: Node) -> Fault | None:
    """One GPU of a board is in MIG mode, the others are not."""
    if node.fabric not in ("nvswitch", "mesh") or any(g.mig for g in node.gpus):
        return None
    gpu = draw(st.sampled_from(node.gpus))
    return _of_gpu(gpu, "MIG", "GPU002", inputs("query"), "warning", mig=True)


def other_setting(draw: st.DrawFn, node: Node) -> Fault | None:
    """Persistence mode or ECC differs on one GPU: a note."""
    if len(node.gpus) < 3:
        return None
    gpu = draw(st.sampled_from(node.gpus))
    name = draw(st.sampled_from(("persistence", "ecc")))
    fault = _of_gpu(gpu, f"{name} off", "GPU002", inputs("query"), "info", **{name: False})
    return replace(fault, told_as="info")


def numa_balancing(draw: st.DrawFn, node: Node) -> Fault | None:
    """The kernel moves pages between NUMA nodes: a note."""
    return Fault(
        "numa_balancing",
        lambda n: replace(n, numa_balancing=1),
        ("NUM003",),
        worst="info",
        seen_by=inputs("host query"),
        shown_by=frozenset({"host"}),
        told_as="info",
    )


MAKERS = (
    lost,
    no_driver,
    fabric,
    unlike,
    recovery,
    memory,
    small_bar,
    relaxed_ordering,
    numa_unknown,
    numa_wrong,
    held_back,
    no_gpudirect,
    some_mig,
    other_setting,
    numa_balancing,
)
