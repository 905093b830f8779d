"""NCCL's and hwloc's XML: the node they describe is the one that was written; hostile documents end quickly."""

from __future__ import annotations

import time

import attachments
import nodes
import pytest

from topocheck.check import check
from topocheck.drawings.nccl_xml import render
from topocheck.facts import Gap, GpuState, NumaNode, PciFunction, RdmaDevice
from topocheck.probes import hwloc_xml, nccl_xml

NODE = "hgx-h100"


def classes(node, pairs):
    return {(a, b): node.pcie_class(a, b) for a, b in pairs}


def gpu_nic_pairs(node):
    return [(g.id, n.id) for g in node.gpus for n in node.nics if n.state == "active"]


@pytest.fixture(scope="module")
def captured():
    return check(str(nodes.healthy(NODE))).topology


def read(tmp_path, text, name="attached.xml"):
    (tmp_path / name).write_text(text)
    return check(str(tmp_path / name))


def test_a_dump_of_nccl_is_the_node_it_was_made_of(tmp_path, captured):
    report, node = read(tmp_path, attachments.nccl_xml(captured))
    assert report.source.kind == "nccl-xml"
    assert [(g.id, g.bdf, g.numa_node, g.nvlinks_active) for g in node.gpus] == [
        (g.id, g.bdf, g.numa_node, g.nvlinks_active) for g in captured.gpus
    ]
    up = [n for n in captured.nics if n.state == "active"]
    assert [(n.id, n.bdf, n.rate_gbit_per_s) for n in node.nics] == [(n.id, n.bdf, n.rate_gbit_per_s) for n in up]
    pairs = gpu_nic_pairs(captured)
    # NCCL does not tell host bridges: what is on one node but another root is PHB there (paths.cc, PATH_PHB).
    expected = {pair: "PHB" if c == "NODE" else c for pair, c in classes(captured, pairs).items()}
    assert classes(node, pairs) == expected
    assert {node.pair_class("gpu0", g.id) for g in node.gpus[1:]} == {"NV18"}
    assert node.assignment == captured.assignment
    assert [n.cpus for n in node.numa_nodes] == [n.cpus for n in captured.numa_nodes]
    assert report.findings == ()


def test_what_we_write_for_nccl_is_read_and_written_the_same(tmp_path, captured):
    written = [render(captured, check(str(nodes.healthy(NODE))).report)]
    for _ in range(2):
        report, node = read(tmp_path, written[-1])
        written.append(render(node, report))
    assert written[0] == written[1] == written[2]
    assert written[0].count("<gpu ") == 8


@pytest.mark.parametrize("written", [attachments.nccl_xml, lambda node: attachments.hwloc_xml(node, "2.0")])
def test_a_document_that_is_cut_accuses_nobody(tmp_path, captured, written):
    """A GPU whose NIC is behind the cut has one all the same."""
    lines = written(captured).splitlines(keepends=True)
    for end in range(4, len(lines), 3):
        report, node = read(tmp_path, "".join(lines[:end]))
        assert [f.message for f in report.findings if f.severity != "info"] == [], lines[end - 1]
        assert any("cut or damaged" in gap.reason for gap in report.gaps)
    assert len(node.gpus) >= 7, "what is whole is read"


def test_a_cut_among_devices_that_hang_on_their_cpu_accuses_nobody(tmp_path):
    """The second CPU's NIC is behind the cut."""

    def pci(bus, vendor, inside):
        return f'<pci busid="0000:{bus}:00.0" class="0x030200" vendor="{vendor}">\n{inside}\n</pci>\n'

    def gpu(number):
        return pci(f"{number + 1}a", "0x10de", f'<gpu dev="{number}" sm="90" rank="{number}" gdr="1"/>')

    def nic(number):
        net = f'<net name="mlx5_{number}" dev="{number}" speed="400000" port="1" guid="0xa1{number}"/>'
        return pci(f"{number + 1}e", "0x15b3", f"<nic>{net}</nic>")

    first = f'<system version="1">\n<cpu numaid="0">\n{gpu(0)}{gpu(1)}{nic(0)}{nic(1)}</cpu>\n'
    report, node = read(tmp_path, f'{first}<cpu numaid="1">\n{gpu(2)}{gpu(3)}')
    assert [f.message for f in report.findings if f.severity != "info"] == []
    assert [g.id for g in node.gpus] == ["gpu0", "gpu1"]
    _, node = read(tmp_path, f'{first}<cpu numaid="1">\n{gpu(2)}{gpu(3)}{nic(2)}</cpu>\n</system>\n')
    assert len(node.gpus) == 4


def test_what_nccl_writes_is_a_maximum_and_never_a_trained_link(tmp_path, captured):
    report, node = read(tmp_path, attachments.nccl_xml(captured))
    nic = node.links[node.by_id["mlx5_0"].bdf]
    assert (nic.width, nic.speed_gts, nic.max_width, nic.max_speed_gts) == (None, None, 16, 32.0)
    assert nic.a_max_width is None, "the bridge's own link goes up, not to the NIC"
    skipped = {s.rule for s in report.skipped if not s.partial}
    assert {"PCI001", "PCI002", "PCI003", "P2P001", "NUM003", "GPU004"} <= skipped
    assert any("lost or down would not be in it" in gap.reason for gap in report.gaps)


