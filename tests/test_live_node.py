"""A whole live machine: its commands, its files and NVML say what a capture of it says, and what its texts alone say.

NVML is tests/fake_nvml.c behind the real nvidia-ml-py, in the child process that the live source starts.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path

import nodes
import pytest
from livenode import LiveNode, livenode, set_environ

from topocheck.build import build
from topocheck.check import check
from topocheck.facts import Gap, GpuState, NvlinkGpu
from topocheck.formats import json as as_json
from topocheck.probes.gather import gather
from topocheck.sources.live import open_live
from topocheck.sources.open import open_source
from topocheck.sources.record import Recorder

pytestmark = pytest.mark.real("gcc")

NODE = "hgx-h100"
FAULTS = (
    "mlx5_3-x8",
    "mlx5_6-gen4",
    "gpu5-x8",
    "mlx5_8-polling",
    "mlx5_1-200",
    "gpu2-one-nvlink",
    "gpu6-fabric-in-progress",
    "gpu0-gpu1-no-peer-read",
    "gpu5-xid-119",
    "gpu2-uncorrectable-memory-errors",
    "gpu2-power-limit-500",
    "gpu3-power-brake",
    "gpu5-nvlink-at-half-speed",
)
ONLY_BY_TWO_READINGS = "gpu3-power-brake"


def findings(report):
    return sorted((f.rule, f.severity, f.subjects, f.price and f.price.loss) for f in report.findings)


def live(node: LiveNode, **more):
    return check(None, root=str(node.root), tools=str(node.tools), **more).report


def captured(node: LiveNode, folder: Path) -> Path:
    """The machine recorded, and the capture unpacked."""
    recorder = Recorder(open_live(root=str(node.root), tools=str(node.tools)))
    gather(recorder)
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(recorder.capture(None))) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    def made(fault: str | None = None, **more) -> LiveNode:
        path = tmp_path / "node"
        path.mkdir()
        if fault is None:
            shutil.copytree(nodes.healthy(NODE), path / "capture")
        else:
            nodes.apply(NODE, nodes.edit(NODE, fault), path)
        node = livenode(path / "capture", tmp_path, **more)
        set_environ(monkeypatch, node)
        return node

    return made


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_live_and_replayed_and_text_only_say_the_same(machine, tmp_path, fault):
    node = machine(fault)
    by_text = findings(check(str(node.root)).report)
    assert (fault is None) == (not by_text)
    assert findings(live(node)) == by_text
    assert findings(check(str(captured(node, tmp_path / "replay"))).report) == by_text
    shutil.rmtree(tmp_path / "replay")
    alone = findings(live(node.without("nvidia-smi")))
    if fault == ONLY_BY_TWO_READINGS:
        by_text = [(rule, "info", *rest) for rule, _, *rest in by_text]
    assert alone == by_text, "NVML stands in for nvidia-smi"


def test_nvml_says_field_by_field_what_nvidia_smi_says(machine):
    """Where both state a field of a GPU they agree; and NVML alone states nearly all."""
    node = machine()
    states = [f for f in gather(open_live(root=str(node.root), tools=str(node.tools))) if isinstance(f, GpuState)]
    by = {w: {s.index: s for s in states if s.witness == w} for w in ("nvml", "nvidia-smi -q -x")}
    assert sorted(by["nvml"]) == list(range(8))
    for index, ours in by["nvml"].items():
        theirs = by["nvidia-smi -q -x"][index]
        fields = [name for name in GpuState.__slots__ if name not in ("witness", "lines", "fabric_health")]
        both = [name for name in fields if None not in (getattr(ours, name), getattr(theirs, name))]
        assert {n: getattr(ours, n) for n in both} == {n: getattr(theirs, n) for n in both}
        assert len(both) >= 25
        assert all(ours.lines[name].text.startswith(f"gpu{index} ") for name in ("width", "gen", "pstate"))


def test_a_capture_replays_to_the_same_json(machine, tmp_path):
    """All but the time, how long it took, the source, and the verdict, which asks more of a live run."""
    node = machine("mlx5_3-x8")
    first = json.loads(as_json.render(live(node)))
    again = json.loads(as_json.render(check(str(captured(node, tmp_path / "replay"))).report))
    for key in ("time", "duration_s", "source"):
        del first[key], again[key]
    assert again == first


def test_nccls_topology_file_is_captured_and_not_taken_for_an_output(machine, tmp_path, monkeypatch):
    """It lies in no folder that every machine has."""
    node = machine()
    monkeypatch.setenv("NCCL_TOPO_FILE", "/cluster/topo.xml")
    pci = '<pci busid="0009:00:00.0" class="0x030200" vendor="0x10de"><gpu dev="0" sm="90" rank="0" gdr="1"/></pci>'
    file = node.root / "cluster/topo.xml"
    file.parent.mkdir(parents=True)
    file.write_text(f'<system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">{pci}</cpu></system>\n')
    here = check(None, root=str(node.root), tools=str(node.tools)).topology
    there = check(str(captured(node, tmp_path / "replay"))).topology
    for seen in (here, there):
        assert seen.machine.topology_gpus == {"0009:00:00.0"} and len(seen.gpus) == 8
    assert there.gaps == here.gaps
    assert (tmp_path / "replay/cluster/topo.xml").read_text() == file.read_text()


def test_a_gpu_that_nvml_cannot_open_is_gone(machine, tmp_path):
    node = machine("gpu4-lost", nvml=nodes.healthy(NODE), also="!nvmlDeviceGetHandleByIndex_v2 4 * 15")
    said = [f for f in live(node).findings if f.severity == "error"]
    assert [(f.rule, f.subjects) for f in said] == [("GPU001", ("gpu4",))]
    alone = [f for f in live(node.without("nvidia-smi")).findings if f.severity == "error"]
    assert [(f.rule, f.subjects) for f in alone] == [("GPU001", ("gpu4",))]


@pytest.mark.parametrize(
    ("also", "rule", "words"),
    [
        ("!nvmlInitWithFlags * * 18", "GPU003", "version mismatch"),
        ("recovery_action 3 * 2", "GPU004", "Node Reboot"),
        ("!nvmlDeviceGetCurrPcieLinkWidth 3 * 15", "GPU001", "GPU is lost"),
        ("fabric_state 3 * 1", "NVL005", "Not Started"),
        ("remap_failed 3 * 1", "GPU005", "gpu3"),
        ("gpus * * 0", "GPU003", "No devices were found"),
    ],
)
def test_what_only_nvml_says_is_found(machine, also, rule, words):
    report = live(machine(also=also).without("nvidia-smi"))
    (said,) = [f for f in report.findings if f.severity == "error"]
    assert said.rule == rule
    assert words in said.message
    assert said.evidence[0].input == "nvml.json"


@pytest.mark.parametrize(("more", "severity"), [(45, "info"), (500, "warning")])
def test_crc_errors_are_counted_twice(machine, more, severity):
    """rules.md NVL004: 100 a second. 45 more after half a second or later are less, 500 within five seconds are not."""
    (found,) = [f for f in live(machine(also=f"crc_more 3 7 {more}")).findings if f.rule == "NVL004"]
    assert (found.subjects, found.severity) == (("gpu3",), severity)
    assert "most on link 7" in found.message and "CRC a second" in found.message
    assert f"{2 * more} CRC, {more} CRC more in " in found.evidence[0].text


@pytest.mark.parametrize(
    ("also", "more"), [("", {"rates": False}), ("\n~nvmlInitWithFlags * * 700", {"budget_s": 2.0})]
)
def test_who_has_no_time_reads_no_counter_twice(machine, also, more):
    """The gate's live source, and one whose driver took most of its time."""
    node = machine(also="crc_more 3 7 500" + also)
    facts = gather(open_live(root=str(node.root), tools=str(node.tools), **more))
    ports = [p for f in facts if isinstance(f, NvlinkGpu) and f.witness == "nvml" for p in f.ports]
    assert len(ports) == 8 * 18 and {p.crc_per_s for p in ports} == {None}


