"""NICs by kind: of one device id, board id, link layer, rate and number of ports a card (rules.md, "Roles of NICs")."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from topocheck.build.nics import SLOT_NAME
from topocheck.graph import RANK, SWITCH_LOCAL, Device

ClassOf = Callable[[str, str], "str | None"]

COLUMN = re.compile(r"NIC\d+")  # a matrix column that the legend does not name
_NAMED_BY_DRIVER = re.compile(r"[a-z]+\d?(?=_)|(?:irdma|i40iw|hfi1|qedr|efa)(?=_?\d)")
_NAMED_BY_PLACE = re.compile(r"(?:rdma|roce|ib|iw)(?=[ps]\d)")


class Kind(NamedTuple):
    """NICs of one device id, board id, link layer, rate and number of ports a card."""

    key: tuple[object, ...]
    nics: tuple[Device, ...]
    rate_gbit_per_s: float


def kinds_of(nics: list[Device], gpus: list[Device], class_of: ClassOf) -> list[Kind]:
    """The NICs by kind. A port that is down has no rate, so its card goes with its like; a single slower card is a
    slow card, not a kind; two or more at a lower rate that sit near no GPU are another kind. A matrix column that the
    legend lost goes with the others, if they are all of one driver."""
    cards: dict[str | None, int] = {}
    for nic in nics:
        cards[nic.card] = cards.get(nic.card, 0) + 1
    drivers = {_driver_of(nic.id) for nic in nics if not COLUMN.fullmatch(nic.id)}
    of_column = drivers.pop() if len(drivers) == 1 else None
    base: dict[tuple[object, ...], list[Device]] = {}
    for nic in nics:
        layer = next((p.link_layer for p in nic.ports if p.state in ("active", None) and p.link_layer), None)
        key: tuple[object, ...] = (
            nic.pci_id or nic.device_type or (of_column if COLUMN.fullmatch(nic.id) else _driver_of(nic.id)),
            nic.board_id,
            layer,
            max(cards[nic.card], _ports_told(nic) or 1),
            len(nic.ports),
            nic.is_vf,
        )
        base.setdefault(key, []).append(nic)
    base = _down_with_their_like(_bare_with_their_like(base, gpus, class_of))
    kinds = []
    for key, group in base.items():
        for rate, members in _split_by_rate(group, gpus, class_of):
            kinds.append(Kind((*key, rate), tuple(members), rate))
    return kinds


def _ports_told(nic: Device) -> int | None:
    """What the interface's name says of the card: systemd gives the function of a card that has several (at least 2
    ports), and leaves it out of one that has one."""
    match = next((m for p in nic.ports if (m := SLOT_NAME.fullmatch(p.netdev or ""))), None)
    return None if match is None else 2 if match[2] else 1


def _driver_of(name: str) -> str | None:
    """The driver that gives its devices such names: "mlx5_bond_0" and "mlx5_3" are mlx5's, "ibp3s0" is nobody's own."""
    match = _NAMED_BY_DRIVER.match(name)
    return match[0] if match else None


def _bare_with_their_like(
    base: dict[tuple[object, ...], list[Device]], gpus: list[Device], class_of: ClassOf
) -> dict[tuple[object, ...], list[Device]]:
    """NICs of which a matrix gives only the name join those named like them. Are these of one model, then if they are
    more, or on GPUs' switches: NICs beside the CPUs may well be of another kind; else each joins the one kind of those
    that is on GPUs' switches as it is, or is not as it is not. Are they of several, then the list of them was cut: on
    a GPU's switch is the model of most GPUs."""

    def reached(group: list[Device]) -> int:
        return sum(any(RANK[class_of(gpu.id, nic.id)] <= SWITCH_LOCAL for nic in group) for gpu in gpus)

    bare = {key for key, group in base.items() if not any(n.pci_id or n.device_type or n.ports for n in group)}
    known = {key: group for key, group in base.items() if key not in bare}
    joined = {key: list(group) for key, group in known.items()}
    for key, nic in [(kind, one) for kind in bare for one in base[kind]]:
        family = key[0] or _named_as(nic.id)  # a column without a legend has the driver of the others
        like = [k for k, group in known.items() if family and family in {_named_as(n.id) for n in group}]
        sides = [k for k in like if bool(reached(known[k])) == bool(reached([nic]))]
        target = key
        if len({k[0] for k in like}) == 1:
            theirs = [n for k in like for n in known[k]]
            unplaced = not any(class_of(gpu.id, n.id) for gpu in gpus for n in theirs)
            fewer = sum((key[0] or _named_as(n.id)) == family for n in base[key]) < len(theirs)
            if unplaced or fewer or all(reached([n]) for n in theirs):
                target = max(like, key=lambda k: len(known[k]))
            elif len(sides) == 1 or (sides and sides == like):
                target = max(sides, key=lambda k: len(known[k]))
        elif sides and (len(sides) == 1 or reached([nic]) or sides == like):
            target = max(sides, key=lambda k: (reached(known[k]), max(n.rate_gbit_per_s or 0.0 for n in known[k])))
        joined.setdefault(target, []).append(nic)
    return joined


def _named_as(name: str) -> str | None:
    """The driver that gives such names, else the word before an address: "rdmap85s0" is named like "rdmap86s0"."""
    word = _NAMED_BY_PLACE.match(name)
    return _driver_of(name) or (word[0] if word else None)


def _down_with_their_like(base: dict[tuple[object, ...], list[Device]]) -> dict[tuple[object, ...], list[Device]]:
    """NICs without an active port join the largest group that else agrees, first of those with the layer they are set
    to."""
    joined = {key: list(group) for key, group in base.items() if key[2] is not None}
    for key, group in base.items():
        if key[2] is not None:
            continue
        like = [k for k in joined if (k[:2], k[3:]) == (key[:2], key[3:])] or [
            k for k in joined if k[0] == key[0] is not None and key[1] in (k[1], None) and k[2] is not None
        ]
        for nic in group:
            set_to = {p.link_layer for p in nic.ports}
            told = {None, _ports_told(nic)}
            fitting = [k for k in like if len(told) == 1 or any(_ports_told(n) in told for n in base[k])]
            best = max(fitting, key=lambda k: (k[2] in set_to, len(base[k]))) if fitting else key
            joined.setdefault(best, []).append(nic)
    return joined


def _split_by_rate(group: list[Device], gpus: list[Device], class_of: ClassOf) -> list[tuple[float, list[Device]]]:
    by_rate: dict[float, list[Device]] = {}
    for nic in group:
        if nic.rate_gbit_per_s:
            by_rate.setdefault(nic.rate_gbit_per_s, []).append(nic)
    if not by_rate:
        return [(0.0, group)]
    main = max(by_rate, key=lambda rate: (len(by_rate[rate]), rate))
    parts: dict[float, list[Device]] = {main: []}
    for nic in group:
        rate = nic.rate_gbit_per_s or main
        apart = len({n.card for n in by_rate.get(rate, [])}) >= 2 and not any(
            RANK[class_of(gpu.id, n.id)] <= SWITCH_LOCAL for n in by_rate.get(rate, []) for gpu in gpus
        )
        parts.setdefault(rate if apart else main, []).append(nic)
    if main != max(by_rate) and parts[main]:
        return [(max(n.rate_gbit_per_s or 0.0 for n in part) or rate, part) for rate, part in parts.items()]
    return list(parts.items())
