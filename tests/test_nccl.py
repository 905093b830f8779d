"""What NCCL 2.27 would make of a node, by its rules as facts/nccl_model.md states them."""

from __future__ import annotations

from dataclasses import replace

import nodes
import pytest

from topocheck.check import check
from topocheck.graph import Machine, Topology
from topocheck.nccl import chosen_nics, dma_buf, gpudirect, p2p_class, rdma_is_direct, summary


def node(name: str) -> Topology:
    return check(str(nodes.healthy(name))).topology


@pytest.mark.parametrize(
    ("kernel", "is_open", "expected"),
    [
        ("5.12.0", True, True),
        ("5.11.22-generic", True, False),
        ("6.8.0-60-generic", False, False),
        ("6.8.0", None, None),
        (None, True, None),
        (None, False, False),
    ],
)
def test_dma_buf_needs_the_open_modules_and_kernel_5_12(
    kernel: str | None, is_open: bool | None, expected: object
) -> None:
    assert dma_buf(Machine(kernel=kernel, open_driver=is_open)) is expected


def test_either_mechanism_is_enough_and_unread_is_not_none() -> None:
    assert gpudirect(Machine(kernel="5.4.0", open_driver=False, peermem=True)) == "nvidia_peermem"
    assert gpudirect(Machine(kernel="5.4.0", open_driver=False, peermem=False)) == "none"
    assert gpudirect(Machine(kernel="5.4.0", open_driver=False)) is None


def test_each_gpu_takes_the_nic_of_its_switch() -> None:
    h100 = node("hgx-h100")
    assert {gpu: [n.id for n in nics] for gpu, nics in chosen_nics(h100).items()} == {
        gpu: list(own) for gpu, own in h100.assignment.items()
    }


def test_of_two_nics_at_one_distance_each_gpu_of_a_pair_takes_one() -> None:
    chosen = chosen_nics(node("dgx-a100"))
    taken = [n.id for nics in chosen.values() for n in nics]
    assert len(taken) == len(set(taken)) == 8


def test_nccl_ib_hca_narrows_the_choice() -> None:
    h100 = node("hgx-h100")
    narrowed = replace(h100, machine=replace(h100.machine, nccl_environ={"NCCL_IB_HCA": "^mlx5_0"}))
    assert [n.id for n in chosen_nics(narrowed)["gpu0"]] != ["mlx5_0"]
    assert chosen_nics(narrowed)["gpu7"] == chosen_nics(h100)["gpu7"]


def test_direct_up_to_pxb_and_by_c2c_on_the_same_cpu() -> None:
    h100, tray, box = node("hgx-h100"), node("gb200-tray"), node("pcie-box")
    assert rdma_is_direct(h100, h100.by_id["gpu0"], h100.by_id["mlx5_0"])
    assert rdma_is_direct(h100, h100.by_id["gpu0"], h100.by_id["mlx5_9"]) is False  # SYS
    assert rdma_is_direct(tray, tray.gpus[0], tray.compute_nics[0])  # NODE, but C2C
    assert not rdma_is_direct(box, box.gpus[0], box.nics[0])  # NODE over PCIe


def test_pairs_beyond_a_switch_go_through_host_memory() -> None:
    box = node("pcie-box")
    assert p2p_class(box, box.gpus[0], box.gpus[1]) == "PCIe"
    assert p2p_class(box, box.gpus[0], box.gpus[7]) == "SHM"
    assert summary(box)[0].startswith("by the rules of NCCL 2.27")
