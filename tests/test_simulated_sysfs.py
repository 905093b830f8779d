"""Our reading of a simulated /sys against what real lspci and real lstopo read of the same tree."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import fields
from pathlib import Path

import pytest
from nodesim import Layout, Numbering, place, sysfs
from nodesim.faults import changing, relinked
from nodesim.shapes import Shape, build
from nodesim.spec import Node

from topocheck.build import build as built
from topocheck.facts import PciFunction, full_bdf
from topocheck.graph import Topology
from topocheck.probes import lspci
from topocheck.probes.gather import gather
from topocheck.sources.open import open_source

_BOARD = Shape(gpu="h100", groups=4, per_group=2, switched=True, nested="nics", nics="own", nic="cx7-ndr", each=1,
               second_port="active", storage="cx6dx", storage_count=2, sockets=2, numa_per_socket=1, cpu="intel",
               slot_gen=5, nic_slot_gen=5, asleep=False, bridged=False, pooled=False, mig=False)  # fmt: skip
_CARDS = Shape(gpu="l40s", groups=4, per_group=1, switched=False, nested="", nics="cpu", nic="cx6dx", each=1,
               second_port="down", storage="cx4lx", storage_count=1, sockets=2, numa_per_socket=2, cpu="amd",
               slot_gen=4, nic_slot_gen=4, asleep=True, bridged=False, pooled=True, mig=False)  # fmt: skip


def _ill_board() -> Node:
    node = build(_BOARD)
    for change in (relinked("g1", now_width=8), relinked("n2", now_gen=4), relinked("s0", target_gen=4),
                   changing("s2", acs=True), changing("g3", relaxed=False, bars=False), changing("n3", numa=-1),
                   changing("g5", lost=True), changing("n1", driver=None)):  # fmt: skip
        node = change(node)
    return node


LAYOUTS = {
    "board": place(build(_BOARD)),
    "ill board": place(_ill_board()),
    "cards": place(build(_CARDS), Numbering(domains="each", first_domain=0)),
    "cards in a wide domain": place(build(_CARDS), Numbering(domains="each", first_domain=0x10000)),
}
# What only one of the two can know: the names, the tree behind the bus numbers, the node -1 that lspci leaves out, what
# lspci cannot tell of a card without driver, and the lines themselves. NVIDIA's BAR1 needs sizes that lspci takes from
# the resource file.
_OWN = {"witness", "lines", "name", "parent", "root", "numa_unknown", "driver_shown", "aer",
        "bar1_bytes", "iommu_type", "access_denied", "link_unknown"}  # fmt: skip
COMPARED = [field.name for field in fields(PciFunction) if field.name not in _OWN]


@pytest.fixture(params=LAYOUTS, ids=lambda name: name.replace(" ", "-"))
def simulated(request, tmp_path) -> tuple[Layout, Path]:
    layout = LAYOUTS[request.param]
    return layout, sysfs(layout, tmp_path / "root")


def _ours(root: Path) -> Topology:
    return built(gather(open_source(str(root))))


def _real_lspci(root: Path) -> str:
    command = ["lspci", "-A", "linux-sysfs", "-O", f"sysfs.path={root}/sys/bus/pci", "-D", "-nn", "-vv"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_tree_reads_as_the_node_was_described(simulated):
    layout, root = simulated
    node = _ours(root)
    assert set(node.functions) == {f.bdf for f in layout.functions}
    for f in layout.functions:
        above = [at for at in node.climb(f.bdf) if not at.startswith("root:")]
        assert above == [x.bdf for x in layout.chain(f)]
    assert {n.id: n.bdf for n in node.nics if not n.id[:1].isdigit()} == {n.name: n.function.bdf for n in layout.nics}
    assert [(n.id, n.socket) for n in node.numa_nodes] == [
        (k, layout.node.socket_of(k)) for k in layout.node.numa_nodes
    ]


@pytest.mark.real("pciutils", program="lspci")
def test_we_read_what_real_lspci_reads(simulated):
    _, root = simulated
    text = _real_lspci(root)
    theirs = {f.bdf: f for f in lspci.parse(text) if isinstance(f, PciFunction)}
    ours = _ours(root).functions
    assert set(ours) == set(theirs) and len(ours) > 10
    differ = {
        (bdf, name): (getattr(ours[bdf], name), getattr(theirs[bdf], name))
        for bdf in ours
        for name in COMPARED
        if getattr(theirs[bdf], name) is not None and getattr(ours[bdf], name) != getattr(theirs[bdf], name)
    }
    assert differ == {}
    read = [name for name in COMPARED if any(getattr(f, name) for f in theirs.values())]
    assert {"speed_gts", "width", "max_speed_gts", "target_speed_gts", "payload_bytes", "port_type", "numa_node",
            "driver", "secondary_bus", "serial", "subsystem"} <= set(read)  # fmt: skip


@pytest.mark.real("pciutils", program="lspci")
def test_links_and_tree_are_those_of_real_lspci(simulated, tmp_path):
    _, root = simulated
    (tmp_path / "lspci_-D_-nn_-vv").write_text(_real_lspci(root))
    by_text, by_tree = built(gather(open_source(str(tmp_path / "lspci_-D_-nn_-vv")))), _ours(root)
    assert by_text.parents == by_tree.parents
    told = [
        {
            bdf: (x.a, x.speed_gts, x.width, x.can_speed_gts, x.can_width, x.target_speed_gts)
            for bdf, x in node.links.items()
        }
        for node in (by_text, by_tree)
    ]
    assert told[0] == told[1]


def _lstopo(root: Path) -> ET.Element:
    environment = {**os.environ, "HWLOC_FSROOT": str(root), "HWLOC_COMPONENTS": "linux,stop", "HWLOC_THISSYSTEM": "0"}
    command = ["lstopo", "--whole-io", "--of", "xml"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return ET.fromstring(done.stdout)


def _walk(element: ET.Element, above: tuple[ET.Element, ...] = ()):
    for child in element.findall("object"):
        yield child, above
        yield from _walk(child, (*above, child))


@pytest.mark.real("hwloc-nox", program="lstopo")
def test_the_tree_is_that_of_real_lstopo(simulated):
    _, root = simulated
    node = _ours(root)
    chains, places = {}, {}
    for element, above in _walk(_lstopo(root)):
        if bdf := full_bdf(element.get("pci_busid", "")):
            chains[bdf] = [bdf, *(b for x in reversed(above) if (b := full_bdf(x.get("pci_busid", ""))))]
            places[bdf] = next(x.get("nodeset") for x in reversed(above) if x.get("nodeset"))
    if not chains:  # hwloc leaves domains of more than 16 bits out, unless it was built for them
        assert all(len(bdf.split(":")[0]) > 4 for bdf in node.functions)
        return
    devices = [d for d in (*node.gpus, *node.nics) if d.bdf in chains]
    assert len(devices) >= len(node.gpus) - 1  # a dead function has no class to be listed by
    for device in devices:
        assert chains[device.bdf] == [at for at in node.climb(device.bdf) if not at.startswith("root:")]
        if device.numa_node is not None:
            assert int(places[device.bdf], 16) == 1 << device.numa_node
