"""`topocheck capture`: identifiers are replaced and relations stay; what was written is read again."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import nodes
import pytest
from livenode import livenode, set_environ, write_tool
from test_probe_sysfs_pci import config_space

from topocheck.check import check
from topocheck.cli import run
from topocheck.sources.scrub import Scrubber

NODE = "hgx-h100"
TEXT = """\
gpu017 kernel: mlx5_core 0000:1a:00.0: mlx5_3: gpu017.dc1.example.org joined 10.20.30.41/26, gateway 10.20.30.1.
ether b8:3f:d2:12:34:56 brd ff:ff:ff:ff:ff:ff  Node GUID: 0xb83fd20300123456  port b83f:d203:0012:3457
Device Serial Number b8-3f-d2-03-00-12-34-56  GID fe80:0000:0000:0000:b83f:d203:0012:3456
v2 GID 0000:0000:0000:0000:0000:ffff:0a14:1e29  inet6 fe80::ba3f:d2ff:fe12:3456  2001:db8:1:2:3::77
GPU-11112222-3333-4444-5555-666677778888 Serial Number : 1654922000123  [SN] Serial number: MT2233X12345
[VU] Vendor specific: MT2233X12345MLNXS0D0F0  BOOT_IMAGE=/home/alice/vmlinuz
root=UUID=11112222-3333-4444-5555-666677778888
(buildd@lcy02-amd64-010)
"""
KEPT = """\
driver 580.95.05, firmware 28.39.1002, VBIOS 96.00.74.00.01, 0000:1b:00.0, 00000000:1B:00.0, pci0000:15, 127.0.0.1
usb usb1: SerialNumber: 0000:00:14.0  Serial: 8250/16550 driver, 32 ports  Serial bus controller [0c80]: Intel
0x00000000fb000000 0x00000000fb0fffff 0x0000000000040200  0xffffffffc0a8e000  255.255.255.0  169.254.1.2
NUMA node0 CPU(s): 0-55,112-167   10de:2330  15b3:1021  LnkSta: Speed 32GT/s, Width x16  mlx5_0 node 12:34:56
"""


def scrubber(text=TEXT, hosts=("gpu017",), key=b"k" * 32):
    made = Scrubber(key, hosts)
    made.learn(text)
    return made


def test_no_identifier_is_left():
    text = scrubber().text(TEXT)
    for word in ("gpu017", "example.org", "10.20.30", "12:34:56", "123456", "12-34-56", "0012:3457", "0a14:1e29"):
        assert word not in text
    for word in ("11112222", "1654922000123", "MT2233X12345", "alice", "buildd", "lcy02", "2001:db8", "fe12:3456"):
        assert word not in text


def test_what_is_no_identifier_is_left_alone():
    assert scrubber(KEPT, ["node0", "gpu0", "NUMA", "x16"]).text(KEPT) == KEPT


def test_relations_hold():
    text = scrubber().text(TEXT)
    card = re.search(r"0xb83fd20300([0-9a-f]{6})", text)[1]
    pairs = [card[i : i + 2] for i in (0, 2, 4)]
    assert f"ether b8:3f:d2:{':'.join(pairs)} brd ff:ff:ff:ff:ff:ff" in text, "one card's MAC and GUID stay one card's"
    assert f"b8-3f-d2-03-00-{'-'.join(pairs)}" in text
    assert f"fe80:0000:0000:0000:b83f:d203:00{card[:2]}:{card[2:]}" in text
    host, gateway = (re.findall(r"\d+\.\d+\.\d+\.\d+", text)[i] for i in (0, 1))
    assert host.split(".")[:3] == gateway.split(".")[:3] and host != gateway, "hosts of one subnet stay so"
    mapped = re.search(r"ffff:([0-9a-f]{4}):([0-9a-f]{4})", text)
    assert ".".join(str(int(part, 16)) for word in mapped.groups() for part in (word[:2], word[2:])) == host
    uuids = re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", text)
    assert len(uuids) == 2 and uuids[0] == uuids[1]
    serial = re.search(r"\[SN\] Serial number: (\w+)", text)[1]
    assert f"[VU] Vendor specific: {serial}MLNXS0D0F0" in text
    names = re.findall(r"\bhost\d+", text)
    assert names[0] == names[1] != names[2], "the short name and the full one are one host's"


def test_every_capture_has_names_of_its_own():
    assert scrubber(key=b"a" * 32).text(TEXT) != scrubber(key=b"b" * 32).text(TEXT)


def test_the_serial_number_in_config_space_is_that_of_the_text():
    config = config_space()
    made = scrubber().data("/sys/bus/pci/devices/0000:1a:00.0/config", config)
    (serial,) = struct.unpack_from("<Q", made, 0x154)
    assert made[:0x154] == config[:0x154] and made[0x15C:] == config[0x15C:]
    assert serial.to_bytes(8, "big").hex("-") == scrubber().text("11-22-33-44-55-66-77-88")
    assert scrubber().data("/x/config", config[:64]) == config[:64]


def test_asset_tags_go_but_not_those_by_which_clouds_are_known():
    tag = "sys/class/dmi/id/chassis_asset_tag"
    assert scrubber().data(tag, b"RACK-12345\n") != b"RACK-12345\n"
    for cloud in (b"Amazon EC2\n", b"7783-7084-3265-9085-8269-3286-77\n", b"OracleCloud.com\n"):
        assert scrubber().data(tag, cloud) == cloud


@pytest.fixture
def machine(tmp_path, monkeypatch):
    node = livenode(nodes.healthy(NODE), tmp_path)
    set_environ(monkeypatch, node)
    monkeypatch.setenv("NCCL_IB_HCA", "mlx5_0")
    monkeypatch.setenv("SECRET_TOKEN", "do-not-tell")
    monkeypatch.chdir(tmp_path)
    return node


def captured(node, *options):
    return run(["capture", "--root", str(node.root), "--tools", str(node.tools), *options])


def contents(file):
    with tarfile.open(file) as archive:
        assert all(entry.isfile() for entry in archive)
        return {entry.name: archive.extractfile(entry).read() for entry in archive}


@pytest.mark.real("gcc")
def test_a_capture_says_what_the_live_node_says(machine, capsys):
    assert captured(machine, "--output", "c.tar.gz") == 0
    out, err = capsys.readouterr()
    assert out.startswith("c.tar.gz: ") and not err
    live = check(None, root=str(machine.root), tools=str(machine.tools)).report
    again = check("c.tar.gz").report
    assert [(f.rule, f.subjects) for f in again.findings] == [(f.rule, f.subjects) for f in live.findings]
    assert [(d.id, d.bdf, d.numa_node) for d in again.devices] == [(d.id, d.bdf, d.numa_node) for d in live.devices]
    assert again.source.kind == "archive" and again.privileged == live.privileged
    guids = {port.guid for d in again.devices for port in d.ports if port.guid}
    own = {port.guid for d in live.devices for port in d.ports if port.guid}
    assert len(guids) == len(own) and not guids & own


@pytest.mark.real("gcc")
def test_the_manifest_says_what_was_read_what_not_and_what_was_replaced(machine):
    assert captured(machine, "--output", "c.tar.gz") == 0
    files = contents("c.tar.gz")
    manifest = json.loads(files["manifest.json"])
    assert manifest["schema"] == "topocheck.capture/1"
    by_input = {entry["input"]: entry for entry in manifest["inputs"]}
    assert by_input["nvidia-smi topo -m"] == {
        "input": "nvidia-smi topo -m",
        "file": "nvidia-smi_topo_-m",
        "exit_code": 0,
        "stderr": "",
        "gap": None,
    }
    assert by_input["fi_info -p efa"]["gap"] == "fi_info is not installed"
    assert by_input["nvidia-smi topo -p2p n"]["exit_code"] == 2
    assert json.loads(files["environ.json"]) == {"NCCL_IB_HCA": "mlx5_0"}
    assert any(kind.startswith("UUIDs (") for kind in manifest["scrubbed"])
    assert not any(b"do-not-tell" in data for data in files.values())
    uuid = re.search(r"GPU-[0-9a-f-]{36}", (machine.root / "nvidia-smi_-L").read_text())[0].encode()
    assert not any(uuid in data for data in files.values())


@pytest.mark.real("gcc")
def test_identifiers_are_kept_where_asked(machine):
    assert captured(machine, "--include-identifiers", "--output", "c.tar.gz") == 0
    files = contents("c.tar.gz")
    assert json.loads(files["manifest.json"])["scrubbed"] == []
    assert files["nvidia-smi_-L"] == (machine.root / "nvidia-smi_-L").read_bytes()


@pytest.mark.real("gcc")
def test_a_node_that_cannot_be_judged_is_captured_all_the_same(machine, monkeypatch):
    for file in machine.tools.iterdir():
        write_tool(machine.tools, file.name, "#!/bin/sh\necho '%PDF-1.4 \\001\\377 what is this'; exit 7\n")
    assert captured(machine, "--output", "c.tar.gz") == 0
    entries = json.loads(contents("c.tar.gz")["manifest.json"])["inputs"]
    assert next(e for e in entries if e["input"] == "ibstat")["exit_code"] == 7


def test_a_capture_that_cannot_be_written_is_one_line_and_exit_2(machine, capsys):
    assert captured(machine, "--output", "/nowhere/c.tar.gz") == 2
    assert capsys.readouterr().err == (
        "topocheck: /nowhere/c.tar.gz: cannot be written: No such file or directory: give --output FILE\n"
    )


def test_on_a_terminal_it_shows_how_far_it_is(machine, tmp_path):
    import pty

    ours, theirs = pty.openpty()
    code = "import sys; from topocheck.cli import run; sys.exit(run(sys.argv[1:]))"
    line = [sys.executable, "-c", code, "capture", "--root", str(machine.root), "--tools", str(machine.tools)]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TERM": "xterm"}
    with subprocess.Popen(line, stderr=theirs, stdout=subprocess.PIPE, env=environ, cwd=tmp_path) as child:
        child.stdout.read()
    assert child.returncode == 0
    os.close(theirs)
    shown = b""
    while chunk := _read(ours):
        shown += chunk
    assert b"reading" in shown and b"100%" in shown
    (made,) = tmp_path.glob("topocheck-capture-*Z.tar.gz")
    assert made.stat().st_mode & 0o777 == 0o600


def _read(fd):
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""
