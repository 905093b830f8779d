"""A simulated 8×H100 node read as live: all tools and files say what the texts say, and so do sysfs and NVML alone.

The node, its faults, the tools' outputs and the `/sys` with binary config space are of tests/nodesim.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from livenode import livenode, set_environ
from nodesim import place
from nodesim.capture import capture
from nodesim.faults import changing, relinked
from nodesim.shapes import Shape, build
from nodesim.spec import Gpu, Nic, Port, Switch
from nodesim.sysfs import sysfs

from topocheck.check import check
from topocheck.cli import run
from topocheck.formats import json as as_json

pytestmark = pytest.mark.real("gcc")

SHAPE = Shape(gpu="h100", groups=4, per_group=2, switched=True, nested="", nics="own", nic="cx7-ndr", each=1,
              second_port="down", storage="cx6-hdr", storage_count=2, sockets=2, numa_per_socket=1, cpu="intel",
              slot_gen=5, nic_slot_gen=5, asleep=False, bridged=False, pooled=False, mig=False)  # fmt: skip
NODE = build(SHAPE)
GPUS = [gpu.uid for gpu in NODE.gpus]
NICS = [nic.uid for nic in NODE.nics if nic.intent == "compute"]
SWITCH = NODE.switches[0].uid
FAULTS = {
    "GPU x8": (relinked(GPUS[2], now_width=8), "PCI001"),
    "GPU at 16 GT/s": (relinked(GPUS[3], now_gen=4), "PCI002"),
    "NIC x8": (relinked(NICS[5], now_width=8), "PCI001"),
    "slot of Gen4": (relinked(NICS[1], port_gen=4), "PCI003"),
    "port polling": (changing(NICS[4], ports=(Port("down", "polling"),)), "NET001"),
    "port at 200": (changing(NICS[4], ports=(Port(rate=200),)), "NET002"),
    "relaxed ordering off": (changing(NICS[6], relaxed=False), "PCI009"),
    "ACS redirect": (changing(SWITCH, acs=True), "P2P002"),
    "payload 128": (relinked(NICS[7], payload=128), "PCI006"),
    "another firmware": (changing(NICS[2], firmware="28.36.1010"), "NET006"),
    "on nouveau": (changing(GPUS[0], driver="nouveau"), "GPU003"),
    "NVLinks down": (changing(GPUS[1], links_down=frozenset({3, 4})), "NVL001"),
    "fabric not ready": (changing(GPUS[5], fabric=("In Progress", "N/A")), "NVL005"),
    "remapping failed": (changing(GPUS[6], remap_failed=True), "GPU005"),
    "wants a reset": (changing(GPUS[7], recovery_action="GPU Reset"), "GPU004"),
}
NEEDS_ROOT = ("PCI006", "PCI009", "P2P002")


def machine(tmp_path, monkeypatch, change=lambda node: node):
    layout = place(change(NODE))
    folder = capture(layout, tmp_path / "node")
    texts = capture(layout, tmp_path / "texts")
    sysfs(layout, folder)
    node = livenode(folder, tmp_path)
    set_environ(monkeypatch, node)
    return node, texts


def told(report, least=("error", "warning", "info")):
    return sorted((f.rule, f.severity, f.subjects) for f in report.findings if f.severity in least)


def live(node):
    return check(None, root=str(node.root), tools=str(node.tools)).report


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_texts_and_live_and_replay_say_the_same(tmp_path, monkeypatch, fault):
    change, rule = FAULTS[fault] if fault else (lambda node: node, None)
    node, texts = machine(tmp_path, monkeypatch, change)
    by_text = told(check(str(texts)).report)
    assert ({entry[0] for entry in by_text if entry[1] != "info"} | {rule}) - {rule} == set()
    assert rule is None or rule in {entry[0] for entry in by_text}
    assert told(live(node)) == by_text
    for option in (), ("--include-identifiers",):
        file = str(tmp_path / f"c{len(option)}.tar.gz")
        assert run(["capture", "--root", str(node.root), "--tools", str(node.tools), "--output", file, *option]) == 0
        assert told(check(file).report) == by_text


@pytest.mark.parametrize("tools", [True, False])
def test_a_capture_of_all_files_replays_to_the_same_json(tmp_path, monkeypatch, tools):
    """All but the time and the source, whether the tools speak or the files alone."""
    node, _ = machine(tmp_path, monkeypatch, FAULTS["NIC x8"][0])
    for tool in () if tools else node.tools.iterdir():
        tool.unlink()
    file = str(tmp_path / "c.tar.gz")
    options = ["--root", str(node.root), "--tools", str(node.tools), "--output", file, "--include-identifiers"]
    assert run(["capture", *options]) == 0
    said = [json.loads(as_json.render(report)) for report in (live(node), check(file).report)]
    for key in ("time", "duration_s", "source"):
        assert [document.pop(key) for document in said]
    assert said[0] == said[1]
    assert [finding["rule"] for finding in said[0]["findings"]].count("PCI001") == 1


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_files_and_nvml_alone_say_the_same(tmp_path, monkeypatch, fault):
    """No lspci, no nvidia-smi, no RDMA tool: sysfs and NVML are other witnesses of the same."""
    node, texts = machine(tmp_path, monkeypatch, FAULTS[fault][0] if fault else lambda node: node)
    by_text = told(check(str(texts)).report)
    for tool in node.tools.iterdir():
        tool.unlink()
    assert told(live(node)) == by_text


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_without_root_what_is_not_seen_is_skipped_and_named(tmp_path, monkeypatch, fault):
    """A plain user's config space ends at 64 bytes, and lspci prints no capabilities."""
    node, texts = machine(tmp_path, monkeypatch, FAULTS[fault][0] if fault else lambda node: node)
    by_text = told(check(str(texts)).report)
    for file in Path(node.root).glob("sys/devices/pci*/**/config"):
        os.truncate(file, 64)
    node.without("lspci")
    report = live(node)
    unseen = {skip.rule for skip in report.skipped if "as root" in skip.reason}
    assert told(report) == [entry for entry in by_text if entry[0] not in NEEDS_ROOT]
    assert set(NEEDS_ROOT) <= unseen


