"""A training step: what each kind of parallelism sends, on which rung, what of it hides, and how long the step takes.

Ranks are laid out tensor first, then context, data, pipeline (Megatron's order), so tensor groups stay in a node where
they fit. Compute is 6 FLOP a parameter and token at the assumed share of the tensor rate, a third of it forward.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import NamedTuple

from topocheck.errors import TopocheckError, UsageError
from topocheck.hardware import latency
from topocheck.predict.algorithms import best_buckets
from topocheck.predict.collectives import best, bus_factor, ways
from topocheck.predict.job import Job
from topocheck.predict.machine import Machine

# The article: a reduction that would be 30 % of a step costs 3 % when it is hidden (SMs, memory traffic).
OVERLAP_COST = 0.10
_OPTIMISER_BYTES = 16  # Adam in mixed precision: 2 + 2 for weights and gradients, 12 for its state


class Traffic(NamedTuple):
    """One kind of communication in a step of one rank. sent_bytes: what the rank moves one way."""

    kind: str
    op: str
    messages: int
    message_bytes: float
    sent_bytes: float
    rung: str
    total_us: float
    exposed_us: float


class Step(NamedTuple):
    """Compute and what communication adds to it, µs."""

    compute_us: float
    bubble_us: float
    traffic: tuple[Traffic, ...]
    overlap_us: float  # what hidden communication still costs
    cover_us: float  # the backward pass that gradients can hide behind
    best_bucket_mb: float | None  # None where nothing is sent in buckets
    bound_buckets: float | None  # how many were best, if all of them were waited for
    hide_gb_per_s: float | None  # from which rate on gradients and weights hide; None where nobody shares them
    assumptions: tuple[str, ...]

    @property
    def reduction_us(self) -> float:
        """All gradients, one after the other: a backward pass shorter than this cannot hide them."""
        return sum(t.total_us for t in self.traffic if t.kind == "gradients")

    @property
    def exposed_us(self) -> float:
        """Communication that the GPU waits for."""
        return sum(t.exposed_us for t in self.traffic)

    @property
    def total_us(self) -> float:
        """The step."""
        return self.compute_us + self.bubble_us + self.exposed_us + self.overlap_us


class Group(NamedTuple):
    """Ranks that communicate: a machine that stands for their part of a node, and over how many such they reach."""

    machine: Machine
    nodes: int

    @property
    def size(self) -> int:
        """Ranks."""
        return self.machine.gpus * self.nodes

    @property
    def alpha_us(self) -> float:
        """α of a message between its farthest ranks."""
        machine = self.machine
        near = latency.NVLINK_US if machine.links else machine.alpha_pcie_us
        return machine.alpha_network_us if self.nodes > 1 else near

    def us(self, op: str, size_bytes: float) -> tuple[float, str]:
        """Time and the level that binds."""
        found = ways(self.machine, op, self.nodes)
        if not found:
            why = "; ".join(self.machine.refused) or "a path it needs is not known"
            raise TopocheckError(f"--job: {op} over {self.size} ranks: {why}")
        way = best(found, size_bytes)
        return way.time_us(size_bytes), way.bottleneck


def group_of(machine: Machine, nodes: int, size: int, stride: int) -> Group:
    """A group of `size` ranks, `stride` apart. Groups that run beside it in a node take their share of its NICs."""
    gpus = machine.domain(nodes)[0]
    room = max(1, gpus // stride)
    near = gcd(size, room)  # groups that straddle nodes are cut where both go
    nics = machine.nics and machine.nics * near / machine.gpus
    return Group(replace(machine, gpus=near, nics=nics, rack=False), size // near)


def step_of(machine: Machine, job: Job, nodes: int) -> Step:
    """The step of a job on so many nodes. UsageError where it does not fit them."""
    ranks = machine.gpus * nodes
    dp = job.data_ranks(ranks)
    _fits(machine, job, nodes, dp)
    if machine.chip is None:
        raise TopocheckError(f"--job: {machine.model}: its tensor rate is not in our table: no step time")
    rate = machine.chip.tensor_tflop_per_s * 1e6 * job.mfu  # FLOP per µs
    each = 6 * job.parameters * job.tokens / (job.tp * job.pp * job.cp) / rate
    compute = each * job.accumulation
    traffic = (
        *_tensor(machine, job, nodes),
        *_context(machine, job, nodes),
        *_experts(machine, job, nodes),
        *_pipeline(machine, job, nodes, dp),
        *_data(machine, job, nodes, dp, each),
    )
    data_ranks = dp * job.cp
    passes = job.accumulation if job.zero == 3 else 1  # before ZeRO 3 only the last backward pass has gradients to send
    backward = each * 2 / 3
    buckets = job.zero < 3 and data_ranks > 1
    alpha = group_of(machine, nodes, data_ranks, job.tp).alpha_us
    return Step(
        compute_us=compute,
        bubble_us=each * (job.pp - 1),
        traffic=traffic,
        overlap_us=sum(t.total_us - t.exposed_us for t in traffic) * OVERLAP_COST,
        cover_us=backward * passes,
        best_bucket_mb=best_bucket_mb(machine, job, nodes, backward) if buckets else None,
        bound_buckets=best_buckets(backward, data_ranks, alpha) if buckets else None,
        hide_gb_per_s=bandwidth_to_hide_gb_per_s(job, data_ranks, rate / 1e6) if data_ranks > 1 else None,
        assumptions=_assumptions(job),
    )


def hidden_behind(pieces: int, piece_us: float, cover_us: float) -> float:
    """What stays exposed of pieces that become ready evenly over `cover_us` and are sent one after the other: at least
    the last one.

    >>> hidden_behind(4, 1.0, 100.0), hidden_behind(4, 100.0, 40.0)
    (1.0, 370.0)
    """
    return max(piece_us, cover_us / pieces + pieces * piece_us - cover_us)


def best_bucket_mb(machine: Machine, job: Job, nodes: int, cover_us: float) -> float:
    """Of 1, 2, 4, … MB the bucket that leaves least of the gradients exposed. It grows with the number of ranks: every
    bucket pays the latency of all of them."""
    group = group_of(machine, nodes, job.data_ranks(machine.gpus * nodes) * job.cp, job.tp)
    size = _gradient_bytes(job)
    op = "reducescatter" if job.zero else "allreduce"
    waits: dict[float, float] = {}
    for power in range(20):
        buckets = max(1, round(size / 2**power / 1e6))
        waits[2.0**power] = hidden_behind(buckets, group.us(op, size / buckets)[0], cover_us)
    return min(waits, key=lambda mb: (waits[mb], mb))


def bandwidth_to_hide_gb_per_s(job: Job, ranks: int, tflop_per_s: float) -> float:
    """What hides the traffic of so many data-parallel ranks behind their passes: (n−1)/n · F / T for two bytes a
    gradient, F what the GPU computes and T its tokens, whatever the model's size.

    2(n−1)/n · bP/s bytes in the time of 4PT/s FLOP, s ranks to a replica. The same for ZeRO, which sends a half behind
    the forward pass of half the time, or with stage 3 both halves behind the backward pass too.

    >>> round(bandwidth_to_hide_gb_per_s(Job(7e9, 32, 4096, sequence=8192), 1 << 20, 396.0), 1)
    48.3
    """
    tokens_per_gpu = job.tokens / job.cp
    return (ranks - 1) / ranks * job.bytes_each / 2 * tflop_per_s * 1000 / tokens_per_gpu


def _fits(machine: Machine, job: Job, nodes: int, dp: int) -> None:
    gpus, _ = machine.domain(nodes)
    if gpus % job.tp and job.tp % gpus:
        where = "a node" if gpus == machine.gpus else "an NVLink domain"
        raise UsageError(f"--job: tp {job.tp} does not divide the {gpus} GPUs of {where}")
    if job.layers % job.pp:
        raise UsageError(f"--job: pp {job.pp} does not divide the {job.layers} layers")
    if (dp * job.cp) % job.ep:
        raise UsageError(f"--job: ep {job.ep} does not divide dp × cp = {dp * job.cp}")
    if machine.chip is None:
        return
    need = memory_gb(job, dp)
    if need > machine.chip.memory_gb:
        raise UsageError(
            f"--job: weights, gradients and optimiser state take {need:.0f} GB of a GPU's {machine.chip.memory_gb:.0f} "
            "before any activation: raise tp, pp or zero"
        )


def memory_gb(job: Job, dp: int) -> float:
    """Weights, gradients and Adam's state of one rank; ZeRO 1 shards the state, 2 the gradients too, 3 all."""
    kept = {0: _OPTIMISER_BYTES, 1: 4, 2: 2, 3: 0}[job.zero]
    shared = _OPTIMISER_BYTES - kept
    return job.parameters / (job.tp * job.pp * job.ep) * (kept + shared / (dp * job.cp)) / 1e9


