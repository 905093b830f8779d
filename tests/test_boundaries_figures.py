"""The figures that predictions start from, each as its source gives it: chips, latencies, NCCL's own tables, lanes."""

from collections import Counter
from dataclasses import replace

import pytest

from topocheck.facts import PciFunction
from topocheck.hardware import collectives, gpus, latency, network, pci_ids, tuning, xids
from topocheck.hardware.compute import chip_of
from topocheck.hardware.pcie import GTS_OF_GEN, gen_of
from topocheck.hardware.platforms import Match, Platform, Seen, platforms

# Dense bf16 TFLOP/s, GB/s, GB: docs/predict.md says where each was found. Shared memory and L2, GB/s: SMs × 128 bytes ×
# clock and 5,120 bytes × clock; 108 SMs at 1.41 GHz of an A100; 30,000 and 5,120 × 1.755 of Hopper on SXM
HOPPER, AMPERE = (30_000, 5120 * 1.755), (108 * 128 * 1.41, 5120 * 1.41)
CHIPS = {
    "NVIDIA GB300": (2500, 8000, 279, None, None),
    "NVIDIA GB200": (2500, 8000, 186, None, None),
    "NVIDIA GH200 144G HBM3e": (989.4, 4900, 144, *HOPPER),
    "NVIDIA GH200 480GB": (989.4, 4000, 96, *HOPPER),
    "NVIDIA B300 SXM6 AC": (2250, 8000, 270, None, None),
    "NVIDIA B200": (2250, 8000, 180, None, None),
    "NVIDIA H200 NVL": (835.5, 4800, 141, None, None),
    "NVIDIA H200": (989.4, 4800, 141, *HOPPER),
    "NVIDIA H100 NVL": (835.5, 3900, 94, None, None),
    "NVIDIA H100 PCIe": (756.5, 2000, 80, None, None),
    "NVIDIA H100 80GB HBM3": (989.4, 3350, 80, *HOPPER),
    "NVIDIA H800": (989.4, 3350, 80, *HOPPER),
    "NVIDIA H20": (148, 4000, 96, None, None),
    "NVIDIA A100 80GB PCIe": (312, 1935, 80, *AMPERE),
    "NVIDIA A100-SXM4-80GB": (312, 2039, 80, *AMPERE),
    "NVIDIA A100-SXM4-40GB": (312, 1555, 40, *AMPERE),
    "Tesla V100S-PCIE-32GB": (130, 1134, 32, None, None),
    "Tesla V100-PCIE-32GB": (112, 900, 32, None, None),
    "Tesla V100-PCIE-16GB": (112, 900, 16, None, None),
    "Tesla V100-SXM2-32GB": (125, 900, 32, None, None),
    "Tesla V100-SXM2-16GB": (125, 900, 16, None, None),
    "NVIDIA L40S": (362, 864, 48, None, None),
    "NVIDIA A40": (149.7, 696, 48, None, None),
    "NVIDIA A30": (165, 933, 24, None, None),
    "NVIDIA A10": (125, 600, 24, None, None),
    "NVIDIA L4": (121, 300, 24, None, None),
}


@pytest.mark.parametrize("name", CHIPS)
def test_a_chip_by_its_name(name):
    found = chip_of(name)
    assert tuple(found[1:4]) == CHIPS[name][:3]
    for value, source in zip(found[4:], CHIPS[name][3:], strict=True):
        assert value == (source if source is None else pytest.approx(source, rel=1e-3))


@pytest.mark.parametrize("name", [None, "", "NVIDIA GeForce RTX 4090"])
def test_a_chip_that_is_not_in_the_table(name):
    assert chip_of(name) is None


def test_fixed_costs_of_a_message():
    # The article: NVLink about 2 µs, InfiniBand 2-3, EFA 10-15; P2P-39 and 40: 0.72 in a switch, 1.40 through a root
    assert latency.NVLINK_US == 2
    assert (latency.PCIE_SWITCH_US, latency.PCIE_ROOT_US) == (0.72, 1.40)
    assert (latency.network_us("infiniband"), latency.network_us("ethernet")) == (2.5, 2.5)
    assert latency.network_us("efa") == 12
    assert latency.EFA_MEASURED_US == (24 + 36) / 2  # ALPHA-09 and 10
    assert latency.TCP_US == 83  # ALPHA-08
    assert pytest.approx(1 / (299.79 * 2 / 3), rel=1e-3) == latency.PROPAGATION_US_PER_M  # µs a metre
    assert 0.15 < latency.SWITCH_US < 0.3
    assert latency.SWITCH_US == 0.2
    assert latency.CABLE_M == 30


