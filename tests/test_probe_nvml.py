"""`nvml.json`, `psutil.json`: what each record states, and that no shape of JSON breaks the probes."""

from __future__ import annotations

import json
import random

import pytest

from topocheck.facts import Gap, GpuState, Host, Matrix, NvlinkGpu, P2pMatrix
from topocheck.probes import cpus, nvml

LOST = {"code": 15, "error": "GPU is lost"}
NOT_SUPPORTED = {"code": 3, "error": "Not Supported"}


def gpu(index, **more):
    """One GPU as the child of the live source writes it."""
    pci = {"busId": f"00000000:1{index}:00.0", "pciDeviceId": 0x233010DE}
    return {"gpu": index, "name": "NVIDIA H100 80GB HBM3", "uuid": f"GPU-{index}", "pci": pci, "pstate": 0, **more}


def link(remote="00000000:07:00.0", kind=2, state=1):
    return {"state": state, "remote": remote, "remote_type": kind, "mb_per_s": 26562, "replay": 3, "recovery": 0}


def document(*records):
    return "[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n"


def facts(kind, *records):
    return [fact for fact in nvml.parse(document(*records)) if isinstance(fact, kind)]


def test_one_gpu():
    (state,) = facts(GpuState, gpu(3, gen=5, width=16, mig=[1, 0], bar1={"bar1Total": 1 << 37}, power_limit_mw=700000))
    assert (state.index, state.bdf, state.pci_id) == (3, "0000:13:00.0", "10de:2330")
    assert (state.gen, state.width, state.pstate, state.mig) == (5, 16, "P0", True)
    assert (state.bar1_bytes, state.power_limit_w) == (1 << 37, 700.0)
    assert state.lines["width"].text == "gpu3 width: 16"
    assert state.lines["width"].line is None


def test_the_fabric_in_nvidia_smis_words():
    """0x29: bandwidth degraded (1), route recovery false (2 << 2), route unhealthy false (2 << 4)."""
    (state,) = facts(GpuState, gpu(0, fabric={"state": 3, "status": 0, "health": 0x29}))
    assert (state.fabric_state, state.fabric_status) == ("Completed", "Success")
    assert dict(state.fabric_health) == {
        "Bandwidth": "Degraded",
        "Route Recovery In Progress": "False",
        "Route Unhealthy": "False",
        "Access Timeout Recovery": "N/A",
    }
    (late,) = facts(GpuState, gpu(0, fabric={"state": 2, "status": 0, "health": 0}))
    assert (late.fabric_state, late.fabric_status) == ("In Progress", "N/A")


@pytest.mark.parametrize(
    ("reasons", "slowdowns"),
    [(0x1, set()), (0x4, set()), (0x48, {"HW Slowdown", "HW Thermal Slowdown"}), (0x80, {"HW Power Brake Slowdown"})],
)
def test_only_hardware_slowdowns_count(reasons, slowdowns):
    (state,) = facts(GpuState, gpu(0, clocks_event_reasons=reasons))
    assert state.slowdowns == slowdowns


def test_a_failed_call_is_a_gap_and_what_the_part_has_not_is_none():
    record = gpu(0, width=LOST, vbios={"code": 999, "error": "Unknown Error."}, minor=NOT_SUPPORTED)
    (state,) = facts(GpuState, record)
    assert state.lost == "GPU is lost" and state.width is None and state.minor is None
    assert [gap.reason for gap in facts(Gap, record)] == ["gpu0 width: GPU is lost", "gpu0 vbios: Unknown Error"]


def test_mig_that_the_part_has_not_is_off():
    (state,) = facts(GpuState, gpu(0, mig=NOT_SUPPORTED))
    assert state.mig is False


def test_links_to_switches_and_their_matrix():
    pair = {"gpu": 0, "to": 1, "ancestor": 50, "p2p_read": 0, "p2p_read_back": 1, "p2p_write": 0}
    records = (gpu(0), gpu(1), {"gpu": 0, "links": [link()] * 18}, {"gpu": 1, "links": [link()] * 17}, pair)
    ports = {fact.index: fact.ports for fact in facts(NvlinkGpu, *records)}
    assert (len(ports[0]), ports[0][0].rate_gb_per_s, ports[0][0].errors) == (
        18,
        26.562,
        (("Replay", 3), ("Recovery", 0)),
    )
    (matrix,) = facts(Matrix, *records)
    assert matrix.cells["GPU0", "GPU1"] == "NV17", "as many as both have"
    p2p = {fact.capability: fact.cells for fact in facts(P2pMatrix, *records)}
    assert p2p["r"] == {("GPU0", "GPU1"): "OK", ("GPU1", "GPU0"): "CNS"}
    assert set(p2p) == {"r", "w"}


