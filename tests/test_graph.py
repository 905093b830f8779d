"""The Python door: what `check(…).topology.graph` shows (interface section 6)."""

import networkx as nx
import nodes
import pytest

from topocheck.check import check

NODE_KINDS = {"gpu", "nic", "bridge", "root", "numa", "socket", "nvswitch", "host"}
EDGE_KINDS = {"pcie", "nvlink", "c2c", "memory", "socket"}
EDGE_KEYS = {"kind", "line_rate_gb_per_s", "capacity_gb_per_s", "witness", "inferred"}

MATRIX = """\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV4\tPIX\tSYS\t0-15\t0\t\tN/A
GPU1\tNV4\t X \tSYS\tPXB\t16-31\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tPXB\tSYS\t X \t\t\t\t
"""


def graph_of(path):
    return check(str(path)).topology.graph


@pytest.mark.parametrize("name", nodes.names())
def test_every_node_has_a_kind_and_every_edge_its_attributes_and_witness(name):
    graph = graph_of(nodes.healthy(name))
    assert isinstance(graph, nx.MultiGraph)
    assert {data["kind"] for _, data in graph.nodes(data=True)} <= NODE_KINDS
    for _, _, data in graph.edges(data=True):
        assert data.keys() >= EDGE_KEYS
        assert data["kind"] in EDGE_KINDS
        assert data["witness"]
        assert not data["inferred"]
    assert nx.is_connected(graph)


def test_an_hgx_node_has_its_switches_and_one_crossbar():
    graph = graph_of(nodes.healthy("hgx-h100"))
    assert [n for n, kind in graph.nodes(data="kind") if kind == "nvswitch"] == ["nvswitch"]
    gpus = [n for n, kind in graph.nodes(data="kind") if kind == "gpu"]
    assert gpus == [f"gpu{i}" for i in range(8)]
    for gpu in gpus:
        nvlink = graph.edges[gpu, "nvswitch", "nvlink"]
        assert nvlink["line_rate_gb_per_s"] == 450  # 18 links × 25 GB/s
    path = nx.shortest_path(graph, "gpu3", "mlx5_3")
    assert [graph.nodes[n]["kind"] for n in path] == ["gpu", "bridge", "bridge", "bridge", "nic"]


def test_a_link_carries_line_rate_and_what_copies_reach():
    edge = next(d for _, _, d in graph_of(nodes.healthy("hgx-h100")).edges("gpu0", data=True) if d["kind"] == "pcie")
    assert edge["line_rate_gb_per_s"] == pytest.approx(32 * 16 * 128 / 130 / 8)  # 63.0
    # 63.0 × U(256) × k = 63.0 × 4·256/(4·(256+26)+16) × 0.954
    assert edge["capacity_gb_per_s"] == pytest.approx(63.015 * 1024 / 1144 * 0.954, rel=1e-3)


def test_a_matrix_alone_becomes_a_tree_that_is_marked_as_inferred(tmp_path):
    (tmp_path / "nvidia-smi_topo_-m").write_text(MATRIX)
    graph = graph_of(tmp_path)
    assert nx.shortest_path_length(graph, "gpu0", "NIC0") == 2  # gpu0 - switch - NIC0
    assert graph.edges["gpu0", "gpu1", "nvlink"]["line_rate_gb_per_s"] == 100  # 4 links × 25 GB/s
    pcie = [d for _, _, d in graph.edges(data=True) if d["kind"] == "pcie"]
    assert pcie
    assert all(d["inferred"] and d["witness"] == "nvidia-smi topo -m" for d in pcie)
    seats = {frozenset((a, b)) for a, b, d in graph.edges(data=True) if d["kind"] == "memory"}
    assert {n for seat in seats for n in seat if n.startswith("numa")} == {"numa0", "numa1"}
    assert not any("host" in seat for seat in seats)