def _traffic(kind: str, op: str, group: Group, messages: int, size: float, exposed: float | None = None) -> Traffic:
    each, rung = group.us(op, size)
    total = messages * each
    sent = messages * size * bus_factor(op, group.size)
    return Traffic(kind, op, messages, size, sent, rung, total, total if exposed is None else min(total, exposed))


def _tensor(machine: Machine, job: Job, nodes: int) -> list[Traffic]:
    """Four allreduces a layer, on the critical path."""
    if job.tp == 1:
        return []
    size = job.tokens / job.cp * job.hidden * job.bytes_each
    count = 4 * job.layers // job.pp * job.accumulation
    return [_traffic("tensor", "allreduce", group_of(machine, nodes, job.tp, 1), count, size)]


def _context(machine: Machine, job: Job, nodes: int) -> list[Traffic]:
    """Keys and values around a ring, once forward, twice backward."""
    if job.cp == 1:
        return []
    size = 2 * job.tokens / job.cp * job.hidden * job.bytes_each / job.tp
    count = 3 * (job.cp - 1) * job.layers // job.pp * job.accumulation
    return [_traffic("context", "sendrecv", group_of(machine, nodes, job.cp, job.tp), count, size)]


def _experts(machine: Machine, job: Job, nodes: int) -> list[Traffic]:
    """Dispatch and combine, forward and backward, in every layer; all wait for the most loaded rank."""
    if job.ep == 1:
        return []
    size = job.tokens / job.cp * job.hidden * job.bytes_each / job.tp * job.imbalance
    count = 4 * job.layers // job.pp * job.accumulation
    return [_traffic("expert", "alltoall", group_of(machine, nodes, job.ep, job.tp), count, size)]


