"""What each NIC is for, which NIC is whose, and the rails (rules.md, "Roles of NICs" and "Rails")."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from topocheck.build.nics import SLOT_NAME, natural
from topocheck.build.pci import address_key
from topocheck.graph import RANK, SWITCH_LOCAL, Device
from topocheck.hardware import network
from topocheck.hardware.platforms import Platform
from topocheck.names import NameSet

ClassOf = Callable[[str, str], "str | None"]

_BLUEFIELD_MANAGEMENT = re.compile(r"15b3:c2d")
_ACCELERATED_NETWORKING = re.compile(r"mlx5_an\d+|mana_\d+")
_COLUMN = re.compile(r"NIC\d+")
_NAMED_BY_DRIVER = re.compile(r"[a-z]+\d?(?=_)|(?:irdma|i40iw|hfi1|qedr|efa)(?=_?\d)")
_NAMED_BY_PLACE = re.compile(r"(?:rdma|roce|ib|iw)(?=[ps]\d)")
_BEFORE_ALL_HAVE_ONE = 500_000_000  # a GPU's second on its switch costs less than one beyond it
_BY_POLICY = ("policy",)  # the key of what the policy names
_STORAGE_FROM_GBIT_PER_S = 100  # rules.md: other kinds are storage from 100 Gb/s


class Kind(NamedTuple):
    """NICs of one device id, board id, link layer, rate and number of ports a card."""

    key: tuple[object, ...]
    nics: tuple[Device, ...]
    rate_gbit_per_s: float


class Decision(NamedTuple):
    """A role and why."""

    role: str
    reason: str


def with_roles(
    nics: list[Device],
    gpus: list[Device],
    class_of: ClassOf,
    compute_nics: tuple[NameSet, ...] = (),
    platform: Platform | None = None,
) -> tuple[list[Device], dict[str, tuple[str, ...]]]:
    """The NICs with role and rail, and each GPU's own compute NICs: those that `compute_nics` names, if any is here,
    else those of the kind that the platform has for it, else of the kind that is nearest to most GPUs."""
    roles = {nic.id: d for nic in nics if (d := _no_nic_of_ours(nic, nics))}
    judged = [nic for nic in nics if nic.id not in roles]
    kinds = kinds_of(judged, gpus, class_of)
    named = _named(judged, compute_nics)
    each = _each(platform, gpus)
    own_kinds = [k for k in kinds if platform and any(_is_one_of(n, platform.nic_ids) for n in k.nics)]
    chosen, assignment = (
        _compute_kind(own_kinds or kinds, gpus, class_of, each)
        if named is None
        else _shared_out(named, gpus, class_of, each)
    )
    used = {n for own in assignment.values() for n in own}
    for kind in kinds:
        for nic in kind.nics:
            roles[nic.id] = _role(nic, kind, chosen, used, bool(gpus))
    by_policy = {nic.id for nic in named.nics} if named else set()
    by_platform = {n.id for k in own_kinds for n in k.nics} - by_policy
    roles |= dict.fromkeys(by_policy, Decision("compute", "named by the policy"))
    ordered = rail_order([n for n in nics if roles[n.id].role == "compute"])
    columns = sum(_COLUMN.fullmatch(nic.id) is not None for nic in ordered)  # have no order with names
    rails = {nic.id: i for i, nic in enumerate(ordered)} if columns in (0, len(ordered)) else {}
    decided = [
        replace(
            n,
            role=roles[n.id].role,
            role_from="policy" if n.id in by_policy else "platform" if n.id in by_platform else "kind",
            role_reason=roles[n.id].reason,
            rail=rails.get(n.id),
        )
        for n in nics
    ]
    return decided, assignment


def rail_order(nics: list[Device]) -> list[Device]:
    """Rail order: PCI address order, natural order of names where addresses are not known."""
    if all(n.bdf for n in nics):
        return sorted(nics, key=lambda n: address_key(n.bdf or ""))
    return sorted(nics, key=lambda n: natural(n.id))


def _no_nic_of_ours(nic: Device, nics: list[Device]) -> Decision | None:
    if nic.vf_of and any(other.bdf == nic.vf_of for other in nics):
        return Decision("unknown", f"virtual function of {nic.vf_of}")
    if nic.is_vf and any(not other.is_vf and _same_family(nic, other) for other in nics):
        return Decision("unknown", "virtual function, its physical function is here")
    if nic.pci_id and _BLUEFIELD_MANAGEMENT.match(nic.pci_id):
        return Decision("management", "BlueField management function")
    if _ACCELERATED_NETWORKING.fullmatch(nic.id) or (nic.pci_id or "").startswith("1414:"):
        return Decision("management", "accelerated-networking function")
    if nic.iwarp:
        return Decision("management", "iWARP port of a LAN chip")
    if _is_nvlink_management(nic, nics):
        return Decision("management", "NVLink management port")
    return None


def _is_nvlink_management(nic: Device, nics: list[Device]) -> bool:
    """HGX B200 and B300: several ConnectX-7 functions at 100 Gb/s with one system image GUID; beside EFA, where there
    is no other InfiniBand, each."""
    rates = [p.rate_gbit_per_s for p in nic.ports if p.rate_gbit_per_s]
    connectx7 = nic.device_type == "MT4129" or nic.pci_id == "15b3:1021"
    several = sum(o.card == nic.card for o in nics) >= 4 or any(o.efa for o in nics)
    return connectx7 and max(rates, default=0) <= 100 and several


def _same_family(vf: Device, other: Device) -> bool:
    """mlx5's VF type is the PF's number plus one (mlx5_core device table); else they share the PF's bus."""
    numbers = [int(re.sub(r"\D", "", d.device_type or "") or -9) for d in (vf, other)]
    same_bus = bool(vf.bdf and other.bdf) and (vf.bdf or "")[:7] == (other.bdf or "")[:7]
    return numbers[0] == numbers[1] + 1 or same_bus


