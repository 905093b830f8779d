"""What each NIC is for, and the rails (rules.md, "Roles of NICs" and "Rails")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from topocheck.build.assignment import assign, rail_order
from topocheck.build.kinds import COLUMN, ClassOf, Kind, kinds_of
from topocheck.graph import RANK, SWITCH_LOCAL, Device
from topocheck.hardware import network
from topocheck.hardware.platforms import Platform
from topocheck.names import NameSet

_BLUEFIELD_MANAGEMENT = re.compile(r"15b3:c2d")
_ACCELERATED_NETWORKING = re.compile(r"mlx5_an\d+|mana_\d+")
_BY_POLICY = ("policy",)  # the key of what the policy names
_STORAGE_FROM_GBIT_PER_S = 100  # rules.md: other kinds are storage from 100 Gb/s


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
    columns = sum(COLUMN.fullmatch(nic.id) is not None for nic in ordered)  # have no order with names
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
