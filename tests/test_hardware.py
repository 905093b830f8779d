"""The figures of parts, links and ports, each against its data sheet or against arithmetic written out here."""

import pytest

from topocheck.hardware import collectives, gpus, network, pcie, xids

# name -> board, NVLinks, GB/s a link and direction, generation; holds its PCIe link, chip-to-chip link, never P2P
PARTS = {
    "NVIDIA GB200": ("nvswitch", 18, 50, 5, True, True, False),
    "NVIDIA GH200 480GB": ("none", 18, 25, 4, True, True, False),
    "NVIDIA GB10": ("none", 0, 0, 0, False, True, False),
    "NVIDIA B200": ("nvswitch", 18, 50, 5, True, False, False),
    "NVIDIA H100 80GB HBM3": ("nvswitch", 18, 25, 4, True, False, False),
    "NVIDIA H100 NVL": ("bridge", 18, 25, 4, True, False, False),
    "NVIDIA H100 PCIe": ("bridge", 18, 25, 4, True, False, False),
    "NVIDIA H800": ("nvswitch", 8, 25, 4, True, False, False),
    "NVIDIA A100-SXM4-80GB": ("nvswitch", 12, 25, 3, True, False, False),
    "NVIDIA A100-PCIE-40GB": ("bridge", 12, 25, 3, True, False, False),
    "NVIDIA A800-SXM4-80GB": ("nvswitch", 8, 25, 3, True, False, False),
    "NVIDIA A800 80GB PCIe": ("bridge", 8, 25, 3, True, False, False),
    "Tesla V100-SXM3-32GB": ("nvswitch", 6, 25, 2, True, False, False),
    "Tesla V100-SXM2-16GB": ("mesh", 6, 25, 2, True, False, False),
    "Tesla V100-PCIE-16GB": ("none", 0, 0, 0, True, False, False),
    "Tesla P100-SXM2-16GB": ("mesh", 4, 20, 1, False, False, False),
    "NVIDIA A30": ("bridge", 4, 25, 3, False, False, False),
    "NVIDIA A40": ("bridge", 4, 14.0625, 3, False, False, False),
    "NVIDIA RTX A6000": ("bridge", 4, 14.0625, 3, False, False, False),
    "NVIDIA GeForce RTX 3090": ("bridge", 4, 14.0625, 3, False, False, True),
    "Quadro GV100": ("bridge", 4, 25, 2, False, False, False),
    "Quadro RTX 8000": ("bridge", 2, 25, 2, False, False, False),
    "NVIDIA GeForce RTX 2080 Ti": ("bridge", 2, 25, 2, False, False, True),
    "NVIDIA GeForce RTX 4090": ("none", 0, 0, 0, False, False, True),
    "NVIDIA L40S": ("none", 0, 0, 0, False, False, False),
    "GA100GL [A30 PCIe]": ("bridge", 4, 25, 3, False, False, False),  # as lspci names it, after its chip
    "GA100 [A100 SXM4 80GB]": ("nvswitch", 12, 25, 3, True, False, False),
    "GV100GL [Tesla V100 SXM2 32GB]": ("mesh", 6, 25, 2, True, False, False),
    "GP100GL [Tesla P100 SXM2 16GB]": ("mesh", 4, 20, 1, False, False, False),
    "Tesla T4": ("none", 0, 0, 0, False, False, False),
}


@pytest.mark.parametrize("name", PARTS)
def test_what_a_part_has(name):
    assert tuple(gpus.part_of(name)[1:]) == PARTS[name]


def test_a_part_is_known_by_its_pci_id_too():
    assert gpus.part_of(None, "10de:2330") == gpus.part_of("NVIDIA H100 80GB HBM3")
    assert gpus.part_of("unheard of", "10de:20b2") == gpus.part_of("NVIDIA A100-SXM4-80GB")
    assert gpus.part_of(None, "10de:ffff") is None
    assert gpus.part_of(None) is None
    assert gpus.model_of_id("10de:2901") == "B200"


