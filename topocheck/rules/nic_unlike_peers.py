"""
A NIC differs from its equals in firmware, board or link layer.

Why it matters: a port of another link layer cannot reach the fabric of the others; mixed firmware makes faults that
only some rails have. What it costs is not known.

Usual cause: a replaced card that kept its factory firmware and port type (LINK_TYPE), an update that did not finish.

Repair: set the port type as on its equals (mlxconfig LINK_TYPE_P1) and power-cycle; bring the firmware to one release.

Silent when: the NICs are of other kinds or roles; virtual functions. Firmware and board alone are info.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from topocheck.finding import Answer, Finding, NotApplicable, Skip, enough
from topocheck.graph import RANK, SWITCH_LOCAL, Device, Topology
from topocheck.patches import SetField

ID = "NET006"
NAME = "nic-unlike-peers"
_FIELDS = (("firmware", "firmware"), ("board_id", "board id"))


def check(node: Topology) -> Iterator[Answer]:
    """Link layers within a card and beside GPUs; firmware and board among compute NICs of one model."""
    judged = [n for n in node.nics if not n.is_vf and not n.efa]
    if len(judged) < 2:
        yield NotApplicable("fewer than two NICs")
        return
    if not any(n.firmware or n.board_id or _layers(n) for n in judged):
        yield Skip("no firmware, board or link layer in the input")
        return
    yield from _mixed_cards(judged)
    yield from _strangers(node, judged)
    for field, words in _FIELDS:
        yield from _minority([n for n in judged if n.role == "compute"], field, words)


def _model(nic: Device) -> str | None:
    return nic.pci_id or nic.device_type


def _layers(nic: Device) -> set[str]:
    return {p.link_layer for p in nic.ports if p.link_layer}


def _mixed_cards(judged: list[Device]) -> Iterator[Finding]:
    """Cards with compute ports of which one is InfiniBand, the other Ethernet."""
    cards: dict[str | None, list[Device]] = {}
    for nic in judged:
        cards.setdefault(nic.card, []).append(nic)
    for card in cards.values():
        layers = {layer for nic in card for layer in _layers(nic)}
        if len(layers) > 1 and any(nic.role in ("compute", "unknown") for nic in card):
            yield _finding(card, f"{_each(card)}: one card, two link layers", None)


def _each(nics: list[Device]) -> str:
    return ", ".join(f"{n.id} {'+'.join(sorted(_layers(n))) or 'unknown'}" for n in nics)


def _strangers(node: Topology, judged: list[Device]) -> Iterator[Finding]:
    """A card like the compute NICs, on the switch of a GPU without a NIC of its own, that came up in another layer."""
    for gpu in node.gpus:
        if node.assignment.get(gpu.id):
            continue
        for nic in judged:
            like = [n for n in node.compute_nics if _model(n) == _model(nic) and n.board_id == nic.board_id]
            others = {layer for n in like for layer in _layers(n)}
            near = RANK[node.pcie_class(gpu.id, nic.id)] <= SWITCH_LOCAL
            if near and nic.role != "compute" and _model(nic) and len(others) == 1 and _layers(nic) - others:
                layer = others.pop()
                said = f"{_each([nic])} beside {gpu.id}, {len(like)} of its kind are {layer}"
                yield replace(_finding([nic], said, layer), covers=frozenset({gpu.id}))


def _finding(nics: list[Device], message: str, layer: str | None) -> Finding:
    lines = [line for n in nics for p in n.ports if (line := p.lines.get("link_layer"))]
    headers = [line for n in nics if (line := n.lines.get("header"))]
    wanted = layer or next(iter(sorted(_layers(nics[0]))), None)
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        subjects=tuple(n.id for n in nics),
        message=message,
        repair="Set the port type as on its equals (mlxconfig LINK_TYPE_P1, _P2) and power-cycle",
        evidence=tuple(lines or headers),
        expected_from="equals",
        patches=tuple(SetField(n.id, "link_layer", wanted, p.port) for n in nics for p in n.ports),
    )


def _minority(nics: list[Device], field: str, words: str) -> Iterator[Finding]:
    """The NICs of each model whose value is not that of most."""
    for model in dict.fromkeys(_model(n) for n in nics):
        like = {n.id: getattr(n, field) for n in nics if _model(n) == model and getattr(n, field)}
        (common, count), *rest = Counter(like.values()).most_common() or [(None, 0)]
        odd = [n for n in nics if like.get(n.id, common) != common]
        if not rest or not enough(count, len(like) - 1):
            continue
        header = odd[0].lines.get(field) or odd[0].lines.get("header")
        yield Finding(
            rule=ID,
            name=NAME,
            severity="info",
            subjects=tuple(n.id for n in odd),
            message=f"{', '.join(f'{n.id} {like[n.id]}' for n in odd)}: another {words} than {count} equals ({common})",
            repair="Bring them to one release" if field == "firmware" else "None if the boards are known to be alike",
            evidence=(header,) if header else (),
            effect="none",
            expected_from="equals",
            patches=tuple(SetField(n.id, field, common) for n in odd),
        )