def kinds_of(nics: list[Device], gpus: list[Device], class_of: ClassOf) -> list[Kind]:
    """The NICs by kind. A port that is down has no rate, so its card goes with its like; a single slower card is a
    slow card, not a kind; two or more at a lower rate that sit near no GPU are another kind. A matrix column that the
    legend lost goes with the others, if they are all of one driver."""
    cards: dict[str | None, int] = {}
    for nic in nics:
        cards[nic.card] = cards.get(nic.card, 0) + 1
    drivers = {_driver_of(nic.id) for nic in nics if not _COLUMN.fullmatch(nic.id)}
    of_column = drivers.pop() if len(drivers) == 1 else None
    base: dict[tuple[object, ...], list[Device]] = {}
    for nic in nics:
        layer = next((p.link_layer for p in nic.ports if p.state in ("active", None) and p.link_layer), None)
        key: tuple[object, ...] = (
            nic.pci_id or nic.device_type or (of_column if _COLUMN.fullmatch(nic.id) else _driver_of(nic.id)),
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


def _each(platform: Platform | None, gpus: list[Device]) -> int:
    """How many NICs a GPU has on this platform, 0 where it gives no number or the GPUs are not all here."""
    if platform is None or platform.compute_nics is None or platform.gpus != len(gpus):
        return 0
    return platform.compute_nics // platform.gpus


def _is_one_of(nic: Device, pci_ids: tuple[str, ...]) -> bool:
    """By PCI id, else by the type ibstat prints, which is NVIDIA's device id in decimal: MT4129 is 15b3:1021."""
    number = re.fullmatch(r"MT(\d{1,6})", nic.device_type or "")
    return (nic.pci_id or (f"15b3:{int(number[1]):04x}" if number else None)) in pci_ids


def _compute_kind(
    kinds: list[Kind], gpus: list[Device], class_of: ClassOf, each: int = 0
) -> tuple[Kind | None, dict[str, tuple[str, ...]]]:
    """The kind that carries the GPUs' traffic, and its assignment to them; None where none can be told."""
    if not kinds:
        return None, {}
    if not gpus:
        return max(kinds, key=lambda k: (k.rate_gbit_per_s * (len(k.nics) > 0), len(k.nics))), {}
    local = {k.key: assign(gpus, list(k.nics), class_of, SWITCH_LOCAL, each) for k in kinds}
    best = max(kinds, key=lambda k: (_covered(local[k.key]), k.rate_gbit_per_s, len(k.nics)))
    if 2 * _covered(local[best.key]) < len(gpus):
        best = max(kinds, key=lambda k: (_most_gbit_per_s(k), _covered(local[k.key]), len(k.nics)))
        if 4 * len(best.nics) < len(gpus):
            return None, {}
    return _shared_out(best, gpus, class_of, each)


def _named(nics: list[Device], compute_nics: tuple[NameSet, ...]) -> Kind | None:
    """The NICs that the policy names by id, BDF or PCI id, as if they were one kind; None if none of them is here."""
    names = {nic.id: (nic.id, nic.bdf, nic.pci_id) for nic in nics}
    found = [nic for nic in nics if any(name in allowed for allowed in compute_nics for name in names[nic.id])]
    rate = max((nic.rate_gbit_per_s or 0.0 for nic in found), default=0.0)
    return Kind(_BY_POLICY, tuple(found), rate) if found else None


def _shared_out(
    kind: Kind, gpus: list[Device], class_of: ClassOf, each: int = 0
) -> tuple[Kind, dict[str, tuple[str, ...]]]:
    """A kind and each GPU's NICs of it: on the GPU's own switch where there are fewer NICs than GPUs, but half of the
    GPUs are served so; else wherever they are."""
    if not gpus:
        return kind, {}
    local = assign(gpus, list(kind.nics), class_of, SWITCH_LOCAL, each)
    if len(kind.nics) < len(gpus) <= 2 * _covered(local):
        return kind, local
    return kind, assign(gpus, list(kind.nics), class_of, RANK[None], each)


def _most_gbit_per_s(kind: Kind) -> float:
    """The kind's rate; where no active port was read that of its model, since a down port changes no kind."""
    models = (network.most_gbit_per_s(n.pci_id, n.device_type) or 0.0 for n in kind.nics)
    return kind.rate_gbit_per_s or max(models, default=0.0)


def _covered(assignment: Mapping[str, tuple[str, ...]]) -> int:
    return sum(bool(own) for own in assignment.values())


def _role(nic: Device, kind: Kind, chosen: Kind | None, used: set[str], has_gpus: bool) -> Decision:
    if chosen is None:
        return Decision("unknown", "no kind of NIC is near half of the GPUs, none has a quarter of their number")
    if kind.key == chosen.key:
        if not has_gpus or nic.id in used:
            return Decision("compute", "the kind of card that is nearest to most GPUs" if has_gpus else "the main kind")
        return Decision("storage", "of the compute kind, without a GPU of its own")
    rate = kind.rate_gbit_per_s
    other = "another kind of card" if chosen.key != _BY_POLICY else "not among the policy's compute_nics"
    if rate == 0 and any(n.state != "down" for n in kind.nics):
        return Decision("storage", other)
    role = "management" if rate < _STORAGE_FROM_GBIT_PER_S else "storage"
    return Decision(role, f"{other}, {rate:g} Gb/s")


def _distance_cost(rank: int) -> int:
    """One NIC beyond its GPU's switch costs more than any number of steps within: as many GPUs as can be keep a NIC
    in reach of GPUDirect RDMA."""
    return (rank + 1) * 1_000_000 if rank <= SWITCH_LOCAL else (rank + 1) * 1_000_000_000


def assign(
    gpus: list[Device], nics: list[Device], class_of: ClassOf, worst: int, each: int = 0
) -> dict[str, tuple[str, ...]]:
    """Each GPU's own NICs: `each`, or k = floor(NICs / GPUs), at least 1, no NIC twice, by the nearest classes in sum,
    order of address deciding among equals; no pair farther than `worst`."""
    ordered = rail_order(nics)
    each = max(1, each, len(nics) // len(gpus))
    ranks = {gpu.id: {nic.id: RANK[class_of(gpu.id, nic.id)] for nic in ordered} for gpu in gpus}
    if all(rank > worst for by_nic in ranks.values() for rank in by_nic.values()):
        return {gpu.id: () for gpu in gpus}
    return _uncontended(ranks, each, worst) or _by_flow(ranks, each, worst)


Ranks = Mapping[str, Mapping[str, int]]


def _uncontended(ranks: Ranks, each: int, worst: int) -> dict[str, tuple[str, ...]] | None:
    """Where every GPU has just as many nearest NICs as it gets, and no two want the same, that is the answer."""
    nearest: dict[str, tuple[str, ...]] = {}
    for gpu, by_nic in ranks.items():
        best = min(by_nic.values())
        nearest[gpu] = tuple(nic for nic, rank in by_nic.items() if rank == best <= min(worst, SWITCH_LOCAL))
        if len(nearest[gpu]) != each:
            return None
    wanted = [nic for own in nearest.values() for nic in own]
    return nearest if len(wanted) == len(set(wanted)) else None


def _by_flow(ranks: Ranks, each: int, worst: int) -> dict[str, tuple[str, ...]]:
    """The general case, as a flow of least cost; each GPU's nearest NIC first."""
    import networkx as nx

    flow = nx.DiGraph()
    for i, (gpu, by_nic) in enumerate(ranks.items()):
        flow.add_edge("source", ("gpu", gpu), capacity=each, weight=0)
        flow.add_edge(("gpu", gpu), ("first", gpu), capacity=1, weight=0)
        flow.add_edge(("gpu", gpu), ("more", gpu), capacity=each - 1, weight=_BEFORE_ALL_HAVE_ONE)
        for j, (nic, rank) in enumerate(by_nic.items()):
            cost = _distance_cost(rank) + (i * each - j) ** 2  # of squares the least sum is that in order
            for way in () if rank > worst else ("first", "more") if rank <= SWITCH_LOCAL else ("gpu",):
                flow.add_edge((way, gpu), ("nic", nic), capacity=1, weight=cost)
            flow.add_edge(("nic", nic), "sink", capacity=1, weight=0)
    result = nx.max_flow_min_cost(flow, "source", "sink")
    own = {
        gpu: [nic for nic in by_nic if any(result[way, gpu].get(("nic", nic)) for way in ("first", "more", "gpu"))]
        for gpu, by_nic in ranks.items()
    }
    return {gpu: tuple(sorted(nics, key=lambda nic: ranks[gpu][nic])) for gpu, nics in own.items()}
