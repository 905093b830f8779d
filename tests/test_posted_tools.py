"""Outputs of single tools as people post them: what must not be said of ports and GPUs that are as they should be.

Machines and identifiers are made up; the shapes are those of the real tools.
"""

from __future__ import annotations

from pathlib import Path

from test_posted import looked, loud

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


def test_an_ethernet_rail_that_is_down_among_its_like_is_said(tmp_path: Path) -> None:
    text = ibdev2netdev(*(f"mlx5_{i} enp{26 + i}s0np0 {'Down' if i == 2 else 'Up'}" for i in range(8)))
    assert [line[:14] for line in loud(looked(tmp_path, ibdev2netdev=text))] == ["NET001 error m"]
