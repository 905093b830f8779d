"""`topocheck graph`: everything is in the picture, nothing overlaps, and no capture can write markup."""

import json
import re
import subprocess
import time
import xml.etree.ElementTree as ET

import networkx as nx
import nodes
import pictures
import pytest

from topocheck.check import check
from topocheck.cli import run
from topocheck.drawings import svg

FORMATS = ("tree", "dot", "svg", "graphml", "json", "nccl-xml")
NODES = nodes.names()


def drawn(capsys, source, format_):
    assert run(["graph", "--from", str(source), "--format", format_]) == 0
    return capsys.readouterr().out


@pytest.fixture
def box(tmp_path):
    file = tmp_path / "nccl-topo.xml"
    file.write_text(pictures.big_box())
    return file


@pytest.mark.parametrize("node", NODES)
def test_every_device_is_in_the_picture_and_nothing_overlaps(node, capsys):
    text = drawn(capsys, nodes.healthy(node), "svg")
    devices = pictures.rectangles(text, "data-device")
    wanted = {d.id for d in check(str(nodes.healthy(node))).topology.devices if d.kind in ("gpu", "nic")}
    assert {box.name for box in devices} == wanted
    assert len(devices) == len(wanted)
    assert pictures.clashes(devices) == []
    parts = pictures.rectangles(text, "data-part")
    for box in devices:
        for part in parts:
            assert part.holds(box) or not part.overlaps(box), (part, box)
    for a, b in pictures.combinations(parts, 2):
        assert not a.overlaps(b) or a.holds(b) or b.holds(a), (a, b)


@pytest.mark.parametrize("node", [*NODES, "box"])
def test_words_stay_in_their_boxes(node, box, capsys):
    """Text of a device, counted wide at 6.6 pixels a letter (bold 12 px: 7.6), ends within its box."""
    text = drawn(capsys, box if node == "box" else nodes.healthy(node), "svg")
    for group in ET.fromstring(text).iter(f"{pictures.SVG}g"):
        if group.get("data-device") is None:
            continue
        frame = group.find(f"{pictures.SVG}rect")
        right = float(frame.get("x")) + float(frame.get("width"))
        for words in group.findall(f"{pictures.SVG}text"):
            wide = 7.6 if "name" in words.get("class") else 6.1
            assert float(words.get("x")) + wide * len(words.text) <= right + 8, words.text


def test_a_box_of_16_gpus_and_34_nics_is_drawn_in_under_a_second(box):
    checked = check(str(box))
    assert (len(checked.topology.gpus), len(checked.topology.nics)) == (16, 34)
    started = time.process_time()
    text = svg.render(*reversed(checked))
    assert time.process_time() - started < 1.0
    devices = pictures.rectangles(text, "data-device")
    assert len(devices) == 50
    assert pictures.clashes(devices) == []


def test_a_fault_is_red_where_it_sits_and_its_link_is_thinner(faulty, capsys):
    root = ET.fromstring(drawn(capsys, faulty("mlx5_3-x8"), "svg"))
    red = [
        group
        for group in root.iter(f"{pictures.SVG}g")
        if group.find(f"{pictures.SVG}rect[@class='nic error']") is not None
    ]
    assert [group.get("data-device") for group in red] == ["mlx5_3"]
    assert "x PCI001" in [words.text for words in red[0].findall(f"{pictures.SVG}text")]
    widths = {
        line.get("class"): float(line.get("stroke-width"))
        for line in root.iter(f"{pictures.SVG}line")
        if line.get("stroke-width")
    }
    # thickness is 1.3 × √(GB/s): 26.9 and 53.8
    assert widths["error"] == pytest.approx(1.3 * 26.9**0.5, abs=0.1)
    assert widths[None] == pytest.approx(1.3 * 53.8**0.5, abs=0.1)
    assert any("mlx5_3 runs PCIe 5.0 x8" in (title.text or "") for title in root.iter(f"{pictures.SVG}title"))


def test_a_missing_nvlink_is_red_in_the_crossbar(faulty, capsys):
    text = drawn(capsys, faulty("gpu2-one-nvlink"), "svg")
    assert re.findall(r">(\d+/18(?: x)?)<", text) == ["18/18", "18/18", "17/18 x", *["18/18"] * 5]


def test_the_tree_shows_links_and_faults_in_place(faulty, capsys):
    lines = drawn(capsys, faulty("mlx5_3-x8"), "tree").splitlines()
    place = next(i for i, line in enumerate(lines) if "─ mlx5_3 " in line)
    assert "x PCI001" in lines[place]
    assert "PCIe switch 5a:00.0" in lines[place - 2]
    assert "gpu3" in lines[place - 1]
    assert "NVLink 18/18" in lines[place - 1]
    assert sum("PCIe switch" in line for line in lines) == 8
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("node", NODES)
def test_graphml_and_json_are_the_graph(node, capsys):
    wanted = check(str(nodes.healthy(node))).topology.graph
    document = json.loads(drawn(capsys, nodes.healthy(node), "json"))
    assert {entry["id"] for entry in document["nodes"]} == set(wanted)
    assert len(document["edges"]) == wanted.number_of_edges()
    read = nx.parse_graphml(drawn(capsys, nodes.healthy(node), "graphml"), force_multigraph=True)
    assert set(read) == set(wanted)
    assert sorted(map(sorted, read.edges())) == sorted(map(sorted, wanted.edges()))
    gen5 = [e for e in document["edges"] if e["capacity_gb_per_s"] == 53.8]
    assert all(edge["line_rate_gb_per_s"] == 63.0 for edge in gen5)


