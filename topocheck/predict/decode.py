"""One token at batch one, its weights spread over a tensor-parallel group: a read and many small allreduces."""

from __future__ import annotations

from typing import NamedTuple

from topocheck.predict.job import Job
from topocheck.predict.machine import Machine
from topocheck.predict.step import group_of

_ALLREDUCES_A_LAYER = 2  # after attention and after the feed-forward part; no backward pass


class Decode(NamedTuple):
    """µs. Weights are read at the data sheet's rate; launches of kernels are not counted."""

    tp: int
    weights_us: float
    allreduces: int
    allreduce_us: float  # each
    one_gpu_us: float  # the same token, had one GPU all weights

    @property
    def total_us(self) -> float:
        """The token."""
        return self.weights_us + self.allreduces * self.allreduce_us


def decode_of(machine: Machine, job: Job, nodes: int) -> Decode | None:
    """None without tensor parallelism, or where the GPU's memory is not known."""
    if job.tp == 1 or machine.chip is None:
        return None
    one_gpu_us = job.parameters * job.bytes_each / machine.chip.hbm_gb_per_s / 1000
    each, _ = group_of(machine, nodes, job.tp, 1).us("allreduce", job.hidden * job.bytes_each)
    return Decode(job.tp, one_gpu_us / job.tp, _ALLREDUCES_A_LAYER * job.layers, each, one_gpu_us)
