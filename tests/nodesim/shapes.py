"""Random healthy nodes, for hypothesis: what vendors build, as far as rules.md calls it healthy.

A node is groups of GPUs that are alike: on a switch (perhaps nested) or each on a root port, with NICs of their own,
shared by the group, or beside the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

from hypothesis import strategies as st

from nodesim.layout import Numbering
from nodesim.parts import GPUS, NICS, GpuPart, NicPart
from nodesim.spec import Child, Gpu, HostBridge, Link, Nic, Node, NvSwitch, Port, Switch

BOARDS = ("h100", "h200", "a100")
CARDS = tuple(key for key in GPUS if key not in BOARDS)
COMPUTE = ("cx7-ndr", "cx7-roce", "cx7-dual", "cx6-hdr", "cx6dx", "cx5")


@dataclass(frozen=True)
class Shape:
    """The choices behind a node. nics: "none", "own" (k a GPU beside it), "shared" (one a group), "cpu" (each on a
    root port of every NUMA node with GPUs)."""

    gpu: str
    groups: int
    per_group: int
    switched: bool
    nested: str  # "", "gpus", "nics": which children sit behind a second switch
    nics: str
    nic: str
    each: int
    second_port: str  # of dual-port compute cards: "active", "down"
    storage: str | None
    storage_count: int
    sockets: int
    numa_per_socket: int
    cpu: str
    slot_gen: int
    nic_slot_gen: int
    asleep: bool
    bridged: bool
    pooled: bool  # all direct-attached children of a NUMA node on one host bridge
    mig: bool


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """A random choice, healthy by rules.md."""
    board = draw(st.booleans())
    gpu = draw(st.sampled_from(BOARDS if board else CARDS))
    per_group = draw(st.sampled_from((1, 2, 4) if board else (1, 2, 3, 4)))
    total = draw(st.sampled_from((8, 8, 4))) if board else per_group * draw(st.integers(1, min(8, 16 // per_group)))
    switched = board or draw(st.booleans())
    nics = draw(st.sampled_from(("none", "own", "own", "shared", "cpu")))
    if nics == "shared" and (per_group == 1 or not switched):
        nics = "own"
    sockets, numa_per_socket = draw(st.integers(1, 2)), draw(st.sampled_from((1, 1, 2, 4)))
    nic = draw(st.sampled_from(COMPUTE))
    each = draw(st.sampled_from((1, 1, 2))) if total <= 8 and NICS[nic].ports == 1 else 1
    groups = total // per_group
    homes = len({group * sockets * numa_per_socket // groups for group in range(groups)})
    ports = homes * each * NICS[nic].ports
    if nics == "cpu" and ports > total and ports % total:  # a card without a GPU would be another role
        nic, each = "cx6-hdr", 1
    storage = [key for key, part in NICS.items() if part.rate < NICS[nic].rate]
    return Shape(
        gpu=gpu,
        groups=groups,
        per_group=per_group,
        switched=switched,
        nested=draw(st.sampled_from(("", "", "gpus", "nics"))) if switched else "",
        nics=nics,
        nic=nic,
        each=each,
        second_port=draw(st.sampled_from(("active", "down"))),
        storage=draw(st.sampled_from((None, *storage))) if storage and nics != "none" else None,
        storage_count=draw(st.integers(1, 2)),
        sockets=sockets,
        numa_per_socket=numa_per_socket,
        cpu=draw(st.sampled_from(("intel", "amd"))),
        slot_gen=draw(st.sampled_from((5, 5, 4))),
        nic_slot_gen=draw(st.sampled_from((5, 5, 4))),
        asleep=draw(st.booleans()),
        bridged=draw(st.booleans()),
        pooled=draw(st.booleans()),
        mig=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """A random healthy node."""
    return build(draw(shapes()))


@st.composite
def numberings(draw: st.DrawFn, node: Node) -> Numbering:
    """A random way to number a node's functions."""
    return Numbering(
        order=tuple(draw(st.permutations(range(len(node.bridges))))),
        domains=draw(st.sampled_from(("one", "each"))),
        first_domain=draw(st.sampled_from((0, 0, 1, 0x10000))),
        first_bus=draw(st.integers(0, 0x10)),
        gap=draw(st.integers(0, 1)),
        names=draw(st.sampled_from(("mlx5", "mlx5", "path"))),
    )


def build(shape: Shape) -> Node:
    """The node of a shape."""
    maker = _Maker(shape)
    maker.groups()
    maker.storage()
    return Node(
        bridges=tuple(maker.bridges),
        sockets=shape.sockets,
        numa_per_socket=shape.numa_per_socket,
        cpu_key=shape.cpu,
        fabric=maker.fabric,
        bridged=tuple(zip(maker.gpus[::2], maker.gpus[1::2], strict=False)) if maker.fabric == "bridges" else (),
    )