def alike(a, b):
    """What an NCCL file says of a node, of two nodes."""
    for node in (a, b):
        links = {k: (x.can_speed_gts or x.max_speed_gts, x.can_width or x.max_width) for k, x in node.links.items()}
        yield (
            [(d.id, d.kind, d.bdf, d.numa_node, d.rate_gbit_per_s, d.nvlinks_active) for d in node.devices],
            {k: v for k, v in links.items() if any(v)},
            dict(node.parents),
            dict(node.classes),
            [(n.id, n.cpus) for n in node.numa_nodes],
        )


def test_an_nccl_file_exported_and_read_again_is_the_same_graph(box, tmp_path, capsys):
    first = drawn(capsys, box, "nccl-xml")
    again = tmp_path / "again" / "nccl-topo.xml"
    again.parent.mkdir()
    again.write_text(first)
    before, after = alike(check(str(box)).topology, check(str(again)).topology)
    assert before == after
    assert drawn(capsys, again, "nccl-xml") == first


def test_the_nccl_file_has_the_links_as_they_run_and_what_nccl_reads(faulty, capsys):
    text = drawn(capsys, faulty("mlx5_3-x8"), "nccl-xml")
    assert text.startswith('<system version="1">\n  <')  # NCCL looks no further than that
    root = ET.fromstring(text)
    assert [cpu.get("numaid") for cpu in root.findall("cpu")] == ["0", "1"]
    # CPUs 0-55 and 112-167: 24 + 32 of the first two groups, 16 + 32 + 8 from bit 112 on
    assert root.find("cpu").get("affinity") == "000000ff,ffffffff,ffff0000,00000000,00ffffff,ffffffff"
    slow = root.find(".//pci[@busid='0000:5e:00.0']")
    assert (slow.get("link_speed"), slow.get("link_width")) == ("32.0 GT/s PCIe", "8")
    assert root.find(".//pci[@busid='0000:1a:00.0']").get("link_width") == "16"
    assert {gpu.get("dev") for gpu in root.iter("gpu")} == {str(i) for i in range(8)}
    assert all(sum(int(link.get("count")) for link in gpu.findall("nvlink")) == 18 for gpu in root.iter("gpu"))
    assert {net.get("name"): net.get("speed") for net in root.iter("net")}["mlx5_3"] == "400000"
    assert all(
        len(value) < 256 and len(element.attrib) <= 16 for element in root.iter() for value in element.attrib.values()
    )
    for pci in root.iter("pci"):  # one element a switch: two steps in sysfs
        assert pci.get("class") != "0x060400" or all(below.get("class") != "0x060400" for below in pci.findall("pci"))


def test_without_addresses_of_switches_there_is_no_nccl_file(tmp_path, capsys):
    matrix = nodes.healthy("hgx-h100") / "nvidia-smi_topo_-m"
    assert run(["graph", "--from", str(matrix), "--format", "nccl-xml"]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "PCI address" in seen.err
    assert len(pictures.rectangles(drawn(capsys, matrix, "svg"), "data-device")) == 18


@pytest.mark.parametrize("payload", pictures.PAYLOADS)
def test_hostile_words_are_words_in_every_format(tmp_path, payload, capsys):
    capture = pictures.hostile(tmp_path, payload)
    seen = {format_: drawn(capsys, capture, format_) for format_ in FORMATS}
    for format_ in ("svg", "graphml", "nccl-xml"):
        tags = {element.tag.split("}")[-1] for element in ET.fromstring(seen[format_]).iter()}
        assert not tags & {"script", "img", "b", "foreignObject"}, format_
        assert not [a for e in ET.fromstring(seen[format_]).iter() for a in e.attrib if a.startswith("on")]
    assert all("\x1b" not in text for text in seen.values())
    json.loads(seen["json"])
    strings = re.sub(r'"(?:[^"\\]|\\.)*"', "S", seen["dot"])
    assert re.fullmatch(r"[\w\s{}\[\]=,;.-]*", strings)
    assert "owned" not in strings


@pytest.mark.real("graphviz", program="dot")
@pytest.mark.parametrize("payload", ["", *pictures.PAYLOADS])
def test_graphviz_reads_the_graph_as_it_is(tmp_path, payload, capsys):
    source = pictures.hostile(tmp_path, payload) if payload else nodes.healthy("hgx-h100")
    text = drawn(capsys, source, "dot")
    seen = subprocess.run(["dot", "-Tplain"], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (seen.returncode, seen.stderr) == (0, "")
    graph = check(str(source)).topology.graph
    kinds = [line.split()[0] for line in seen.stdout.splitlines()]
    assert kinds.count("node") == graph.number_of_nodes()
    assert kinds.count("edge") == graph.number_of_edges()


@pytest.mark.parametrize("format_", FORMATS)
def test_a_node_without_a_gpu_or_nearly_empty_is_drawn_or_refused(tmp_path, format_, capsys):
    file = tmp_path / "lspci_-D_-nn_-vv"
    file.write_text(
        "0000:01:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]\n"
    )
    code = run(["graph", "--from", str(file), "--format", format_])
    assert code == (2 if format_ == "nccl-xml" else 0)
