"""Which PCI functions are GPUs, RDMA NICs and NVSwitches, by class, vendor and device id, else by name.

Ids and names: pci.ids (pci-ids.ucw.cz; Debian's copy of 2023, pciutils/pciids on GitHub) and the device tables of the
Linux drivers mlx5, efa, bnxt_en, ice/irdma, hfi1, ionic and mana, which decide what gets an RDMA device.
Interface section 3: topocheck speaks of NVIDIA GPUs; ENA, gigabit Ethernet and Wi-Fi are no RDMA NICs.
"""

from __future__ import annotations

import re

from topocheck.facts import PciFunction
from topocheck.hardware.gpus import model_of_id

NVIDIA, MELLANOX, AMAZON, BROADCOM, INTEL = "10de", "15b3", "1d0f", "14e4", "8086"
PENSANDO, MICROSOFT = "1dd8", "1414"

# Vendor names that belong to one id each, as pci.ids and its older editions spell them.
_VENDOR_NAMES = (
    ("NVIDIA Corporation", NVIDIA),
    ("nVidia Corporation", NVIDIA),
    ("Mellanox Technologies", MELLANOX),
    ("Amazon.com, Inc.", AMAZON),
    ("Broadcom Inc. and subsidiaries", BROADCOM),
    ("Broadcom Limited", BROADCOM),
    ("Broadcom Corporation", BROADCOM),
    ("Intel Corporation", INTEL),
    ("AMD Pensando Systems", PENSANDO),
    ("Pensando Systems", PENSANDO),
    ("Microsoft Corporation", MICROSOFT),
    ("Advanced Micro Devices, Inc. [AMD/ATI]", "1002"),
    ("Advanced Micro Devices, Inc. [AMD]", "1022"),
    ("ASPEED Technology, Inc.", "1a03"),
    ("Matrox Electronics Systems Ltd.", "102b"),
)
# Class names of pci.ids that a rule or the tree needs.
_CLASS_NAMES = {
    "Non-Volatile memory controller": "0108",
    "Ethernet controller": "0200",
    "Infiniband controller": "0207",
    "InfiniBand controller": "0207",
    "InfiniBand": "0c06",
    "Fabric controller": "0208",
    "Network controller": "0280",
    "VGA compatible controller": "0300",
    "3D controller": "0302",
    "Display controller": "0380",
    "Audio device": "0403",
    "Memory controller": "0580",
    "Host bridge": "0600",
    "ISA bridge": "0601",
    "PCI bridge": "0604",
    "Bridge": "0680",
    "USB controller": "0c03",
    "USB Controller": "0c03",
}
_DISPLAY = frozenset({"0300", "0302", "0380"})
_NETWORK = frozenset({"0200", "0207", "0208", "0280", "0c06"})
_NVSWITCH = frozenset({"1ac2", "1af1", "22a3"})  # on V100, A100, H100 boards; later ones are no PCI functions
_EFA = frozenset({"efa0", "efa1", "efa2", "efa3", "efa4"})
_MANA = frozenset({"00ba", "00b9"})  # VF and PF
_HFI1 = frozenset({"24f0", "24f1"})
# bnxt_en parts of 100 Gb/s and more: BCM57454, BCM5750x, BCM5760x, their partitions and VFs.
_BNXT = re.compile(r"1614|175[0-2]|176[0-3]|180[0-9]|1819")
# ice parts that irdma drives, without the 1 and 10 Gb/s ones: E810, E822, E823, E825, E830.
_IRDMA = re.compile(r"159[1239ab]|188[abc]|189[01278]|124[cd]|151d|579[cde]|12d[1-58acde]")
_PENSANDO_NICS = frozenset({"1002", "1003", "1009"})

_NOT_A_GPU = re.compile(
    r"NVSwitch|Audio|USB|UCSI|Type-C|[Bb]ridge|Root Port|\bPort\b|Memory Controller|Tegra|nForce|MCP[0-9]"
)
_GPU_NAME = re.compile(
    r"\[(?:GeForce|Quadro|Tesla|NVS|TITAN|RTX|GTX|A[0-9]{2,4}\b|[HBLVTPMK][0-9]{1,3}\b|GH200|GB[0-9]{3}|GRID|CMP)"
    r"|\b(?:GV|GP|GM|GK|TU|GA|AD|GH|GB)[0-9]{3}[A-Z]*\b"
    r"|^(?:nVidia|NVIDIA) Corporation (?:GeForce|Quadro|Tesla) "
)
_LAPTOP_GPU = re.compile(r"\b(?:G|TU|AD)[A-Z0-9]{2,4}M\b|\bMobile\b|\bMax-Q\b|\bGeForce Go\b")
_MELLANOX_NIC_NAME = re.compile(
    r"ConnectX|Connect-IB|InfiniHost|integrated .*network controller|MT2[78][0-9]{3} Family"
)
_NOT_A_NIC = re.compile(r"Flash [Rr]ecovery|Bridge|Management|DMA|Crypto|SNAP|CAPI|RMA\b")
_BNXT_NAME = re.compile(r"BCM57(?:454|5[0-9]{2}|50X|60[0-9]) (?!Gigabit)")
_IRDMA_NAME = re.compile(r"\bE8(?:10|22|23|25|30)\b(?!.*(?:10GBASE| 1GbE))")


