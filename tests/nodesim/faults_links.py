"""Faults of PCIe links, NVLinks and peer-to-peer."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from nodesim import oracle
from nodesim.faults import Fault, changing, inputs, relinked
from nodesim.relations import Relations
from nodesim.spec import Child, Gpu, Nic, Node, Switch

_READ = frozenset({"lspci", "query"})


def _victim(draw: st.DrawFn, node: Node) -> Child | None:
    """A link that is judged."""
    links = [c for c in oracle.judged(node) if not isinstance(c, Nic) or oracle.roles_clear(node)]
    return draw(st.sampled_from(links)) if links else None


def _of_link(child: Child, **values: object) -> Fault:
    asleep = isinstance(child, Gpu) and child.pstate != "P0"
    by_query = inputs("query") if isinstance(child, Gpu) else ()
    needs = "lspci rdma query" if isinstance(child, Nic) else "lspci query" if asleep else "lspci"
    common = {
        "subjects": (oracle.functions_of(child),),
        "seen_by": (*inputs(needs), *by_query),
        "shown_by": _READ if isinstance(child, Gpu) else frozenset({"lspci"}),
        "blind_without": _READ,
        "touches": oracle.functions_of(child),
        "also": frozenset({"PCI002"} if asleep else ()),
        "graver_without": frozenset({"query"} if asleep else ()),
    }
    return Fault(**{**common, **values})  # type: ignore[arg-type]


def width(draw: st.DrawFn, node: Node) -> Fault | None:
    """Fewer lanes than both ends can."""
    child = _victim(draw, node)
    if child is None:
        return None
    lanes = draw(st.sampled_from([w for w in (1, 2, 4, 8) if w < child.link.can_width]))
    asleep = isinstance(child, Gpu) and child.pstate != "P0"
    proven = not asleep and oracle.equals(node, child) >= 2
    return _of_link(
        child,
        name=f"{child.uid} x{lanes}",
        apply=relinked(child.uid, now_width=lanes),
        rules=("PCI001",),
        worst="error" if proven else "warning",
    )


def speed(draw: st.DrawFn, node: Node) -> Fault | None:
    """A lower generation than both ends can, awake."""
    child = _victim(draw, node)
    if child is None or (isinstance(child, Gpu) and child.pstate != "P0"):
        return None
    gen = draw(st.integers(1, child.link.can_gen - 1))
    sleeper = isinstance(child, Gpu) and child.part.sleeps and gen <= 2  # only the P-state tells it from sleep
    proven = oracle.equals(node, child) >= 2
    fault = _of_link(
        child,
        name=f"{child.uid} gen{gen}",
        apply=relinked(child.uid, now_gen=gen),
        rules=("PCI002",),
        worst="error" if proven else "warning",
    )
    return replace(fault, seen_by=inputs("lspci query", "query")) if sleeper else fault


def target(draw: st.DrawFn, node: Node) -> Fault | None:
    """The port above is told to hold a lower speed; trained to it, or not yet."""
    child = _victim(draw, node)
    if child is None or (isinstance(child, Gpu) and child.pstate != "P0") or child.link.can_gen < 4:
        return None
    gen = child.link.can_gen - 1
    now = draw(st.sampled_from((None, gen)))
    fault = _of_link(
        child,
        name=f"{child.uid} told gen{gen}",
        rules=("PCI002",),
        apply=relinked(child.uid, target_gen=gen, now_gen=now),
    )
    needs = "lspci rdma" if isinstance(child, Nic) else "lspci"
    return replace(fault, seen_by=inputs(needs), shown_by=_READ if now else frozenset({"lspci"}))


def slot(draw: st.DrawFn, node: Node) -> Fault | None:
    """The port above one device can less than those above its equals."""
    child = _victim(draw, node)
    if child is None or not isinstance(child, Gpu | Nic) or oracle.equals(node, child) < 1:
        return None
    narrower = draw(st.booleans())
    link = child.link
    values = {"port_width": link.can_width // 2} if narrower else {"port_gen": link.can_gen - 1}
    if isinstance(child, Nic) and len(oracle.compute_cards(node)) < 2:
        return None
    fault = _of_link(
        child,
        name=f"{child.uid} slot {values}",
        apply=relinked(child.uid, **values),
        rules=("PCI003",),
        worst="warning",
    )
    needs = "lspci rdma" if isinstance(child, Nic) else "lspci"
    by_query = inputs("query") if isinstance(child, Gpu) and not narrower else ()
    # nvidia-smi alone shows no width the card could have had, but that its NIC's ports outrun what it has
    return replace(fault, seen_by=(*inputs(needs), *by_query), also=fault.also | {"PCI004"})


def outrun(draw: st.DrawFn, node: Node) -> Fault | None:
    """One card's own capability is less than its ports carry, while its equals' suffices."""
    cards = [n for n in oracle.compute_cards(node) if oracle.roles_clear(node)]
    fast = [n for n in cards if not _outruns(node, n)]
    if len(fast) < len(cards) or len(cards) < 2:
        return None
    nic = draw(st.sampled_from(cards))
    need = _rate_gb_per_s(nic)
    gens = [g for g in range(1, nic.link.can_gen) if oracle.line_rate(g, nic.link.can_width) < need]
    if not gens:
        return None
    gen = draw(st.sampled_from(gens))
    return Fault(
        f"{nic.uid} is gen{gen}",
        relinked(nic.uid, gen=gen),
        ("PCI004",),
        (oracle.functions_of(nic),),
        "warning",
        inputs("lspci rdma"),
        frozenset({"lspci"}),
        _READ,
        touches=oracle.functions_of(nic),
    )


def _rate_gb_per_s(nic: Nic) -> float:
    return sum((p.rate or nic.part.rate) / 8 for p in nic.ports if p.state == "active")


def _outruns(node: Node, nic: Nic) -> bool:
    """Over any link between it and a GPU beside it, or up to the CPU."""
    _, switches = node.above(nic.uid)
    gpus = oracle.beside(node, nic.uid) or [g.uid for g in node.gpus]
    ways = [*(oracle.path(node, nic.uid, gpu) for gpu in gpus), [*switches, nic]]
    awake = [x.link for way in ways for x in way]
    return any(oracle.line_rate(x.can_gen, x.trained_width) < _rate_gb_per_s(nic) for x in awake)


def no_p2p(draw: st.DrawFn, node: Node) -> Fault | None:
    """Peer-to-peer refused between two GPUs: counts where they meet on NVLink or in a switch."""
    if len(node.gpus) < 2:
        return None
    a, b = draw(st.permutations([g.uid for g in node.gpus]))[:2]
    near = Relations(node)
    nvlink, in_switch = near.pair_links(a, b) > 0, near.pcie_class(a, b) in oracle.LOCAL
    never = not nvlink and not node.gpus[0].part.p2p
    status = draw(st.sampled_from(("NS", "CNS", "GNS", "TNS", "DR")))
    counts = (nvlink or in_switch) and not never
    worst = "error" if nvlink and node.fabric in ("nvswitch", "mesh") else "warning"
    return Fault(
        f"{a} {b} {status}",
        lambda n: replace(n, no_p2p=(*n.no_p2p, ((a, b), status))),
        ("P2P001",) if counts else (),
        (frozenset({a}), frozenset({b})),
        worst,
        (*inputs("p2p topo"), *(inputs("p2p lspci") if in_switch else ())),
        frozenset({"p2p"}),
        touches=frozenset({a, b}),
        unless=_by_mig(node),
    )


def _by_mig(node: Node) -> frozenset[str]:
    """GPUs in MIG mode silence the NVLink rules, where the mode was read."""
    return frozenset({"query"} if any(g.mig for g in node.gpus) else ())


def _with_links_down(node: Node, uids: tuple[tuple[str, tuple[int, ...]], ...]) -> Node:
    for uid, links in uids:
        node = changing(uid, links_down=frozenset(links))(node)
    return node


def nvlink_down(draw: st.DrawFn, node: Node) -> Fault | None:
    """NVLinks of a GPU down: towards the NVSwitches, or both ends of those to one other GPU."""
    near = Relations(node)
    gpus = [g for g in node.gpus if any(near.link_states(g.uid))]
    if not gpus:
        return None
    a = draw(st.sampled_from(gpus)).uid
    if node.fabric == "nvswitch":
        links = draw(st.integers(1, len(near.link_states(a))))
        ends: tuple[tuple[str, tuple[int, ...]], ...] = ((a, tuple(range(links))),)
        rules, seen = ("NVL001",), inputs("nvlink", "topo")
    else:
        partners = [g.uid for g in gpus if g.uid != a and near.pair_links(a, g.uid)]
        b = draw(st.sampled_from(partners))
        mine, theirs = (
            [*near.links_towards(x, y)] if node.fabric == "mesh" else [*range(12)] for x, y in ((a, b), (b, a))
        )
        links = draw(st.integers(1, len(mine) - 1))
        ends = ((a, tuple(mine[:links])), (b, tuple(theirs[:links])))
        compared = node.fabric == "mesh" or len(node.bridged) > 1
        rules, seen = ("NVL001", "NVL002") if compared else (), inputs("nvlink", "topo")
    touched = frozenset(uid for uid, _ in ends)
    return Fault(
        f"{a} {links} links down",
        lambda n: _with_links_down(n, ends),
        rules,
        (touched,),
        "error" if node.fabric != "bridges" else "warning",
        seen,
        frozenset({"nvlink", "topo"}),
        also=frozenset(rules),
        touches=touched,
        unless=_by_mig(node),
    )


def uneven(draw: st.DrawFn, node: Node) -> Fault | None:
    """A pair's count of NVLinks differs by direction, or from its equals in both."""
    near = Relations(node)
    pairs = [(a.uid, b.uid) for a in node.gpus for b in node.gpus if a is not b and near.pair_links(a.uid, b.uid) > 1]
    if not pairs:
        return None
    a, b = draw(st.sampled_from(pairs))
    both = draw(st.booleans())
    token = f"NV{draw(st.integers(1, near.pair_links(a, b) - 1))}"
    counts = not both or node.fabric != "bridges" or len(node.bridged) > 1
    cells = (((a, b), token), *((((b, a), token),) if both else ()))
    return Fault(
        f"{a} {b} {token}",
        lambda n: replace(n, cells=(*n.cells, *cells)),
        ("NVL002",) if counts else (),
        (frozenset({a}), frozenset({b})),
        "error",
        inputs("topo"),
        frozenset({"topo"}),
        touches=frozenset({a, b}.union(*node.bridged))
        if len(node.bridged) == 2
        else frozenset({a, b}),  # its only equal
        unless=_by_mig(node),
    )


