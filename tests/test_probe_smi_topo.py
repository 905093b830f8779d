"""nvidia-smi topo -m, -mp and -p2p: every variant of the matrices people post."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from topocheck.facts import Fact, Gap, Matrix, MatrixRow, P2pMatrix
from topocheck.probes import smi_p2p, smi_topo

FIXTURES = Path(__file__).parent.parent / "fixtures" / "probes"


def text_of(probe: ModuleType, name: str) -> str:
    with (FIXTURES / probe.__name__.rpartition(".")[2] / name).open(newline="") as file:
        return file.read()


def parsed(probe: ModuleType, name: str) -> list[Fact]:
    return list(probe.parse(text_of(probe, name)))


def of_kind(facts: list[Fact], kind: type) -> list:
    return [fact for fact in facts if isinstance(fact, kind)]


def matrix_of(name: str) -> tuple[Matrix, list[str]]:
    facts = parsed(smi_topo, name)
    (matrix,) = of_kind(facts, Matrix)
    return matrix, [gap.reason for gap in of_kind(facts, Gap)]


# --- topo -m -------------------------------------------------------------------------------------------------------


def test_raw_output_with_tabs_and_underlined_header():
    matrix, gaps = matrix_of("raw_tabs")
    assert matrix.witness == "nvidia-smi topo -m"
    assert matrix.names == ("GPU0", "GPU1", "NIC0")
    assert matrix.cells == {
        ("GPU0", "GPU1"): "NV4",
        ("GPU0", "NIC0"): "PIX",
        ("GPU1", "GPU0"): "NV4",
        ("GPU1", "NIC0"): "SYS",
        ("NIC0", "GPU0"): "PIX",
        ("NIC0", "GPU1"): "SYS",
    }
    assert matrix.rows == {
        "GPU0": MatrixRow("0-7,16-23", "0", "N/A"),
        "GPU1": MatrixRow("8-15,24-31", "1", "N/A"),
    }
    assert matrix.legend == {"NIC0": "mlx5_2"}
    assert (matrix.cut, gaps) == (False, [])
    assert (matrix.lines["GPU1"].input, matrix.lines["GPU1"].line) == ("nvidia-smi topo -m", 3)
    assert matrix.lines["GPU1"].text.startswith("GPU1\tNV4")


def test_a_blank_numa_cell_is_not_the_one_behind_it():
    matrix, _ = matrix_of("escape_lost_crlf")
    assert matrix.names == ("GPU0", "GPU1")
    assert matrix.rows["GPU1"] == MatrixRow("0,2,4,6,8,10", None, "N/A")


def test_log_prefixes_and_single_spaces():
    matrix, gaps = matrix_of("log_prefix")
    assert matrix.cells == {("GPU0", "GPU1"): "NV18", ("GPU1", "GPU0"): "NV18"}
    assert matrix.rows["GPU1"] == MatrixRow("16-31,48-63", "1", "N/A")
    assert not gaps


def test_names_and_cells_run_together_at_the_terminal_margin():
    matrix, gaps = matrix_of("fused_cells")
    assert matrix.names == ("GPU0", "GPU1", "NIC0", "NIC1")
    row = ("GPU0", "GPU1", "NIC0")
    assert [matrix.cells[name, "NIC1"] for name in row] == ["NODE", "SYS", "NODE"]
    assert [matrix.rows[name].cpus for name in ("GPU0", "GPU1")] == ["0-9,20-29", "10-19,30-39"]
    assert matrix.legend == {"NIC0": "mlx5_bond_0", "NIC1": "ibp9s0"}
    assert not matrix.cut
    assert not gaps


def test_the_rows_of_both_sockets_settle_a_list_run_on_to_its_node():
    matrix, _ = matrix_of("fused_affinity")
    first, second = MatrixRow("0-11,24-35", "0", "N/A"), MatrixRow("12-23,36-47", "1", "N/A")
    assert list(matrix.rows.values()) == [first, first, second, second]


def test_a_list_run_on_beyond_telling_says_nothing():
    matrix, _ = matrix_of("fused_affinity_undecidable")
    assert matrix.rows["GPU0"] == MatrixRow(None, None, "N/A")  # 0-63 and node 0, or 0-630


def test_blank_cells_between_two_tab_stops():
    matrix, _ = matrix_of("blank_numa")
    assert matrix.rows == {
        "GPU0": MatrixRow("0-63", None, "N/A"),
        "GPU1": MatrixRow(None, None, "N/A"),
    }


def test_soc_is_sys_and_rdma_names_are_columns():
    matrix, gaps = matrix_of("soc_mlx5_fused_header")
    assert matrix.names == ("GPU0", "GPU1", "mlx5_2", "mlx5_0")
    assert matrix.cells["GPU0", "mlx5_2"] == "SYS"
    assert matrix.cells["GPU0", "mlx5_0"] == "PIX"
    assert not gaps


@pytest.mark.parametrize("name", ["wrapped_header", "wrapped_rows"])
def test_header_and_rows_wrapped_in_the_middle_of_a_word(name):
    matrix, _ = matrix_of(name)
    assert matrix.names == ("GPU0", "GPU1", "NIC0", "NIC1")
    assert matrix.cells["GPU0", "NIC1"] == "NODE"
    assert [matrix.rows[gpu].numa for gpu in ("GPU0", "GPU1")] == ["0", "1"]
    assert [matrix.rows[gpu].cpus for gpu in ("GPU0", "GPU1")] == ["0-7", "8-15"]
    assert not matrix.cut


def test_a_row_torn_by_another_programs_lines_is_joined():
    matrix, gaps = matrix_of("torn_row")
    assert matrix.cells["NIC0", "GPU0"] == "PHB"
    assert matrix.cells["NIC0", "GPU1"] == "SYS"
    assert not gaps


def test_without_a_header_the_rows_name_the_columns():
    matrix, gaps = matrix_of("no_header")
    assert matrix.names == ("GPU0", "GPU1", "NIC0")
    assert matrix.rows["GPU1"] == MatrixRow("8-15", "1", "N/A")
    assert any("header line is missing" in gap for gap in gaps)


def test_cut_rows_keep_their_whole_cells_and_are_a_gap():
    matrix, gaps = matrix_of("cut")
    assert matrix.cut
    assert matrix.cells["GPU2", "GPU0"] == "SYS"
    assert ("GPU2", "GPU1") not in matrix.cells  # "SY" is no token
    assert matrix.cells["GPU1", "NIC0"] == "PIX"
    assert gaps == ["rows missing: NIC0", "rows cut short: GPU2", "the NIC legend is missing, RDMA names unknown"]


def test_a_row_whose_x_stands_elsewhere_is_left_out():
    matrix, gaps = matrix_of("misfit_row")
    assert ("GPU1", "GPU0") not in matrix.cells
    assert matrix.cells["GPU0", "GPU1"] == "PIX"
    assert gaps == ["rows that do not fit their columns, left out: GPU1"]


def test_a_corrupt_legend_entry_is_dropped():
    matrix, gaps = matrix_of("corrupt_legend")
    assert matrix.names == ("GPU0", "NIC0", "NIC1", "NIC2", "NIC3")
    assert matrix.legend == {"NIC2": "mlx5_2"}
    assert any("corrupt" in gap and "NIC0 NIC1" in gap for gap in gaps)
    assert any("not in the NIC legend: NIC3" in gap for gap in gaps)


def test_a_paste_of_mp_m_p2p_and_lscpu():
    facts = parsed(smi_topo, "pasted_with_others")
    assert [fact.witness for fact in facts if isinstance(fact, Matrix)] == ["nvidia-smi topo -mp", "nvidia-smi topo -m"]
    assert [fact.names for fact in facts if isinstance(fact, Matrix)] == [("GPU0", "GPU1")] * 2
    assert not of_kind(facts, Gap)
    (p2p,) = smi_p2p.parse(text_of(smi_topo, "pasted_with_others"))
    assert (p2p.capability, p2p.cells["GPU0", "GPU1"]) == ("r", "NS")


@pytest.mark.parametrize(
    ("command", "witness"),
    [
        ("nvidia-smi topo -mp", "nvidia-smi topo -mp"),
        ("nvidia-smi topo -m", "nvidia-smi topo -m"),
        ("topo.txt", "nvidia-smi topo -m"),
    ],
)
def test_the_command_tells_mp_from_m(command, witness):
    text = "\tGPU0\tGPU1\nGPU0\t X \tPXB\nGPU1\tPXB\t X \n"
    (matrix,) = smi_topo.parse(text, command=command)
    assert matrix.witness == matrix.lines["GPU0"].input == witness


def test_grace_node_lists_indent_and_legend():
    matrix, _ = matrix_of("grace_indented")
    assert matrix.rows["GPU0"] == MatrixRow("0-71", "0,2-9", "2")
    assert matrix.legend == {"NIC0": "roceP2p1s0f0"}


def test_a_text_without_a_matrix_is_a_gap():
    assert parsed(smi_topo, "option_error") == [Gap("nvidia-smi topo -m", "no matrix in it")]
    (host,) = smi_topo.parse("Failed to initialize NVML: Driver/library version mismatch\n")
    assert host.driver_error == "Failed to initialize NVML: Driver/library version mismatch"


def test_sixteen_gpus_and_sixty_three_nics():
    names = [f"GPU{i}" for i in range(16)] + [f"NIC{i}" for i in range(63)]
    rows = [
        "\t".join([name, *(" X " if i == j else "NODE" if (i + j) % 2 else "SYS" for j in range(len(names)))])
        for i, name in enumerate(names)
    ]
    matrix, *gaps = smi_topo.parse("\n".join(["\t" + "\t".join(names), *rows]) + "\n")
    assert matrix.names == tuple(names)
    assert len(matrix.cells) == 79 * 78
    assert matrix.cells["GPU15", "NIC62"] == "NODE"  # 15 + 78 is odd
    assert [gap.reason for gap in gaps] == ["the NIC legend is missing, RDMA names unknown"]


# --- topo -p2p -----------------------------------------------------------------------------------------------------


def test_p2p_statuses():
    matrix, *gaps = smi_p2p.parse(text_of(smi_p2p, "nvidia-smi_topo_-p2p_r"), command="nvidia-smi topo -p2p r")
    assert isinstance(matrix, P2pMatrix)
    assert (matrix.witness, matrix.capability) == ("nvidia-smi topo -p2p r", "r")
    assert matrix.names == ("GPU0", "GPU1", "GPU2")
    assert [matrix.cells["GPU0", "GPU1"], matrix.cells["GPU0", "GPU2"], matrix.cells["GPU1", "GPU2"]] == [
        "OK",
        "GNS",
        "CNS",
    ]
    assert matrix.lines["GPU2"].line == 4
    assert not gaps


def test_p2p_of_two_capabilities_the_second_cut():
    read, write, gap = parsed(smi_p2p, "pasted_r_and_w")
    assert (read.capability, read.cells["GPU1", "GPU0"]) == ("r", "DR")
    assert (write.capability, write.cells) == ("w", {("GPU0", "GPU1"): "U"})
    assert "GPU1" in gap.reason


def test_p2p_without_operand_is_a_gap():
    assert isinstance(parsed(smi_p2p, "missing_operand")[0], Gap)


# --- what terminals do to a matrix ---------------------------------------------------------------------------------

WIDE = [f"GPU{i}" for i in range(4)] + [f"NIC{i}" for i in range(12)]


def wide_cell(i: int, j: int) -> str:
    return "X" if i == j else "NV12" if max(i, j) < 4 else "NODE" if i % 2 == j % 2 else "SYS"


def wide_lines() -> list[str]:
    """Four GPUs on two sockets and twelve NICs, with tabs as nvidia-smi prints them."""
    affinity = ("\t0-23,48-71\t0\t\tN/A", "\t24-47,72-95\t1\t\tN/A")
    rows = [
        "\t".join([name, *(f" {cell} " if (cell := wide_cell(i, j)) == "X" else cell for j in range(len(WIDE)))])
        + (affinity[i // 2] if i < 4 else "")
        for i, name in enumerate(WIDE)
    ]
    return ["\t".join(["", *WIDE, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]), *rows]


def stopped_at_margin(line: str, width: int) -> str:
    """A tab at the terminal's right edge stops at the last column instead of wrapping."""
    shown = ""
    for char in line:
        if char != "\t":
            shown += char
            continue
        stop = (len(shown) // 8 + 1) * 8
        if len(shown) < width <= stop:
            stop = max(width - 1, len(shown))
        shown = shown.ljust(stop)
    return shown


def wide_matrix(text: str) -> Matrix:
    (matrix,) = (fact for fact in smi_topo.parse(text) if isinstance(fact, Matrix))
    return matrix


WIDE_CELLS = {(a, b): wide_cell(i, j) for i, a in enumerate(WIDE) for j, b in enumerate(WIDE) if i != j}
WIDE_ROWS = [("0-23,48-71", "0"), ("0-23,48-71", "0"), ("24-47,72-95", "1"), ("24-47,72-95", "1")]


@pytest.mark.parametrize("width", range(76, 176))
def test_tabs_stopped_at_the_margin_lose_nothing(width):
    matrix = wide_matrix("\n".join(stopped_at_margin(line, width) for line in wide_lines()))
    assert matrix.names == tuple(WIDE)
    assert matrix.cells == WIDE_CELLS
    assert [(row.cpus, row.numa) for row in matrix.rows.values()] == WIDE_ROWS


@pytest.mark.parametrize("width", range(76, 176))
def test_lines_wrapped_at_the_margin_keep_every_cell_and_invent_no_affinity(width):
    lines = [line.expandtabs(8) for line in wide_lines()]
    matrix = wide_matrix("\n".join(line[at : at + width] for line in lines for at in range(0, len(line), width)))
    assert matrix.names == tuple(WIDE)
    assert matrix.cells == WIDE_CELLS
    for row, (cpus, numa) in zip(matrix.rows.values(), WIDE_ROWS, strict=True):
        assert row.cpus in (cpus, None)
        assert row.numa in (numa, None)