def test_an_error_of_one_call_is_a_gap_of_that_field(machine):
    node = machine(also="!nvmlDeviceGetVbiosVersion 3 * 999\n!nvmlDeviceGetMemoryInfo 5 * 4").without("nvidia-smi")
    facts = gather(open_live(root=str(node.root), tools=str(node.tools)))
    gaps = [fact.reason for fact in facts if isinstance(fact, Gap) and fact.input == "nvml.json"]
    assert gaps == ["gpu3 vbios: Unknown Error", "gpu5 memory: Insufficient Permissions"]
    gpus = {gpu.id: gpu for gpu in build(facts).gpus}
    assert gpus["gpu3"].firmware is None and gpus["gpu3"].gpu.width == 16
    assert gpus["gpu2"].firmware is not None


def test_what_was_read_before_nvml_hangs_is_not_lost(machine):
    node = machine(also="~nvmlDeviceGetNvLinkState 2 * 60000").without("nvidia-smi")
    report = live(node, budget_s=3)
    assert report.duration_s < 4
    (said,) = [f for f in report.findings if f.severity != "info"]
    assert (said.rule, said.severity) == ("GPU003", "warning")
    assert "nvml.json: no answer within 2 s" in said.message
    gpus = {device.id: device for device in report.devices if device.kind == "gpu"}
    assert gpus["gpu7"].gpu.width == 16
    assert gpus["gpu1"].nvlinks_active == 18
    assert gpus["gpu2"].nvlinks_active is None
    assert report.verdict == "unknown"


def test_a_silent_driver_after_an_xid_of_its_firmware_is_that_xid(machine, tmp_path):
    node = machine("gpu5-xid-119", also="~nvmlInitWithFlags * * 60000")
    for tool in ("nvidia-smi",):
        (node.tools / tool).write_text("#!/bin/sh\nexec sleep 60\n")
    said = [(f.rule, f.severity, f.subjects) for f in live(node, budget_s=2).findings if f.severity != "info"]
    assert said == [("GPU004", "error", ("gpu5",))]


def test_without_a_driver_nothing_is_asked_of_it(machine):
    node = machine()
    (node.root / "proc/driver/nvidia/version").unlink()
    (node.tools / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    report = live(node)
    assert report.duration_s < 5
    assert [(f.rule, f.severity) for f in report.findings if f.severity == "error"] == [("GPU003", "error")]
    assert "the NVIDIA driver is not loaded" in report.findings[0].message


def test_a_timeout_replays_as_the_same_gap(machine, tmp_path):
    node = machine()
    (node.tools / "ibstat").write_text("#!/bin/sh\nexec sleep 60\n")
    recorder = Recorder(open_live(root=str(node.root), tools=str(node.tools), budget_s=1.5))
    first = [f for f in gather(recorder) if isinstance(f, Gap)]
    assert Gap("ibstat", "no answer within 1 s") in first
    with tarfile.open(fileobj=io.BytesIO(recorder.capture(None))) as archive:
        archive.extractall(tmp_path / "replay")
    again = [f for f in gather(open_source(str(tmp_path / "replay"))) if isinstance(f, Gap)]
    assert again == first