# links, GB/s a link; k of copies and of NCCL rings (prediction.md section 2); GB/s that nvidia-smi prints of a link
@pytest.mark.parametrize(
    ("name", "links", "rate", "copy", "ring", "printed"),
    [
        ("P100-SXM2", 4, 20, 0.920, 0.778, 19.375),
        ("V100-SXM2", 6, 25, 0.920, 0.813, 25.781),
        ("A100-SXM4", 12, 25, 0.909, 0.769, 25),
        ("H100 80GB HBM3", 18, 25, 0.870, 0.807, 26.562),
        ("B200", 18, 50, 0.830, 0.753, 53.125),
        ("RTX A6000", 4, 14.0625, 0.909, 0.769, 14.0625),
    ],
)
def test_nvlink_by_generation(name, links, rate, copy, ring, printed):
    part = gpus.part_of(f"NVIDIA {name}")
    assert gpus.nvlink_line_rate_gb_per_s(links, part) == pytest.approx(links * rate)
    assert gpus.nvlink_achievable_gb_per_s(links, part) == pytest.approx(links * rate * copy)
    assert gpus.nvlink_ring_gb_per_s(links, part) == pytest.approx(links * rate * ring)
    assert gpus.nvlink_printed_gb_per_s(part) == pytest.approx(printed)


@pytest.mark.parametrize("part", [None, gpus.part_of("NVIDIA L40S")])
def test_nvlinks_of_an_unknown_part_count_as_those_of_hopper(part):
    assert gpus.nvlink_line_rate_gb_per_s(4, part) == 100
    assert gpus.nvlink_achievable_gb_per_s(4, part) == pytest.approx(87.0)
    assert gpus.nvlink_ring_gb_per_s(4, part) == pytest.approx(80.7)
    assert gpus.nvlink_printed_gb_per_s(part) == 26.562


def test_pcie_beside_nvlink():
    # Gen3 beside NVLink 1 and 2, Gen4 on A100 and where there is none, Gen5 from Hopper on
    assert gpus.PCIE_GTS_BESIDE_NVLINK == {0: 16, 1: 8, 2: 8, 3: 16, 4: 32, 5: 32}


@pytest.mark.parametrize(
    ("name", "covers"),
    [("H100 80GB HBM3", True), ("V100-PCIE-16GB", True), ("GB200", False), ("L40S", False), ("A40", False)],
)
def test_which_parts_ship_with_a_large_bar1(name, covers):
    assert gpus.bar1_covers_memory(gpus.part_of(f"NVIDIA {name}")) is covers
    assert gpus.bar1_covers_memory(None) is False


@pytest.mark.parametrize(
    ("speed_gts", "gen"), [(2.5, 1), (5, 2), (8, 3), (16, 4), (32, 5), (64, 6), (31.9, 5), (12, 3), (1, 1), (2.4, 1)]
)
def test_generation_of_a_speed(speed_gts, gen):
    assert pcie.gen_of(speed_gts) == gen
    assert pcie.gen_word(speed_gts) == f"{gen}.0"


def test_payload_share_by_the_formula():
    # 4 MPS / (4 (MPS + h) + 16), h 26 from Gen3 on, else 24: 512 / 632, 1024 / 1144, 2048 / 2168; 1024 / 1136
    assert [pcie.payload_share(size, 3) for size in (128, 256, 512)] == pytest.approx(
        [512 / 632, 1024 / 1144, 2048 / 2168]
    )
    assert pcie.payload_share(256, 2) == pytest.approx(1024 / 1136)
    assert pcie.ASSUMED_PAYLOAD_BYTES == 256


