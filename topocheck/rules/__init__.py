"""The rules, in the order of the catalogue. To add one: a file here, its name below, its cases in fixtures/."""

from __future__ import annotations

from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, cast

from topocheck.errors import UsageError

if TYPE_CHECKING:
    from topocheck.finding import Rule

_FILES = (
    "pcie_width_degraded",
    "pcie_speed_degraded",
    "pcie_slot_capped",
    "nic_outruns_pcie",
    "uplink_shared",
    "pcie_payload_small",
    "pcie_errors",
    "bar1_small",
    "relaxed_ordering_off",
    "gpu_missing",
    "gpu_unlike_peers",
    "driver_unusable",
    "xid",
    "gpu_memory_unsound",
    "gpu_held_back",
    "p2p_missing",
    "acs_redirect",
    "iommu_translates",
    "ring_leaves_nvlink",
    "nvlink_down",
    "nvlink_uneven",
    "nvlink_slow",
    "nvlink_errors",
    "fabric_not_ready",
    "gpu_nic_remote",
    "gpu_nic_far",
    "gpu_nic_shared",
    "gpudirect_unavailable",
    "cpus_remote",
    "nccl_picks_other_nic",
    "numa_unknown",
    "numa_disagrees",
    "numa_balancing_on",
    "port_down",
    "port_slow",
    "port_errors",
    "port_mtu",
    "nic_missing",
    "nic_unlike_peers",
    "gid_missing",
    "port_congested",
    "rail_crossed",
    "rail_wrong_leaf",
    "rail_missing",
    "rail_subnet",
    "tree_hidden",
)
ALL = tuple(cast("Rule", import_module(f"{__name__}.{file}")) for file in _FILES)


def listing() -> str:
    """One line a rule: id, name, what is wrong."""
    return "".join(f"{rule.ID:8}{rule.NAME:22}{cleandoc(rule.__doc__ or '').splitlines()[0]}\n" for rule in ALL)


def explain(rule_id: str) -> str:
    """The page of one rule. UsageError if there is none of that id."""
    for rule in ALL:
        if rule_id.upper() in (rule.ID, rule.NAME.upper()):
            return f"{rule.ID} {rule.NAME}\n\n{cleandoc(rule.__doc__ or '')}\n"
    raise UsageError(f"{rule_id}: no such rule; `topocheck rules` lists them")
