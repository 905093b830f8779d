"""The parts a simulated node is made of: public vendor and device ids and names as pci.ids and the tools print them.

Everything that names one particular machine (GUIDs, UUIDs, serial numbers) is made up elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class GpuPart:
    """A GPU model. nvlinks: of the die; links_bridged: a pair's count with bridges on; sleeps: lowers its PCIe link
    when idle; board: nvswitch, bridge, none."""

    key: str
    pci_name: str
    device_id: str
    subsystem: str
    model: str
    gen: int
    memory_mib: int
    bar1_bytes: int
    board: str = "none"
    nvlinks: int = 0
    links_bridged: int = 0
    nvlink_gb_per_s: str = "25"
    sleeps: bool = False
    p2p: bool = True
    has_fabric: bool = False
    nvswitch: tuple[str, int] | None = None  # device id and number of its board's NVSwitch functions
    architecture: str = "Hopper"
    power_w: int = 350
    clock_mhz: int = 1980


@dataclass(frozen=True)
class NicPart:
    """A NIC card. ports: functions of the card, one port each."""

    key: str
    pci_name: str
    device_id: str
    subsystem: str
    ca_type: str
    board_id: str
    firmware: str
    layer: str  # infiniband, ethernet
    rate: int
    gen: int
    ports: int = 1


@dataclass(frozen=True)
class BridgePart:
    """A root port or switch chip."""

    vendor_id: str
    device_id: str
    name: str


@dataclass(frozen=True)
class Cpu:
    """A CPU model: what its root ports are called, and lscpu's words."""

    vendor: str
    model: str
    root_port: BridgePart
    host_bridge: BridgePart


GPUS = {
    part.key: part
    for part in (
        GpuPart("h100", "GH100 [H100 SXM5 80GB]", "2330", "10de:16c1", "NVIDIA H100 80GB HBM3", 5, 81559, 128 * GIB,
                "nvswitch", 18, nvlink_gb_per_s="26.562", has_fabric=True, nvswitch=("22a3", 4), power_w=700),
        GpuPart("h200", "GH100 [H200 SXM 141GB]", "2335", "10de:18be", "NVIDIA H200", 5, 143771, 256 * GIB,
                "nvswitch", 18, nvlink_gb_per_s="26.562", has_fabric=True, nvswitch=("22a3", 4), power_w=700),
        GpuPart("a100", "GA100 [A100 SXM4 80GB]", "20b2", "10de:1463", "NVIDIA A100-SXM4-80GB", 4, 81920, 128 * GIB,
                "nvswitch", 12, nvswitch=("1af1", 6), architecture="Ampere", power_w=400, clock_mhz=1410),
        GpuPart("h100-pcie", "GH100 [H100 PCIe]", "2331", "10de:1626", "NVIDIA H100 PCIe", 5, 81559, 128 * GIB,
                "bridge", 18, 12, "26.562", clock_mhz=1755),
        GpuPart("a100-pcie", "GA100 [A100 PCIe 80GB]", "20b5", "10de:1533", "NVIDIA A100 80GB PCIe", 4, 81920,
                128 * GIB, "bridge", 12, 12, architecture="Ampere", power_w=300, clock_mhz=1410),
        GpuPart("l40s", "AD102GL [L40S]", "26b9", "10de:1851", "NVIDIA L40S", 4, 46068, 64 * GIB, sleeps=True,
                architecture="Ada Lovelace", clock_mhz=2520),
        GpuPart("rtx6000", "AD102GL [RTX 6000 Ada Generation]", "26b1", "10de:16a1",
                "NVIDIA RTX 6000 Ada Generation", 4, 49140, 64 * GIB, sleeps=True, architecture="Ada Lovelace",
                power_w=300, clock_mhz=3105),
        GpuPart("rtxpro", "GB202GL [RTX PRO 6000 Blackwell Server Edition]", "2bb5", "10de:204e",
                "NVIDIA RTX PRO 6000 Blackwell Server Edition", 5, 97887, 128 * GIB, sleeps=True,
                architecture="Blackwell", power_w=600, clock_mhz=2430),
        GpuPart("4090", "AD102 [GeForce RTX 4090]", "2684", "10de:167c", "NVIDIA GeForce RTX 4090", 4, 24564,
                256 * MIB, sleeps=True, p2p=False, architecture="Ada Lovelace", power_w=450, clock_mhz=3105),
    )
}  # fmt: skip

NICS = {
    part.key: part
    for part in (
        NicPart("cx7-ndr", "MT2910 Family [ConnectX-7]", "1021", "15b3:0041", "MT4129", "MT_0000000838", "28.43.2026",
                "infiniband", 400, 5),
        NicPart("cx7-roce", "MT2910 Family [ConnectX-7]", "1021", "15b3:0040", "MT4129", "MT_0000000834", "28.43.2026",
                "ethernet", 400, 5),
        NicPart("cx7-dual", "MT2910 Family [ConnectX-7]", "1021", "15b3:0026", "MT4129", "MT_0000000892", "28.43.2026",
                "ethernet", 200, 5, 2),
        NicPart("cx6-hdr", "MT28908 Family [ConnectX-6]", "101b", "15b3:0061", "MT4123", "MT_0000000223", "20.43.2026",
                "infiniband", 200, 4),
        NicPart("cx6dx", "MT2892 Family [ConnectX-6 Dx]", "101d", "15b3:0016", "MT4125", "MT_0000000359", "22.43.2026",
                "ethernet", 100, 4, 2),
        NicPart("cx5", "MT27800 Family [ConnectX-5]", "1017", "15b3:0007", "MT4119", "MT_0000000008", "16.35.4030",
                "ethernet", 100, 3),
        NicPart("cx4lx", "MT27710 Family [ConnectX-4 Lx]", "1015", "15b3:0003", "MT4117", "MT_2420110034",
                "14.32.1900", "ethernet", 25, 3, 2),
    )
}  # fmt: skip

SWITCH_CHIPS = {
    5: BridgePart("1000", "c030", "Broadcom / LSI PEX890xx PCIe Gen 5 Switch"),
    4: BridgePart("1000", "c010", "Broadcom / LSI PEX880xx PCIe Gen 4 Switch"),
}
CPUS = {
    "intel": Cpu("GenuineIntel", "Intel(R) Xeon(R) Platinum 8480+",
                 BridgePart("8086", "352a", "Intel Corporation Device"),
                 BridgePart("8086", "09a2", "Intel Corporation Ice Lake Memory Map/VT-d")),
    "amd": Cpu("AuthenticAMD", "AMD EPYC 9454 48-Core Processor",
               BridgePart("1022", "14ab", "Advanced Micro Devices, Inc. [AMD] Device"),
               BridgePart("1022", "14a4", "Advanced Micro Devices, Inc. [AMD] Device")),
}  # fmt: skip