class _Maker:
    """Builds the host bridges of a shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.part: GpuPart = GPUS[shape.gpu]
        self.numbers = {prefix: count() for prefix in "gnbsv"}
        self.bridges: list[HostBridge] = []
        self.gpus: list[str] = []
        total = shape.groups * shape.per_group
        boards = {"nvswitch": "mesh" if total == 4 else "nvswitch", "bridge": "bridges" if shape.bridged else "none"}
        self.fabric = boards.get(self.part.board, "none")
        if self.fabric == "bridges" and total < 2:
            self.fabric = "none"

    def _uid(self, prefix: str) -> str:
        return f"{prefix}{next(self.numbers[prefix])}"

    def groups(self) -> None:
        """Every group of GPUs, spread over the NUMA nodes in order, then the NICs beside the CPUs."""
        shape = self.shape
        nodes = shape.sockets * shape.numa_per_socket
        homes = [group * nodes // shape.groups for group in range(shape.groups)]
        for numa in homes:
            children = self._group()
            if shape.switched:
                self._bridge(numa, (children[0],))
            else:
                self._direct(numa, children)
        if shape.nics == "cpu":
            for numa in sorted(set(homes)):
                self._bridge(numa, tuple(self._nic() for _ in range(shape.each)))
        if self.fabric == "nvswitch" and self.part.nvswitch:
            device_id, number = self.part.nvswitch
            switches = tuple(NvSwitch(self._uid("v"), device_id) for _ in range(number))
            self._bridge(nodes - 1, (Switch(self._uid("s"), switches, Link(4, 4, 5, 4), 4),))

    def _direct(self, numa: int, children: list[Child]) -> None:
        """Each child on a root port; all of the group on one host bridge, or each on its own."""
        if self.shape.pooled:
            self._bridge(numa, tuple(children))
        else:
            for child in children:
                self._bridge(numa, (child,))

    def _group(self) -> list[Child]:
        shape = self.shape
        gpus: list[Child] = [self._gpu() for _ in range(shape.per_group)]
        number = {"own": shape.each * shape.per_group, "shared": 1}.get(shape.nics, 0)
        nics: list[Child] = [self._nic() for _ in range(number)]
        if not shape.switched:
            return [*gpus, *nics]
        chip = max(shape.slot_gen, shape.nic_slot_gen) if nics else shape.slot_gen
        if shape.nested == "gpus":
            gpus = [self._switch(gpus, chip, chip)]
        if shape.nested == "nics" and nics:
            nics = [self._switch(nics, chip, chip)]
        return [self._switch([*gpus, *nics], chip, 5)]

    def _switch(self, children: list[Child], chip_gen: int, port_gen: int) -> Switch:
        return Switch(self._uid("s"), tuple(children), Link(chip_gen, 16, port_gen, 16), chip_gen)

    def _gpu(self) -> Gpu:
        shape, part = self.shape, self.part
        asleep = shape.asleep and part.sleeps
        link = Link(part.gen, 16, shape.slot_gen, 16, now_gen=1 if asleep else None)
        fabric = ("Completed", "Success") if self.fabric == "nvswitch" else None
        mig = shape.mig and part.board == "nvswitch"
        gpu = Gpu(self._uid("g"), part.key, link, "P8" if asleep else "P0", fabric=fabric, mig=mig)
        self.gpus.append(gpu.uid)
        return gpu

    def _nic(self) -> Nic:
        part: NicPart = NICS[self.shape.nic]
        second = Port() if self.shape.second_port == "active" else Port("down", "polling")
        ports = (Port(), second)[: part.ports]
        return Nic(self._uid("n"), part.key, Link(part.gen, 16, self.shape.nic_slot_gen, 16), ports)

    def storage(self) -> None:
        """Cards of a slower kind on root ports of their own, on the first NUMA nodes."""
        shape = self.shape
        if shape.storage is None:
            return
        part = NICS[shape.storage]
        for i in range(shape.storage_count):
            numa = i % (shape.sockets * shape.numa_per_socket)
            card = Nic(
                self._uid("n"),
                part.key,
                Link(part.gen, 16 if part.rate > 25 else 8, shape.nic_slot_gen),
                (Port(),) * part.ports,
            )
            self._bridge(numa, (replace(card, intent="storage"),))

    def _bridge(self, numa: int, children: tuple[Child, ...]) -> None:
        self.bridges.append(HostBridge(self._uid("b"), numa, children))