def test_a_numa_node_unlike_the_local_cpus(tmp_path, monkeypatch):
    """Somebody wrote another node into numa_node of everything below a host bridge."""
    node, _ = machine(tmp_path, monkeypatch)
    nic = next(device for device in live(node).devices if device.kind == "nic" and device.numa_node == 1)
    place = (node.root / "sys/bus/pci/devices" / nic.bdf).resolve()
    root = next(parent for parent in place.parents if parent.name.startswith("pci0"))
    for file in root.rglob("numa_node"):
        file.write_text("0\n")
    for tool in node.tools.iterdir():
        tool.unlink()
    (said,) = [f for f in live(node).findings if f.rule == "NUM002" and f.subjects == (nic.id,)]
    assert said.message == f"{nic.id}'s NUMA node is 0, but its local CPUs are those of node 1"
    assert said.evidence[0].input == f"/sys/bus/pci/devices/{nic.bdf}/local_cpulist"


def test_a_gpu_off_the_bus(tmp_path, monkeypatch):
    """Its config space reads as ones, and NVML cannot open it: one loss, whoever tells it."""
    layout = place(changing(GPUS[4], lost=True)(NODE))
    folder = sysfs(layout, capture(layout, tmp_path / "node"))
    texts = capture(layout, tmp_path / "texts")
    healthy = capture(place(NODE), tmp_path / "healthy")
    node = livenode(folder, tmp_path, nvml=healthy, also="!nvmlDeviceGetHandleByIndex_v2 4 * 15")
    set_environ(monkeypatch, node)
    (by_text,) = [entry for entry in told(check(str(texts)).report) if entry[1] == "error"]
    for report in live(node), live(node.without("nvidia-smi")), live(node.without("lspci")):
        assert [entry for entry in told(report) if entry[1] == "error"] == [by_text]
    assert by_text == ("GPU001", "error", ("gpu4",))


def kinds(node):
    return {child.uid: type(child) for _, _, child in node.parts() if isinstance(child, Gpu | Nic | Switch)}


def test_the_faults_change_what_they_say():
    assert kinds(NODE) and all(
        replace(change(NODE), host="x") != replace(NODE, host="x") for change, _ in FAULTS.values()
    )
