"""Faults of NICs: ports, and cards that are gone or in the wrong slot."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from nodesim import oracle
from nodesim.faults import WITHOUT_NIC, Fault, changing, inputs
from nodesim.spec import HostBridge, Nic, Node, Port, Switch

_PORT_STATES = (("down", "polling"), ("down", "disabled"), ("init", "linkup"), ("down", "linkup"))
_ALL = inputs("lspci rdma topo query numa")


def _card(draw: st.DrawFn, node: Node) -> Nic | None:
    cards = oracle.compute_cards(node) if oracle.roles_clear(node) else []
    return draw(st.sampled_from(cards)) if cards else None


def _port_changed(uid: str, number: int, **values: object):
    def change(nic: Nic) -> Nic:
        ports = list(nic.ports)
        ports[number] = replace(ports[number], **values)
        return replace(nic, ports=tuple(ports))

    return lambda node: node.changed(uid, change)


def _uid(nic: Nic, number: int) -> str:
    return f"{nic.uid}.{number}" if number else nic.uid


def _active(node: Node) -> list[tuple[Nic, int, Port]]:
    """The active ports of the compute kind."""
    return [(n, k, p) for n in oracle.compute_cards(node) for k, p in enumerate(n.ports) if p.state == "active"]


def port_down(draw: st.DrawFn, node: Node) -> Fault | None:
    """A port that was up is not, for any of the causes."""
    nic = _card(draw, node)
    if nic is None:
        return None
    number = draw(st.sampled_from([k for k, p in enumerate(nic.ports) if p.state == "active"]))
    state, physical = draw(st.sampled_from(_PORT_STATES))
    others = [entry for entry in _active(node) if entry[0].uid != nic.uid]
    used_elsewhere = any(sum(p.state == "active" for p in n.ports) > 1 for n, _, _ in others)
    second = len(nic.ports) > 1 and sum(p.state == "active" for p in nic.ports) > 1
    expected = not second or used_elsewhere or physical == "linkup"
    proven = len(others) + len(nic.ports) - 1 >= 3
    uid = _uid(nic, number)
    return Fault(
        f"{uid} {state}/{physical}",
        _port_changed(nic.uid, number, state=state, physical=physical),
        ("NET001",) if expected else (),
        (frozenset({uid}),),
        "error" if proven else "warning",
        inputs("rdma"),
        frozenset({"rdma"}),
        also=frozenset(WITHOUT_NIC),
        surely=bool(others),
        touches=frozenset({uid, nic.uid}),
        moves=True,
    )


def port_slow(draw: st.DrawFn, node: Node) -> Fault | None:
    """A port is active at half or a quarter of its rate."""
    active = _active(node) if oracle.roles_clear(node) else []
    if len(active) < 2:
        return None
    nic, number, _ = draw(st.sampled_from(active))
    rate = nic.part.rate // draw(st.sampled_from((2, 4)))
    uid = _uid(nic, number)
    worst = "error" if len(active) > 3 else "warning"
    return Fault(
        f"{uid} {rate} Gb/s",
        _port_changed(nic.uid, number, rate=rate),
        ("NET002",),
        (frozenset({uid}),),
        worst,
        inputs("rdma lspci topo query"),
        frozenset({"rdma"}),
        surely=len(active) > 2,
        touches=frozenset({uid, nic.uid}),
    )


def port_mtu(draw: st.DrawFn, node: Node) -> Fault | None:
    """A port has a smaller MTU than its equals."""
    active = _active(node) if oracle.roles_clear(node) else []
    if len(active) < 3:
        return None
    nic, number, _ = draw(st.sampled_from(active))
    uid = _uid(nic, number)
    return Fault(
        f"{uid} MTU 1024",
        _port_changed(nic.uid, number, mtu=1024),
        ("NET004",),
        (frozenset({uid}),),
        "warning",
        inputs("rdma lspci topo query"),
        frozenset({"rdma"}),
        touches=frozenset({uid, nic.uid}),
    )


def no_v2_gid(draw: st.DrawFn, node: Node) -> Fault | None:
    """A RoCE port in use without a v2 GID."""
    active = [(n, k, p) for n, k, p in _active(node) if n.part.layer == "ethernet" and oracle.roles_clear(node)]
    if len(active) < 3:
        return None
    nic, number, _ = draw(st.sampled_from(active))
    uid = _uid(nic, number)
    return Fault(
        f"{uid} no v2 GID",
        _port_changed(nic.uid, number, gid_v2=False),
        ("NET007",),
        (frozenset({uid}),),
        "warning",
        inputs("rdma lspci topo query"),
        frozenset({"rdma"}),
        touches=frozenset({uid, nic.uid}),
    )


def gone(draw: st.DrawFn, node: Node) -> Fault | None:
    """A card is gone from the bus: its GPU, or one beside it, has none."""
    nic = _card(draw, node)
    if nic is None or len(oracle.compute_cards(node)) < 2:
        return None
    group = oracle.beside(node, nic.uid)
    after = node.changed(nic.uid, lambda _: None)
    told = _one_each(node) and bool(group) and len(node.gpus) > 2
    return Fault(
        f"{nic.uid} gone",
        lambda n: n.changed(nic.uid, lambda _: None),
        WITHOUT_NIC[1:],
        (group,),
        "warning",
        _ALL,
        frozenset({"lspci", "topo", "rdma"}),
        surely=told and oracle.roles_clear(after),
        also=frozenset(WITHOUT_NIC[1:]),
        touches=group | {nic.uid},
        moves=True,
    )


def _one_each(node: Node) -> bool:
    """Every GPU has one card of one port on its switch."""
    cards = oracle.compute_cards(node)
    alike = len(cards) == len(node.gpus) and all(len(n.ports) == 1 for n in cards)
    return alike and all(oracle.local(node, g.uid) for g in node.gpus)


def _plug(node: Node, nic: Nic, switch: str | None, numa: int) -> Node:
    """The card in a switch, or on a root port of its own."""
    without = node.changed(nic.uid, lambda _: None)
    if switch is not None:
        return without.plugged(nic, switch)
    return replace(without, bridges=(*without.bridges, HostBridge(f"b9{nic.uid[1:]}", numa, (nic,))))


def moved(draw: st.DrawFn, node: Node) -> Fault | None:
    """A card in the wrong slot: on a root port of the other socket or of this one, or on a neighbour's switch."""
    nic = _card(draw, node)
    if nic is None or len(oracle.compute_cards(node)) < 2 or not _one_each(node):
        return None
    group = oracle.beside(node, nic.uid)
    neighbours = [
        child.uid for child in oracle.judged(node) if isinstance(child, Switch) and not node.above(child.uid)[1]
    ]
    switches = [uid for uid in neighbours if not group & oracle.beside(node, uid)]
    switch, numa = draw(st.sampled_from([(None, k) for k in node.numa_nodes] + [(uid, 0) for uid in switches]))
    after = _plug(node, nic, switch, numa)
    rules = _served_worse(node, after, group)
    return Fault(
        f"{nic.uid} moved to {switch or f'node {numa}'}",
        lambda n: _plug(n, nic, switch, numa),
        rules or WITHOUT_NIC[3:],
        (group,),
        "warning",
        _ALL,
        frozenset({"lspci", "topo"}),
        surely=bool(rules) and len(node.gpus) > 2,
        also=frozenset(WITHOUT_NIC),
        touches=group | {nic.uid},
        moves=True,
    )