def nvlink_slow(draw: st.DrawFn, node: Node) -> Fault | None:
    """All NVLinks of a GPU run below the rate of its generation."""
    near = Relations(node)
    gpus = [g for g in node.gpus if any(near.link_states(g.uid))]
    if not gpus or any(g.mig for g in gpus):
        return None
    gpu = draw(st.sampled_from(gpus))
    slower = draw(st.sampled_from(("12.5", "20.625")))
    return Fault(
        f"{gpu.uid} {slower} GB/s",
        changing(gpu.uid, nvlink_gb_per_s=slower),
        ("NVL003",),
        (frozenset({gpu.uid}),),
        "warning",
        inputs("nvlink"),
        frozenset({"nvlink"}),
        touches=frozenset({gpu.uid}),
    )


def acs(draw: st.DrawFn, node: Node) -> Fault | None:
    """ACS redirect on the downstream ports of a switch: counts where a pair meets in it."""
    switches = [s for s in node.switches if _meet_over_pcie(node, s)]
    if not switches or not oracle.roles_clear(node):
        return None
    switch = draw(st.sampled_from(switches))
    return Fault(
        f"{switch.uid} ACS",
        changing(switch.uid, acs=True),
        ("P2P002",),
        (),
        "warning",
        inputs("lspci rdma host"),
        frozenset({"lspci"}),
    )


