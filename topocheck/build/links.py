"""The PCIe link of every GPU: lspci's and nvidia-smi's word joined, asleep or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from topocheck.build.pci import asleep
from topocheck.facts import GpuState
from topocheck.graph import Device, Disagreement, PcieLink
from topocheck.hardware.pcie import GTS_OF_GEN


def device_links(links: Mapping[str, PcieLink], gpus: list[Device]) -> dict[str, PcieLink]:
    """The links with nvidia-smi's reading of GPU links added, and sleep decided; the functions of one card share it."""
    grown = dict(links)
    for gpu in gpus:
        key = gpu.bdf or gpu.id
        link = grown.get(key)
        state = gpu.gpu
        if state is not None and (state.width is not None or state.gen is not None):
            link = _with_smi(link, state, key)
        if link is None:
            continue
        holds = bool(gpu.part and gpu.part.holds_link)
        link = replace(link, asleep=asleep(link, gpu.pstate, holds))
        grown[key] = link
        if gpu.bdf and link.asleep:
            for other in _same_card(gpu.bdf, grown):
                grown[other] = replace(grown[other], asleep=True)
    return grown


def _same_card(bdf: str, links: Mapping[str, PcieLink]) -> list[str]:
    slot = bdf.split(".")[0]
    return [b for b in links if b != bdf and b.startswith(slot + ".")]


def _with_smi(link: PcieLink | None, state: GpuState, key: str) -> PcieLink:
    """nvidia-smi's "Max" is what card and system can together, "Device Max" what the card can."""
    lines = {f"smi {name}": line for name, line in state.lines.items() if name in ("gen", "width", "pstate")}
    card_gen = state.gen_device_max or state.gen_max
    host_gen = state.gen_host_max or state.gen_max
    if link is not None and link.width and link.speed_gts and not link.at_boot:
        return replace(
            link,
            lines={**lines, **link.lines},
            both_max_width=state.width_max,
            both_max_speed_gts=GTS_OF_GEN.get(state.gen_max or 0),
        )
    return PcieLink(
        a=link.a if link else None,
        b=key,
        speed_gts=GTS_OF_GEN.get(state.gen or 0),
        width=state.width,
        max_speed_gts=GTS_OF_GEN.get(card_gen or 0),
        max_width=link.max_width if link and not link.at_boot else None,
        a_max_speed_gts=GTS_OF_GEN.get(host_gen or 0),
        both_max_speed_gts=GTS_OF_GEN.get(state.gen_max or 0),
        both_max_width=state.width_max,
        witness=state.witness,
        lines=lines,
    )


def link_disagreements(links: Mapping[str, PcieLink], gpus: list[Device]) -> list[Disagreement]:
    """Where lspci and nvidia-smi give a GPU's link another width; its speed changes with every nap."""
    found = []
    for gpu in gpus:
        link, said = links.get(gpu.bdf or gpu.id), gpu.gpu.width if gpu.gpu else None
        if link is not None and gpu.gpu is not None and link.width and said and link.width != said:
            values = ((link.width, link.witness), (said, gpu.gpu.witness))
            found.append(Disagreement(gpu.id, "PCIe width", values, link.width))
    return found
