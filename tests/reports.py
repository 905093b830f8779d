"""Reports built by hand: an HGX H100 node healthy or with findings, and an empty one."""

from __future__ import annotations

from dataclasses import replace

from topocheck.facts import Evidence, Gap, GpuState, RdmaPort
from topocheck.finding import Finding, Price
from topocheck.report import (
    Coverage,
    Device,
    Disagreement,
    GpuRow,
    Numa,
    NvlinkBundle,
    Pair,
    PcieLink,
    Report,
    Skipped,
    SourceLabel,
)

GPU_BUSES = ("19", "3b", "4c", "5d", "9b", "bb", "cb", "db")
NIC_BUSES = ("1a", "3c", "4d", "5e", "9c", "bc", "cc", "dc")
NIC_NUMBERS = (0, 1, 2, 3, 6, 7, 8, 9)  # mlx5_4 and mlx5_5 carry storage


def bdf(bus):
    return f"0000:{bus}:00.0"


def link(bus, width=16, speed_gts=32.0, **other):
    return PcieLink(
        f"0000:{int(bus, 16) - 1:02x}:01.0",
        bdf(bus),
        speed_gts,
        width,
        32.0,
        16,
        32.0,
        16,
        witness="lspci -vv",
        **other,
    )


def gpu(index):
    return Device(
        f"gpu{index}", "gpu", bdf(GPU_BUSES[index]), "10de:2330", "NVIDIA H100 80GB HBM3", "96.00.89.00.01",
        numa_node=index // 4, minor=index, pstate="P0", gpu=GpuState("nvidia-smi -q", index, fabric_state="Completed"),
    )  # fmt: skip


def port(rate_gbit_per_s=400.0, state="active", layer="infiniband"):
    return RdmaPort(
        1, state, "linkup", rate_gbit_per_s, layer, 4096, 4096, 12, 7, "0xa088c20300aa0001", "0xfe80", "ib0"
    )


def nic(number, bus, rate_gbit_per_s=400.0, role="compute", **other):
    return Device(
        f"mlx5_{number}", "nic", bdf(bus), "15b3:1021", "MT4129", "28.39.2048", "MT_0000000838",
        numa_node=int(int(bus, 16) > 0x80), role=role, role_from="kind", ports=(port(rate_gbit_per_s),), **other,
    )  # fmt: skip


GPUS = tuple(gpu(i) for i in range(8))
NICS = tuple(nic(number, bus, rail=rail) for rail, (number, bus) in enumerate(zip(NIC_NUMBERS, NIC_BUSES, strict=True)))
STORAGE = tuple(nic(number, bus, 200.0, "storage") for number, bus in ((4, "6a"), (5, "ea")))


def row(i, width=16, rdma_gb_per_s=49.0):
    return GpuRow(GPUS[i], link(GPU_BUSES[i]), "18/18", (NICS[i],), link(NIC_BUSES[i], width), "PIX", rdma_gb_per_s)


def pairs():
    ends = [*GPUS, *NICS, *STORAGE]
    return tuple(
        Pair(a.id, b.id, "PIX", "PIX", 50.0, 48.99999, bdf("19"), "unknown")
        for i, a in enumerate(ends)
        for b in ends[i + 1 :]
    )


EMPTY = Report(
    version="1.0.0", host=None, time="2026-11-20T03:04:05Z", duration_s=0.01234, privileged=None, boot_id=None,
    driver=None, kernel=None, fabric_manager=None, source=SourceLabel("folder", "capture"), verdict="unknown",
    verdict_reason="no GPU was seen", coverage=Coverage(0, 40, 8), platform=None, virtual=False, devices=(),
    nearest_nics={}, numa_nodes=(), pairs=(), links=(), nvlinks=(), findings=(), together=None, skipped=(), gaps=(),
    disagreements=(), assumptions=(), rows=(),
)  # fmt: skip

HEALTHY = replace(
    EMPTY, host="gpu017", privileged=True, driver="580.95.05", kernel="6.8.0", source=SourceLabel("live", "gpu017"),
    verdict="healthy", verdict_reason="no fault seen by the 40 rules that could run", coverage=Coverage(40, 5, 3),
    platform="HGX H100", devices=(*GPUS, *NICS, *STORAGE), sockets=2,
    nearest_nics={g.id: (n.id,) for g, n in zip(GPUS, NICS, strict=True)},
    numa_nodes=(Numa(0, "0-55,112-167", 0, 1007.5), Numa(1, "56-111,168-223", 1, 1007.5)), pairs=pairs(),
    links=tuple(link(bus) for bus in (*GPU_BUSES, *NIC_BUSES, "6a", "ea")),
    nvlinks=tuple(NvlinkBundle(g.id, "nvswitch", 18, 450.0, 391.5, "nvidia-smi nvlink -s") for g in GPUS),
    skipped=(
        Skipped("P2P002", False, "lspci was run without root: ACS not shown"),
        Skipped("GPU004", False, "kernel log needs root"),
        Skipped("PCI001", True, "6 of 10 links"),
    ),
    gaps=(Gap("dmesg", "needs root"),), assumptions=("MaxPayload assumed 256 bytes where it was not read",),
    not_applicable=(("NET007", "no RoCE port"),), rows=tuple(row(i) for i in range(8)),
)  # fmt: skip

WIDTH = Finding(
    "PCI001", "pcie-width-degraded", "error", ("mlx5_3",),
    "mlx5_3 PCIe 5.0 x8 of x16: gpu3 -> mlx5_3 GPUDirect RDMA 26.9 of 49.0 GB/s (−45 %)",
    "7 peers run x16. Reseat the card or its riser",
    (
        Evidence("lspci -vv", 2143, "LnkSta:\tSpeed 32GT/s, Width x8 (downgraded)"),
        Evidence("lspci -vv", 2100, "LnkSta:\tSpeed 32GT/s, Width x8"),
    ),
    expected_from="both ends", follows=("PCI004 mlx5_3",),
    price=Price("gpu3 -> mlx5_3 GPUDirect RDMA", 26.9, 49.0, 0.4510, None, "computed", "slowest GPU 26.9 of 49.0 GB/s"),
)  # fmt: skip
ORDERING = Finding(
    "PCI009", "relaxed-ordering-off", "warning", ("mlx5_6",), "mlx5_6 relaxed ordering off, 7 peers on",
    "Set it on in the NIC's firmware", (Evidence("lspci -vv", 3000, "DevCtl: RlxdOrd-"),),
)  # fmt: skip
FAULTY = replace(
    HEALTHY, verdict="failed", verdict_reason="an error stands", findings=(WIDTH, ORDERING),
    rows=tuple(row(i, 8, 26.9) if i == 3 else row(i) for i in range(8)),
    disagreements=(Disagreement("gpu0", "numa_node", ((0, "lspci -vv"), (1, "nvidia-smi topo -m")), 0),),
)  # fmt: skip
