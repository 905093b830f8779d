"""Outputs of single tools as people post them: what must not be said of ports and GPUs that are as they should be.

Machines and identifiers are made up; the shapes are those of the real tools.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_posted import looked, loud, matrix, own_switch_each

from topocheck.report import Report


def roles(report: Report) -> dict[str, str | None]:
    return {d.id: d.role for d in report.devices if d.kind == "nic"}


def ibdev2netdev(*rows: str) -> str:
    """Rows "mlx5_0 enp1s0np0 Up" in the tool's words."""
    return "".join("{} port 1 ==> {} ({})\n".format(*row.split()) for row in rows)


RAILS = tuple(f"mlx5_{i} ibp{26 + i}s0 Down" for i in range(4))  # IPoIB is down everywhere: says nothing of the port


def test_a_second_port_without_cable_is_known_by_its_interfaces_name(tmp_path: Path) -> None:
    text = ibdev2netdev(*RAILS, "mlx5_4 enp61s0f0np0 Up", "mlx5_5 enp61s0f1np1 Down")
    report = looked(tmp_path, ibdev2netdev=text)
    assert loud(report) == []
    assert roles(report) == {f"mlx5_{i}": "compute" for i in range(4)} | {"mlx5_4": "storage", "mlx5_5": "storage"}


def test_ethernet_cards_beside_infiniband_ones_are_another_kind(tmp_path: Path) -> None:
    text = ibdev2netdev(*RAILS, "mlx5_4 enp61s0np0 Up", "mlx5_5 enp62s0np0 Down")
    assert loud(looked(tmp_path, ibdev2netdev=text)) == []


def test_the_second_port_of_a_card_whose_first_is_in_a_bond_is_no_rail(tmp_path: Path) -> None:
    # Rails have cards of one function, which systemd numbers without "f"; the other card has two.
    rails = (f"mlx5_{i} enp{25 + i}s0np0 Up" for i in range(8))
    text = ibdev2netdev(*rails, "mlx5_8 bond0 Up", "mlx5_9 enp83s0f1np1 Down")
    assert loud(looked(tmp_path, ibdev2netdev=text)) == []


def test_an_ethernet_rail_that_is_down_among_its_like_is_said(tmp_path: Path) -> None:
    text = ibdev2netdev(*(f"mlx5_{i} enp{26 + i}s0np0 {'Down' if i == 2 else 'Up'}" for i in range(8)))
    assert [line[:14] for line in loud(looked(tmp_path, ibdev2netdev=text))] == ["NET001 error m"]


PORT_DOWN = """CA 'mlx5_{i}'
\tCA type: {model}
\tNumber of ports: 1
\tPort 1:
\t\tState: Down
\t\tPhysical state: Disabled
\t\tRate: 10
\t\tLink layer: InfiniBand
"""


@pytest.mark.parametrize(("model", "repaired_gb_per_s"), [("MT4131", 196.0), ("MT9999", None)])
def test_the_rate_of_a_down_port_is_no_price(tmp_path: Path, model: str, repaired_gb_per_s: float | None) -> None:
    # ibstat's 10 is a placeholder; a ConnectX-8 (MT4131) carries 800 Gb/s: 100 GB/s, of which 98 % are achievable.
    text = "".join(PORT_DOWN.format(i=i, model=model) for i in range(2))
    report = looked(tmp_path, ibstat=text, nvidia_smi_topo__m=matrix(2, 2, own_switch_each))
    assert [f.rule for f in report.findings] == ["NET001"] * 2
    assert report.together is None or report.together.repaired_gb_per_s == repaired_gb_per_s
    assert [f.price is None for f in report.findings] == [repaired_gb_per_s is None] * 2


def nvlinks(*states: str) -> str:
    """`nvidia-smi nvlink -s` of one GPU that has 18 links; "" is a line that the poster cut."""
    return "GPU 0: NVIDIA H100 80GB HBM3\n" + "".join(
        f"\t Link {n}: {state}\n" if state else "\t [...]\n" for n, state in enumerate(states)
    )


def test_links_cut_out_of_a_posted_list_are_not_down(tmp_path: Path) -> None:
    rate = "26.562 GB/s"
    cut = nvlinks(rate, *[""] * 16, rate)
    counters = cut.replace(rate, "Replay Errors: 0")
    assert loud(looked(tmp_path, nvidia_smi_nvlink__s=cut)) == []
    assert loud(looked(tmp_path, nvidia_smi_nvlink__s=counters + cut)) == []
    some = nvlinks(rate, "<inactive>", *[""] * 15, rate)
    (said,) = loud(looked(tmp_path, nvidia_smi_nvlink__s=some))
    assert said.startswith("NVL001 error gpu0 has at most 17 of 18 NVLinks up (link 1 inactive)")