def vendor_of_name(name: str) -> str | None:
    """The vendor id that a printed device name begins with, None where the name is not certain.

    >>> vendor_of_name("NVIDIA Corporation GA100 [A100 SXM4 80GB]")
    '10de'
    """
    return next((vendor for prefix, vendor in _VENDOR_NAMES if name.startswith(prefix)), None)


def class_of_name(class_name: str) -> str | None:
    """The class id of a printed class name ("3D controller" → "0302"), None for those that nobody asks for."""
    return _CLASS_NAMES.get(class_name)


def is_gpu(pci: PciFunction) -> bool:
    """Whether the function is an NVIDIA GPU: its display function, neither audio, USB, NVSwitch nor bridge, and none of
    the virtual functions that vGPU hosts show beside it."""
    if pci.is_bridge or pci.vendor_id != NVIDIA or pci.vf_of is not None:
        return False
    if pci.class_id is not None:
        return pci.class_id in _DISPLAY
    name = pci.name or ""
    named = bool(_GPU_NAME.search(name)) and not _NOT_A_GPU.search(name)
    return named or model_of_id(f"{NVIDIA}:{pci.device_id}") is not None


def is_laptop_gpu(pci: PciFunction) -> bool:
    """Whether its name is that of a laptop's chip, which is powered off while nothing uses it ("GM108M")."""
    return is_gpu(pci) and bool(_LAPTOP_GPU.search(pci.name or ""))


def is_nvswitch(pci: PciFunction) -> bool:
    """Whether the function is an NVSwitch."""
    if pci.vendor_id != NVIDIA:
        return False
    if pci.device_id is not None:
        return pci.device_id in _NVSWITCH
    return "NVSwitch" in (pci.name or "")


def is_virtual_function_name(name: str | None) -> bool:
    """Whether pci.ids calls the device a virtual function."""
    return name is not None and "Virtual Function" in name


def is_rdma_nic(pci: PciFunction) -> bool:
    """Whether the function belongs to an RDMA-capable controller, virtual functions included."""
    if pci.is_bridge or (pci.class_id is not None and pci.class_id not in _NETWORK):
        return False
    test = _NIC_TESTS.get(pci.vendor_id or "")
    return test is not None and test(pci)


def _is_mellanox_nic(pci: PciFunction) -> bool:
    name = pci.name or ""
    if _NOT_A_NIC.search(name) or (pci.device_id or "").startswith("c2d"):
        return False
    return pci.class_id is not None or bool(_MELLANOX_NIC_NAME.search(name))


def _is_efa(pci: PciFunction) -> bool:
    return pci.device_id in _EFA if pci.device_id else "(EFA)" in (pci.name or "")


def _is_bnxt(pci: PciFunction) -> bool:
    return bool(_BNXT.fullmatch(pci.device_id) if pci.device_id else _BNXT_NAME.search(pci.name or ""))


def _is_intel_nic(pci: PciFunction) -> bool:
    if pci.device_id is None:
        return bool(_IRDMA_NAME.search(pci.name or "")) or "Omni-Path HFI" in (pci.name or "")
    return pci.device_id in _HFI1 or bool(_IRDMA.fullmatch(pci.device_id))


def _is_pensando_nic(pci: PciFunction) -> bool:
    return pci.device_id in _PENSANDO_NICS if pci.device_id else "Ethernet Controller" in (pci.name or "")


def _is_mana(pci: PciFunction) -> bool:
    return pci.device_id in _MANA


_NIC_TESTS = {
    MELLANOX: _is_mellanox_nic,
    AMAZON: _is_efa,
    BROADCOM: _is_bnxt,
    INTEL: _is_intel_nic,
    PENSANDO: _is_pensando_nic,
    MICROSOFT: _is_mana,
}