def _meet_over_pcie(node: Node, switch: Switch) -> bool:
    """Whether a GPU meets a compute NIC, or a GPU without NVLink to it, below two ports of the switch."""
    near = Relations(node)
    below = [
        [c for c in oracle.under(port) if isinstance(c, Gpu) or getattr(c, "intent", "") == "compute"]
        for port in switch.children
    ]
    pairs = [(a, b) for i, mine in enumerate(below) for theirs in below[i + 1 :] for a in mine for b in theirs]
    return any(
        isinstance(a, Gpu) != isinstance(b, Gpu)
        or (isinstance(a, Gpu) and isinstance(b, Gpu) and not near.pair_links(a.uid, b.uid))
        for a, b in pairs
    )


def payload(draw: st.DrawFn, node: Node) -> Fault | None:
    """One device's link uses a smaller MaxPayload than its equals', or one card asks for less at a time."""
    cards = [n for n in oracle.compute_cards(node) if oracle.roles_clear(node)]
    children = [c for c in (*node.gpus, *cards) if oracle.equals(node, c) + 1 - len(oracle.functions_of(c)) >= 2]
    if not children:
        return None
    child = draw(st.sampled_from(children))
    read = isinstance(child, Nic) and draw(st.booleans())
    change = changing(child.uid, read_request=256) if read else relinked(child.uid, payload=128)
    fault = _of_link(child, name=f"{child.uid} small {'reads' if read else 'payload'}", apply=change, rules=("PCI006",))
    needs = inputs("lspci rdma") if isinstance(child, Nic) else inputs("lspci")
    return replace(fault, worst="warning", seen_by=needs, shown_by=frozenset({"lspci"}), blind_without=frozenset())