# x16: lanes * GT/s * encoding / 8, U(256), k
@pytest.mark.parametrize(
    ("speed_gts", "line", "share", "k"),
    [
        (2.5, 4.0, 1024 / 1136, 0.954),
        (5, 8.0, 1024 / 1136, 0.954),
        (8, 16 * 128 / 130, 1024 / 1144, 0.824),
        (16, 32 * 128 / 130, 1024 / 1144, 0.922),
        (32, 64 * 128 / 130, 1024 / 1144, 0.954),
        (64, 128 * 242 / 256, 1024 / 1144, 0.954),
    ],
)
def test_pcie_by_generation(speed_gts, line, share, k):
    assert pcie.line_rate_gb_per_s(speed_gts, 16) == pytest.approx(line)
    assert pcie.achievable_gb_per_s(speed_gts, 16) == pytest.approx(line * share * k)
    assert pcie.staged_gb_per_s(speed_gts, 16) == pytest.approx(line * share * 0.640)
    assert pcie.ring_gb_per_s(speed_gts, 16) == pytest.approx(line * share * 0.709)


def test_ports():
    assert network.line_rate_gb_per_s(400) == 50
    assert network.achievable_gb_per_s(400) == pytest.approx(49)
    # ConnectX-7 400, ConnectX-6 200, ConnectX-5 100, ConnectX-8 800, BlueField-3 400, BlueField-2 200; EFA 100 to 400
    ids = {"1021": 400, "101b": 200, "1017": 100, "1019": 100, "1013": 100, "101d": 100, "1023": 800, "a2dc": 400}
    ids |= {"a2d6": 200}
    assert {i: network.most_gbit_per_s(f"15b3:{i}", None) for i in ids} == ids
    efa = {"efa0": 100, "efa1": 100, "efa2": 200, "efa3": 400}
    assert {i: network.most_gbit_per_s(f"1d0f:{i}", None) for i in efa} == efa
    types = {4115: 100, 4119: 100, 4121: 100, 4123: 200, 4125: 100, 4129: 400, 4131: 800, 41686: 200, 41692: 400}
    assert {i: network.most_gbit_per_s(None, f"MT{i}") for i in types} == types
    assert network.most_gbit_per_s("15b3:ffff", "MT1") is None


def test_ranges_of_what_is_typical():
    # design.md section 3
    assert network.FAR_SOCKET_LOSS == (0.35, 0.55)
    assert network.FAR_BRIDGE_LOSS == (0.30, 0.55)
    assert network.NO_GPUDIRECT_LOSS == (0.12, 0.84)
    assert pcie.STAGED_LOSS == (0.21, 0.66)
    assert gpus.NVLINK_PAIR_STAGED_REMAINS == 0.09
    assert collectives.FAR_NIC == 0.5


def test_collectives_of_one_and_two_nodes():
    h100, b200, a100 = (gpus.part_of(f"NVIDIA {x}") for x in ("H100 80GB HBM3", "B200", "A100-SXM4-80GB"))
    assert collectives.nvls_gb_per_s(18, h100) == pytest.approx(450 * 1.067)
    assert collectives.nvls_gb_per_s(18, b200) == pytest.approx(900 * 0.931)
    assert collectives.nvls_gb_per_s(12, a100) is None
    assert collectives.nvls_gb_per_s(18, None) is None
    assert collectives.nics_gb_per_s(8 * 400) == pytest.approx(400 * 0.916)
    # 16 ranks: 2 * 15/16 of 200 GB/s * 0.768 = 288
    assert collectives.tree_of_two_gb_per_s(1600, 8) == pytest.approx(200 * 1.875 * 0.768)
    # 3.15, 4 and 5.43 were measured
    assert 3.15 <= collectives.TCP_GB_PER_S <= 5.43


def test_xids_by_what_they_ask_for():
    # NVIDIA's catalogue: 79 off the bus, 119 and 120 GSP, 95 uncontained, 64 remapping failed; 31 and 13 a program's
    assert set(xids.SILENCING) == {79, 119, 120}
    assert set(xids.FATAL) == {64, 79, 95, 119, 120}
    assert xids.FATAL.issubset(xids.HARDWARE)
    assert {48, 62, 64, 74, 79, 95, 119, 120, 140, 143, *range(144, 151), 154} == set(xids.HARDWARE)
    assert set(xids.HARMLESS) == {13, 31, 43, 45, 63, 92, 94}