def _served_worse(node: Node, after: Node, group: frozenset[str]) -> tuple[str, ...]:
    """What rules.md calls it when one of the group's cards is elsewhere; () where it does not decide."""
    if len(group) > 1:
        return ("AFF003",)
    best, near = oracle.nearest(after, min(group))
    if best in ("PHB", "NODE"):
        return ("AFF002",)
    socket = node.socket_of(node.above(min(group))[0].numa)
    others = {after.socket_of(after.above(n.uid)[0].numa) for n in near}
    return ("AFF001",) if best == "SYS" and socket not in others else ()


def half(draw: st.DrawFn, node: Node) -> Fault | None:
    """Half of the NICs were never plugged: the GPUs without share those of the others."""
    cards = oracle.compute_cards(node)
    alone = all(len(oracle.beside(node, n.uid)) == 1 for n in cards)
    if not alone or len(cards) % 2 or len(cards) < 4 or not _one_each(node):
        return None
    absent = draw(st.permutations(cards))[: len(cards) // 2]

    def change(n: Node) -> Node:
        for nic in absent:
            n = n.changed(nic.uid, lambda _: None)
        return n

    gpus = frozenset(uid for nic in absent for uid in oracle.beside(node, nic.uid))
    return Fault(
        f"no {' '.join(n.uid for n in absent)}",
        change,
        ("RAIL003",),
        (gpus,),
        "warning",
        _ALL,
        frozenset({"lspci", "topo", "rdma"}),
        touches=gpus | {n.uid for n in absent},
        moves=True,
    )


def other_layer(draw: st.DrawFn, node: Node) -> Fault | None:
    """A card came up in the other link layer: its GPU has no NIC on the fabric of the others."""
    nic = _card(draw, node)
    if nic is None or len(node.gpus) < 4 or not _one_each(node) or len(oracle.beside(node, nic.uid)) > 1:
        return None
    layer = "ethernet" if nic.part.layer == "infiniband" else "infiniband"
    group = oracle.beside(node, nic.uid)
    return Fault(
        f"{nic.uid} {layer}",
        _port_changed(nic.uid, 0, layer=layer),
        ("NET006", *WITHOUT_NIC),
        (group | {nic.uid},),
        "warning",
        _ALL,
        frozenset({"rdma", "lspci"}),
        frozenset({"rdma", "lspci", "topo"}),
        also=frozenset({"NET006", *WITHOUT_NIC}),
        touches=group | {nic.uid},
        moves=True,
    )


def other_firmware(draw: st.DrawFn, node: Node) -> Fault | None:
    """One card has another firmware than its equals: a note."""
    cards = oracle.compute_cards(node) if oracle.roles_clear(node) else []
    if len(cards) < 4:
        return None
    nic = draw(st.sampled_from(cards))
    uids = oracle.functions_of(nic)
    change = changing(nic.uid, firmware="28.39.1002")
    return Fault(
        f"{nic.uid} firmware",
        change,
        ("NET006",),
        (uids,),
        "info",
        _ALL,
        frozenset({"rdma"}),
        touches=uids,
        told_as="info",
    )


def shared_subnet(draw: st.DrawFn, node: Node) -> Fault | None:
    """Two RoCE rails in one subnet, the others each in their own."""
    cards = [n for n in oracle.compute_cards(node) if n.part.layer == "ethernet" and len(n.ports) == 1]
    if len(cards) < 5 or not _one_each(node):
        return None
    pair = [n.uid for n in draw(st.permutations(cards))[:2]]

    def change(n: Node) -> Node:
        for uid in pair:
            n = _port_changed(uid, 0, shared_subnet=True)(n)
        return n

    return Fault(
        f"{' '.join(pair)} one subnet",
        change,
        ("RAIL004",),
        (frozenset(pair),),
        "warning",
        _ALL,
        frozenset({"rdma"}),
        touches=frozenset(pair),
    )


MAKERS = (port_down, port_slow, port_mtu, no_v2_gid, gone, moved, half, other_layer, other_firmware, shared_subnet)