def uplink_shared(draw: st.DrawFn, node: Node) -> Fault | None:
    """A GPU on its neighbour's switch: two share an uplink that carries one, the others have their own."""
    homes = {g.uid: node.above(g.uid)[1] for g in node.gpus}
    alone = all(len(s) == 1 and oracle.beside(node, s[0].uid) == {uid} for uid, s in homes.items())
    near = any(oracle.local(node, g.uid) for g in node.gpus)
    if not alone or near or len(node.gpus) < 4:
        return None
    gpu, other = draw(st.permutations(node.gpus))[:2]
    up = homes[other.uid][0].link
    if 2 * oracle.line_rate(gpu.link.can_gen, 16) < 1.1 * oracle.line_rate(up.can_gen, 16):
        return None
    return Fault(
        f"{gpu.uid} beside {other.uid}",
        lambda n: n.changed(gpu.uid, lambda _: None).plugged(gpu, homes[other.uid][0].uid),
        ("PCI005",),
        (frozenset({gpu.uid, other.uid}),),
        "warning",
        inputs("lspci query"),
        frozenset({"lspci"}),
        touches=frozenset({gpu.uid, other.uid}),
        moves=True,
    )


def translating(draw: st.DrawFn, node: Node) -> Fault | None:
    """The IOMMU translates while GPUs copy to each other over PCIe."""
    near = Relations(node)
    uids = [g.uid for g in node.gpus]
    by_pcie = [(a, b) for i, a in enumerate(uids) for b in uids[i + 1 :] if not near.pair_links(a, b)]
    if not by_pcie or not node.gpus[0].part.p2p:
        return None
    kind = draw(st.sampled_from(("DMA", "DMA-FQ")))
    return Fault(
        f"IOMMU {kind}",
        lambda n: replace(n, iommu=kind),
        ("P2P003",),
        worst="warning",
        seen_by=inputs("lspci p2p topo"),
        shown_by=frozenset({"lspci"}),
        touches=frozenset(by_pcie[0]) if len(by_pcie) == 1 else frozenset(),  # without the only pair there is no danger
    )


MAKERS = (
    width,
    speed,
    target,
    slot,
    outrun,
    no_p2p,
    nvlink_down,
    uneven,
    nvlink_slow,
    acs,
    payload,
    uplink_shared,
    translating,
)