def test_latencies_of_the_tuner_of_nccl():
    # graph/tuning.cc, v2.30.7: base, per step over NVLink, PCIe, network
    assert {p: tuple(x) for p, x in tuning.RING.items()} == {
        "LL": (6.6, 0.6, 1.0, 2.7),
        "LL128": (14.0, 1.9, 2.5, 4.0),
        "Simple": (8.4, 3.4, 5.7, 14.0),
    }
    assert {p: tuple(x) for p, x in tuning.TREE.items()} == {
        "LL": (6.8, 0.6, 1.0, 5.0),
        "LL128": (14.0, 1.25, 1.9, 8.5),
        "Simple": (8.4, 4.0, 4.0, 14.0),
    }
    assert (tuning.NVLS_US, tuning.NVLSTREE_NET_US) == (25.0, 20.9)


def test_what_a_protocol_carries():
    # LL: a flag with every four bytes; LL128: 120 of 128 bytes; trees as the tuner scales them
    assert tuning.RING_SHARE == {"LL": 4 / 8, "LL128": 0.92, "Simple": 1}
    assert tuning.TREE_SHARE == {"LL": 1 / 3.8, "LL128": 7 / 9, "Simple": 1}
    assert tuning.TREE_LL128_BETWEEN == 120 / 128
    assert tuning.TREE_ALLREDUCE == 0.92
    assert tuning.LATENCY_FOUND == 1.6
    assert sorted((0.76, 0.79, 0.85))[1] == tuning.TREE_OVER_RING  # MULTI-07, 29 and 09
    # by NVLink generation (Volta's for what is older), on 1, 2 and more nodes
    most = {0: (39, 39, 20.4), 2: (39, 39, 20.4), 3: (87.7, 22.5, 19), 4: (141, 45, 35), 5: (282, 90, 70)}
    for gen, gb_per_s in most.items():
        assert tuple(tuning.ll_most_gb_per_s(gen, nodes) for nodes in (1, 2, 3)) == gb_per_s
        assert tuning.ll_most_gb_per_s(gen, 1000) == gb_per_s[2]


def test_what_sockets_carry():
    assert sorted((3.15, 4, 5.43))[1] == collectives.TCP_GB_PER_S  # FAULT-50, 52, 53


def test_infiniband_lanes():
    lanes = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
    for name, gbit_per_s in lanes.items():
        assert [network.ib_rate_gbit_per_s(width, name) for width in (1, 2, 4)] == pytest.approx(
            [gbit_per_s, 2 * gbit_per_s, 4 * gbit_per_s]
        )
    assert [network.ib_rate_gbit_per_s(*of) for of in ((None, "NDR"), (4, None), (4, "ZDR"), (0, "NDR"))] == [None] * 4


@pytest.mark.parametrize(
    ("gts", "gen"), [(2.5, 1), (4.895, 1), (4.905, 2), (5.0, 2), (15.8, 3), (15.95, 4), (63.95, 6)]
)
def test_a_speed_a_little_below_a_generation_is_that_generation(gts, gen):
    # printed figures are rounded by less than 0.1 GT/s
    assert gen_of(gts) == gen
    assert GTS_OF_GEN == {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([], ""),
        ([79], "Xid 79 (fell off the bus)"),
        ([31] * 2, "Xid 31 (page fault of a program) 2 times"),
        ([31] * 19, "Xid 31 (page fault of a program) 19 times"),
        ([31] * 20, "Xid 31 (page fault of a program) 20 times or more"),  # the probe keeps no more
        ([7, 43, 7], "Xid 7 (see the catalogue) 2 times, Xid 43 (stopped by a program's fault)"),
    ],
)
def test_xids_in_words(numbers, words):
    assert xids.in_words(numbers) == words


# --- which function is what