@pytest.mark.parametrize("version", ["1", "2.0", "3.0"])
def test_an_export_of_hwloc_is_the_node_it_was_made_of(tmp_path, captured, version):
    report, node = read(tmp_path, attachments.hwloc_xml(captured, version))
    assert report.source.kind == "hwloc-xml"
    assert [(d.id, d.bdf, d.numa_node, d.state) for d in (*node.gpus, *node.nics)] == [
        (d.id, d.bdf, d.numa_node, d.state if d.kind == "nic" else "unknown") for d in (*captured.gpus, *captured.nics)
    ]
    pairs = gpu_nic_pairs(captured)
    assert classes(node, pairs) == classes(captured, pairs)
    assert [(n.id, n.cpus, n.socket) for n in node.numa_nodes] == [
        (n.id, n.cpus, n.socket) for n in captured.numa_nodes
    ]
    assert node.machine.sockets == captured.machine.sockets
    assert not any(link.width for link in node.links.values())
    assert report.findings == ()


def test_a_port_that_is_down_in_hwlocs_words_is_a_finding(tmp_path, captured):
    text = attachments.hwloc_xml(captured)
    at = text.index('name="mlx5_8"')
    text = text[:at] + text[at:].replace('Port1State" value="4"', 'Port1State" value="1"', 1)
    report, _ = read(tmp_path, text)
    (finding,) = report.findings
    assert (finding.rule, finding.subjects) == ("NET001", ("mlx5_8",))
    assert finding.evidence[0].text == '<info name="Port1State" value="1">'
    assert text.splitlines()[finding.evidence[0].line - 1].startswith('<info name="Port1State" value="1"/>')


SYSTEM = '<system version="1"><cpu numaid="{numa}" {more}>{pci}</cpu></system>'
GPU = '<pci busid="0000:{bus}:00.0" class="0x030200" {more}><gpu dev="{dev}" sm="80" {own}/></pci>'


def test_a_gpu_without_a_vendor_is_nvidias_and_one_with_gcn_is_not():
    pci = GPU.format(bus="1b", dev=0, own="", more="") + GPU.format(bus="1c", dev=1, own='gcn="908"', more="")
    facts = list(nccl_xml.parse(SYSTEM.format(numa="-1", more="", pci=pci)))
    assert [f.index for f in facts if isinstance(f, GpuState)] == [0]
    assert [(f.vendor_id, f.numa_node) for f in facts if isinstance(f, PciFunction)] == [("10de", None), (None, None)]
    assert any("not NVIDIA's" in f.reason for f in facts if isinstance(f, Gap))
    assert not any(isinstance(f, NumaNode) for f in facts)


def test_of_several_hosts_only_the_first_is_read():
    cpus = "".join(
        f'<cpu numaid="0" host_hash="0x{host}">{GPU.format(bus=f"1{host}", dev=host, own="", more="")}</cpu>'
        for host in (1, 2)
    )
    facts = list(nccl_xml.parse(f'<system version="1">{cpus}</system>'))
    assert [f.bdf for f in facts if isinstance(f, GpuState)] == ["0000:11:00.0"]
    assert any("2 hosts in one file" in f.reason for f in facts if isinstance(f, Gap))


def test_a_sockets_interface_is_no_nic_and_two_ports_of_one_function_are_two():
    nets = (
        '<net name="eth0" port="0" guid="0x0" speed="10000"/><net name="rdmap79s0-rdm" port="1" guid="0x7" speed="1"/>'
    )
    nets += '<net name="mlx5_1" port="2" guid="0x8" speed="200000"/>'
    pci = f'<pci busid="0000:0c:00.0" class="0x020000"><nic>{nets}</nic></pci>'
    facts = list(nccl_xml.parse(SYSTEM.format(numa="0", more='affinity="0000000f"', pci=pci)))
    assert [(f.name, f.bdf) for f in facts if isinstance(f, RdmaDevice)] == [
        ("rdmap79s0", "0000:0c:00.0"),
        ("mlx5_1", "0000:0c:00.0"),
    ]
    assert [f.cpus for f in facts if isinstance(f, NumaNode)] == ["0-3"]


def test_a_document_that_is_cut_gives_what_stands_before(captured):
    for probe, text in ((nccl_xml, attachments.nccl_xml(captured)), (hwloc_xml, attachments.hwloc_xml(captured))):
        facts = list(probe.parse(text[: len(text) * 2 // 3]))
        assert any("cut or damaged" in f.reason for f in facts if isinstance(f, Gap))
        assert sum(isinstance(f, GpuState) for f in facts) >= 4


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
HOSTILE = {
    "laughs": '<!DOCTYPE system [<!ENTITY l0 "ha">' + LAUGHS + ']><system version="1"><cpu numaid="&l9;"/></system>',
    "external": '<!DOCTYPE system [<!ENTITY x SYSTEM "file:///etc/hosts">]><system version="1"><cpu>&x;</cpu></system>',
    "deep": '<system version="1">' + "<cpu>" * 100_000,
    "many": '<system version="1">' + "<cpu/>" * 200_000 + "</system>",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("probe", [nccl_xml, hwloc_xml])
def test_hostile_documents_are_refused_quickly(probe, name):
    text = HOSTILE[name]
    if probe is hwloc_xml:
        text = text.replace("system", "topology").replace("cpu", "object")
    started = time.process_time()
    facts = list(probe.parse(text))
    assert time.process_time() - started < 2
    assert all(isinstance(fact, Gap) for fact in facts)
    assert any("not read" in fact.reason for fact in facts)