@pytest.mark.parametrize(
    ("later", "seconds", "rate", "before"),
    [
        ({"replay": 3, "recovery": 0, "crc": 70}, 0.5, 120.0, 10),
        ({"replay": 3, "recovery": 0, "crc": 10}, 0.5, 0.0, None),
        ({"replay": 3, "recovery": 0, "crc": 2}, 0.5, 0.0, 10),  # cleared in between
        ({"replay": 3, "recovery": 0, "crc": LOST}, 0.5, None, None),
        ({"replay": 3, "recovery": 0, "crc": 70}, 0, None, None),
        ("no link", 0.5, None, None),
    ],
)
def test_counters_read_twice(later, seconds, rate, before):
    once = {"gpu": 0, "links": [link() | {"crc": 10}] * 2}
    (said,) = facts(
        NvlinkGpu, gpu(0), once, {"gpu": 0, "links_again": [link() | {"crc": 10}, later], "seconds": seconds}
    )
    assert len(said.ports) == 2 and said.ports[0].crc_per_s == (0.0 if seconds else None)
    assert said.ports[1].crc_per_s == rate
    assert dict(said.ports[1].errors_before).get("CRC") == before
    assert facts(GpuState, gpu(0), once, {"gpu": 0, "links_again": [], "seconds": 1})[0].index == 0
    assert "10 CRC" in said.ports[0].error_line.text


def test_bridged_pairs_have_the_links_between_them():
    a, b = link("00000000:11:00.0", 0), link("00000000:10:00.0", 0)
    records = (
        gpu(0),
        gpu(1),
        gpu(2),
        {"gpu": 0, "links": [a] * 4},
        {"gpu": 1, "links": [b] * 4},
        {"gpu": 2, "links": []},
    )
    pairs = [
        {"gpu": 0, "to": 1, "ancestor": 20},
        {"gpu": 0, "to": 2, "ancestor": 40},
        {"gpu": 1, "to": 2, "ancestor": 0},
    ]
    (matrix,) = facts(Matrix, *records, *pairs)
    assert matrix.cells["GPU0", "GPU1"] == matrix.cells["GPU1", "GPU0"] == "NV4"
    assert matrix.cells["GPU0", "GPU2"] == "NODE"
    assert ("GPU1", "GPU2") not in matrix.cells


def test_a_part_without_nvlink():
    (said,) = facts(NvlinkGpu, gpu(0), {"gpu": 0, "links": [{"state": NOT_SUPPORTED}]})
    assert said.unsupported and not said.ports
    assert not facts(NvlinkGpu, gpu(0), {"gpu": 0, "links": [{"state": LOST}]})


@pytest.mark.parametrize(
    ("failure", "error", "gap"),
    [
        ({"code": 18, "error": "RM has detected an NVML/RM version mismatch."}, "version mismatch", None),
        ({"code": 9, "error": "Driver Not Loaded"}, "Driver Not Loaded", None),
        ({"code": 12, "error": "NVML Shared Library Not Found"}, None, "NVML Shared Library Not Found"),
        ({"code": None, "error": "the Python package nvidia-ml-py is not installed"}, None, "the Python package"),
    ],
)
def test_nvml_that_does_not_start(failure, error, gap):
    hosts, gaps = facts(Host, {"init": failure}), facts(Gap, {"init": failure})
    assert [error in host.driver_error for host in hosts] == ([True] if error else [])
    assert [found.reason.lower().startswith((gap or "").lower()) for found in gaps] == ([True] if gap else [])


def test_what_was_written_before_the_end_is_read():
    whole = document({"driver": "580.95.05", "count": 8}, *(gpu(i) for i in range(8)))
    for cut in range(0, len(whole), 97):
        found = list(nvml.parse(whole[:cut]))
        assert len([f for f in found if isinstance(f, GpuState)]) >= whole[:cut].count("},\n") - 1


def test_no_json_breaks_it():
    chance = random.Random(7)
    values = [
        None,
        True,
        -1,
        10**30,
        1.5,
        "",
        "x",
        [],
        [None],
        [[1]],
        {},
        {"error": 1},
        {"code": [], "error": {}},
        LOST,
    ]
    values += [{"busId": 3}, {"busId": []}, {"state": [], "health": "x"}, [{"state": {}}], [{"state": LOST}] * 3]
    keys = [*gpu(0), "driver", "init", "handle", "links", "to", "count", "fabric", "mig", "width", "remapped_rows"]
    keys += ["ancestor", "p2p_read", "clocks_event_reasons", "bar1", "recovery_action", "virtualization", "ecc"]
    for _ in range(3000):
        record = {chance.choice(keys): chance.choice(values) for _ in range(6)}
        record["gpu"] = chance.choice([0, 1, *values])
        list(nvml.parse(document(gpu(0), gpu(1), record, record)))


def test_the_cpus_of_this_process():
    text = '{"cpu_count": 8, "cores": 4, "affinity": [0, 1, 2, 5], "memory_bytes": 1024}\n'
    (host,) = cpus.parse(text)
    assert (host.cpu_count, host.allowed_cpus) == (8, "0-2,5")
    for odd in ("", "[]", '{"cpu_count": "x", "affinity": [[], -1, 1e9]}', "{" * 2000):
        assert all(isinstance(fact, Host | Gap) for fact in cpus.parse(odd))