@pytest.mark.parametrize(
    ("ids", "nvswitch", "gpu", "nic"),
    [
        ({"vendor_id": "10de", "device_id": "22a3"}, True, False, False),
        ({"vendor_id": "1000", "device_id": "22a3"}, False, False, False),  # the id is another vendor's part
        ({"vendor_id": "1000", "name": "PEX890xx NVSwitch"}, False, False, False),
        ({"vendor_id": "15b3", "class_id": "0200", "device_id": "c2d2"}, False, False, False),  # BlueField management
        ({"vendor_id": "15b3", "class_id": "0200", "device_id": "a2dc"}, False, False, True),
        ({"vendor_id": "15b3", "class_id": "0200", "name": "BlueField-3 SoC Crypto enabled"}, False, False, False),
        ({"vendor_id": "8086", "name": "Omni-Path HFI Silicon 100 Series [discrete]"}, False, False, True),
        ({"vendor_id": "8086", "name": "Ethernet Controller E810-C for QSFP"}, False, False, True),
        ({"vendor_id": "8086", "name": "Ethernet Controller X710"}, False, False, False),
        ({"vendor_id": "1dd8", "device_id": "1002"}, False, False, True),
        ({"vendor_id": "1dd8", "device_id": "1004"}, False, False, False),  # its management function
        ({"vendor_id": "1dd8", "name": "DSC Ethernet Controller"}, False, False, True),
        ({"vendor_id": "1dd8", "name": "DSC Management Controller"}, False, False, False),
        ({"vendor_id": "1dd8"}, False, False, False),
    ],
)
def test_functions_by_vendor_id_and_name(ids, nvswitch, gpu, nic):
    function = PciFunction("0000:01:00.0", "test", **ids)
    found = (pci_ids.is_nvswitch(function), pci_ids.is_gpu(function), pci_ids.is_rdma_nic(function))
    assert found == (nvswitch, gpu, nic)


def test_names_of_virtual_functions_and_vendors():
    assert pci_ids.is_virtual_function_name("MT28908 Family [ConnectX-6 Virtual Function]") is True
    assert pci_ids.is_virtual_function_name("MT28908 Family [ConnectX-6]") is False
    assert pci_ids.is_virtual_function_name(None) is False
    names = {"NVIDIA Corporation GA100": "10de", "Mellanox Technologies MT2910": "15b3", "Amazon.com, Inc. EFA": "1d0f"}
    assert {name: pci_ids.vendor_of_name(name) for name in names} == names
    assert pci_ids.vendor_of_name("Some Other Vendor NVIDIA Corporation") is None


def test_a_name_that_is_only_the_id_yields_to_the_id():
    # an old pci.ids: "Device 2330" is an H100; without numbers its vendor's name alone makes it a part without NVLink
    assert gpus.part_of("NVIDIA Corporation Device 2330", "10de:2330") == gpus.part_of("NVIDIA H100 80GB HBM3")
    assert gpus.part_of("NVIDIA Corporation Device 2330").board == "none"
    # a name wins over the id
    assert gpus.part_of("NVIDIA A100-SXM4-80GB", "10de:2330") == gpus.part_of("NVIDIA A100-SXM4-80GB")
    assert gpus.part_of("GeForce GT 1030").no_p2p is True
    assert gpus.part_of("NVIDIA TITAN V").no_p2p is True
    assert collectives.nvls_gb_per_s(18, gpus.part_of("Tesla P100-SXM2-16GB")) is None


# --- which machine is which

ROW = Platform("ours", Match(), "our words", 8, 18)


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        (Match(dmi="Ours.*G8"), True),
        (Match(dmi="Theirs"), False),
        (Match(gpu="10de:2330"), True),
        (Match(gpu="10de:233"), False),  # the whole id
        (Match(gpus=8), True),
        (Match(gpus=7), False),
        (Match(gpus=9), False),
        (Match(nics={"15b3:1021": 8}), True),
        (Match(nics={"15b3:1021": 9}), False),
        (Match(nics={"15b3:1021": 7, "15b3:101d": 1}), False),
    ],
)
def test_a_row_fits_by_all_that_it_names(match, fits):
    seen = Seen("Ours Server G8", Counter({"10de:2330": 8}), Counter({"15b3:1021": 8}))
    assert replace(ROW, match=match).fits(seen) is fits
    if match.dmi:
        assert replace(ROW, match=match).fits(seen._replace(dmi=None)) is False


def test_a_row_says_little_unless_it_is_written():
    row = Platform("ours", Match(), "our words", 8, 18)
    assert (row.verbs, row.launch, row.topology_file, row.compute_nics, row.capped) == (True, False, False, None, ())
    platforms.cache_clear()
    rows = {row.name: row for row in platforms()}
    assert rows["DGX H100"].nic_ids == ("15b3:1021",)
    assert rows["DGX H100"].capped == ()
    assert rows["DGX H100"].nic_ids
    assert isinstance(rows["DGX H100"].nic_ids, tuple)
    assert rows["DGX H100"].match.gpus is None
    assert platforms() is platforms()
