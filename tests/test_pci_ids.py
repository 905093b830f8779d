"""Which PCI functions count as GPUs, RDMA NICs and NVSwitches."""

import pytest

from topocheck.facts import PciFunction
from topocheck.hardware.pci_ids import is_gpu, is_nvswitch, is_rdma_nic


def function(name=None, **ids):
    return PciFunction("0000:01:00.0", "test", name=name, **ids)


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (("0302", "10de", "2330"), "gpu"),
        (("0300", "10de", "2204"), "gpu"),
        (("0403", "10de", "1aef"), None),  # audio of a GPU
        (("0c03", "10de", "1ad8"), None),  # USB of a GPU
        (("0680", "10de", "22a3"), "nvswitch"),
        (("0680", "10de", "1af1"), "nvswitch"),
        (("0604", "10de", "22b2"), None),  # Grace root port
        (("0300", "1a03", "2000"), None),  # ASPEED
        (("0300", "1002", "744c"), None),  # AMD
        (("0207", "15b3", "1021"), "nic"),
        (("0200", "15b3", "101e"), "nic"),  # virtual function
        (("0200", "15b3", "a2dc"), "nic"),  # BlueField-3
        (("0801", "15b3", "c2d5"), None),  # its management interface
        (("0604", "15b3", "197b"), None),  # its bridge
        (("0580", "15b3", "0218"), None),  # flash recovery
        (("0200", "1d0f", "efa2"), "nic"),
        (("0200", "1d0f", "ec20"), None),  # ENA
        (("0200", "14e4", "1760"), "nic"),  # BCM57608
        (("0200", "14e4", "1750"), "nic"),  # BCM57508
        (("0200", "14e4", "165f"), None),  # BCM5720
        (("0200", "14e4", "16d8"), None),  # BCM57416, 10GBASE-T
        (("0200", "8086", "1592"), "nic"),  # E810-C
        (("0200", "8086", "1563"), None),  # X550
        (("0200", "8086", "188e"), None),  # E823-C, 1 Gb/s
        (("0280", "8086", "2725"), None),  # Wi-Fi
        (("0208", "8086", "24f0"), "nic"),  # Omni-Path
        (("0200", "1dd8", "1002"), "nic"),
        (("0200", "1414", "00ba"), "nic"),
    ],
)
def test_devices_by_id(ids, kind):
    fact = function(class_id=ids[0], vendor_id=ids[1], device_id=ids[2], is_bridge=ids[0] == "0604")
    tests = {"gpu": is_gpu, "nvswitch": is_nvswitch, "nic": is_rdma_nic}
    assert [name for name, test in tests.items() if test(fact)] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("name", "vendor", "kind"),
    [
        ("NVIDIA Corporation GH100 [H100 SXM5 80GB]", "10de", "gpu"),
        ("NVIDIA Corporation TU106GLM [Quadro RTX 3000 Mobile / Max-Q]", "10de", "gpu"),
        ("NVIDIA Corporation AD102 High Definition Audio Controller", "10de", None),
        ("NVIDIA Corporation TU104 USB 3.1 Host Controller", "10de", None),
        ("NVIDIA Corporation GH100 [H100 NVSwitch]", "10de", "nvswitch"),
        ("Mellanox Technologies MT2910 Family [ConnectX-7]", "15b3", "nic"),
        ("Mellanox Technologies MT43244 BlueField-3 integrated ConnectX-7 network controller", "15b3", "nic"),
        ("Mellanox Technologies MT43244 BlueField-3 SoC Management Interface", "15b3", None),
        ("Mellanox Technologies MT43244 Family [BlueField-3 SoC PCIe Bridge]", "15b3", None),
        ("Amazon.com, Inc. Elastic Fabric Adapter (EFA)", "1d0f", "nic"),
        ("Amazon.com, Inc. Elastic Network Adapter (ENA)", "1d0f", None),
        ("Broadcom Inc. and subsidiaries BCM57608 10Gb/25Gb/50Gb/100Gb/200Gb/400Gb Ethernet", "14e4", "nic"),
        ("Broadcom Inc. and subsidiaries BCM57508 NetXtreme-E 10Gb/25Gb/40Gb/50Gb/100Gb/200Gb Ethernet", "14e4", "nic"),
        ("Broadcom Inc. and subsidiaries NetXtreme II BCM57500S Gigabit Ethernet", "14e4", None),
        ("Broadcom Inc. and subsidiaries NetXtreme BCM5720 Gigabit Ethernet PCIe", "14e4", None),
        ("Intel Corporation Ethernet Controller E810-C for QSFP", "8086", "nic"),
        ("Intel Corporation Ethernet Controller X710 for 10GBASE-T", "8086", None),
        ("Intel Corporation Wi-Fi 6 AX200", "8086", None),
    ],
)
def test_devices_by_name(name, vendor, kind):
    fact = function(name=name, vendor_id=vendor)
    tests = {"gpu": is_gpu, "nvswitch": is_nvswitch, "nic": is_rdma_nic}
    assert [found for found, test in tests.items() if test(fact)] == ([kind] if kind else [])