def _pipeline(machine: Machine, job: Job, nodes: int, dp: int) -> list[Traffic]:
    """Activations to the next stage and their gradients back; those that fill and drain the pipeline are waited for."""
    if job.pp == 1:
        return []
    group = group_of(machine, nodes, job.pp, job.tp * job.cp * dp)
    size = job.tokens / job.cp * job.hidden * job.bytes_each / job.tp
    count = 2 * job.accumulation
    each, _ = group.us("sendrecv", size)
    return [_traffic("pipeline", "sendrecv", group, count, size, 2 * (job.pp - 1) * each)]


def _data(machine: Machine, job: Job, nodes: int, dp: int, each_us: float) -> list[Traffic]:
    """Gradients behind the last backward pass; with ZeRO the weights behind the forward pass."""
    ranks = dp * job.cp
    if ranks == 1:
        return []
    group = group_of(machine, nodes, ranks, job.tp)
    size = _gradient_bytes(job)
    backward, forward = each_us * 2 / 3, each_us / 3
    if job.zero == 0:
        return [_in_buckets("gradients", "allreduce", group, job, size, backward)]
    if job.zero < 3:
        return [
            _in_buckets("gradients", "reducescatter", group, job, size, backward),
            _in_buckets("weights", "allgather", group, job, size, forward),
        ]
    return [
        _in_layers("gradients", "reducescatter", group, job, size, backward),
        _in_layers("weights forward", "allgather", group, job, size, forward),
        _in_layers("weights backward", "allgather", group, job, size, backward),
    ]


def _gradient_bytes(job: Job) -> float:
    """Of one rank."""
    return job.parameters / (job.tp * job.pp) * job.bytes_each


def _in_buckets(kind: str, op: str, group: Group, job: Job, size: float, cover_us: float) -> Traffic:
    buckets = max(1, round(size / (job.bucket_mb * 1e6)))
    piece, _ = group.us(op, size / buckets)
    return _traffic(kind, op, group, buckets, size / buckets, hidden_behind(buckets, piece, cover_us))


def _in_layers(kind: str, op: str, group: Group, job: Job, size: float, cover_us: float) -> Traffic:
    """A layer at a time, in every micro-step."""
    layers = job.layers // job.pp
    piece, _ = group.us(op, size / layers)
    exposed = job.accumulation * hidden_behind(layers, piece, cover_us)
    return _traffic(kind, op, group, layers * job.accumulation, size / layers, exposed)


def _assumptions(job: Job) -> tuple[str, ...]:
    said = [
        f"compute: 6 FLOP a parameter and token at {job.mfu:.0%} of the tensor rate; attention's square term left out",
        f"hidden communication still costs {OVERLAP_COST:.0%} of its time (3 % of a step instead of 30 %)",
    ]
    if job.pp > 1:
        said.append(f"pipeline: {job.pp - 1} of {job.accumulation} micro-steps' time more as bubble (1F1B)")
    if job.cp > 1:
        said.append("context: full keys and values, nothing hidden: the upper end")
    if job.ep > 1:
        said.append(
            f"experts: every token to one expert in every layer; the most loaded rank has {job.imbalance:g} times the "
            "mean ([assume] imbalance), and all wait for it"
        )
    if job.zero == 3:
        said.append("ZeRO 3: weights gathered twice and gradients scattered in every micro-step, a layer at a time")
    return tuple(said)
