"""Edits of fabric_sim.rail_optimised(): FAULTS, each gives its rule and what must be named, both ends among it; and
SOUND, what is odd and meant to be so."""

import fabric_sim as sim

TRUNK = ("leaf-u1-r2", "spine3")


def swapped(net):
    net.swap(("gpu02", 3), ("gpu02", 4))
    return "RAIL001", "gpu02 mlx5_3", "leaf-u1-r4 port 2", "mlx5_4", "leaf-u1-r3 port 2"


def swapped_between_hosts(net):
    net.swap(("gpu01", 2), ("gpu04", 6))
    return "RAIL001", "gpu01 mlx5_2", "leaf-u1-r6", "gpu04 mlx5_6", "leaf-u1-r2"


def wrong_leaf(net):
    net.move("gpu04", 2, "leaf-u1-r5")
    return "RAIL002", "gpu04 mlx5_2", "leaf-u1-r5", "instead of leaf-u1-r2"


def mirrored(net):
    net.mirror("gpu03", 8)
    return "RAIL001", "gpu03", "mirror"


def narrow(net):
    net.odd[sim.hca("gpu03", 5)] = (1, "HDR")
    return "NET002", "gpu03 mlx5_5", "leaf-u1-r5 port 3", "1x HDR (50 Gb/s)", "4x HDR (200 Gb/s)"


def two_lanes(net):
    net.odd[sim.hca("gpu01", 0)] = (2, "HDR")
    return "NET002", "gpu01 mlx5_0", "leaf-u1-r0 port 1", "2x HDR (100 Gb/s)", "4x HDR (200 Gb/s)"


def slow(net):
    net.odd[sim.hca("gpu03", 5)] = (4, "EDR")
    return "NET002", "gpu03 mlx5_5", "leaf-u1-r5 port 3", "4x EDR (100 Gb/s)", "4x HDR (200 Gb/s)"


def missing(net):
    del net.cables[sim.hca("gpu01", 6)]
    return "NET001", "gpu01 mlx5_6", "leaf-u1-r6 port 1"


def narrow_uplink(net):
    net.odd[net.trunks(*TRUNK)[0]] = (1, "HDR")
    return "NET002", "leaf-u1-r2 port 39", "spine3 port 3", "1x HDR (50 Gb/s)"


def slow_uplink(net):
    net.odd[net.trunks(*TRUNK)[0]] = (4, "EDR")
    return "NET002", "leaf-u1-r2 port 39", "spine3 port 3", "4x EDR (100 Gb/s)"


def missing_uplink(net):
    del net.cables[net.trunks(*TRUNK)[0]]
    return "NET001", "leaf-u1-r2 port 39", "spine3 port 3"


FAULTS = (
    swapped, swapped_between_hosts, wrong_leaf, mirrored, narrow, two_lanes, slow, missing, narrow_uplink, slow_uplink,
    missing_uplink,
)  # fmt: skip


def storage(net):
    """A leaf of older hosts at half the speed, with half of the uplinks."""
    net.switches["storage-leaf"] = 40
    for number in range(1, 9):
        net.cables[sim.hca(f"stor{number:02}", 0)] = ("storage-leaf", number)
        net.odd[sim.hca(f"stor{number:02}", 0)] = (4, "EDR")
    for spine in ("spine1", "spine2"):
        net.cables["storage-leaf", int(spine[-1]) + 30] = end = net.free(spine)
        net.odd["storage-leaf", int(spine[-1]) + 30] = (4, "EDR")
        assert end[0] == spine


def half_speed_on_every_node(net):
    """A second card of another kind."""
    for host in sim.hosts(4):
        net.cables[f"{host} mlx5_8", 1] = net.free("leaf-u1-r0")
        net.odd[f"{host} mlx5_8", 1] = (2, "HDR")


def two_speeds(net):
    """Half of the nodes are older."""
    for host in sim.hosts(2):
        net.odd |= {sim.hca(host, rail): (4, "EDR") for rail in range(8)}


def one_older_node(net):
    """Slow at every port: other HCAs, no cable."""
    net.odd |= {sim.hca("gpu03", rail): (4, "EDR") for rail in range(8)}


def older_half_of_cards(net):
    """Four nodes of sixteen have older HCAs in half of their slots."""
    net.cables = sim.rail_optimised(16).cables
    net.odd |= {sim.hca(host, rail): (4, "EDR") for host in sim.hosts(4) for rail in range(4)}


def unit_with_fewer_spines(net):
    """All its leaves have no cable to the last spine."""
    _without_spine(net, sim.rail_optimised(units=4))


def unit_of_ten_with_fewer_spines(net):
    _without_spine(net, sim.rail_optimised(2, units=10, ports=120))


def _without_spine(net, wide):
    net.switches = wide.switches
    net.cables = {a: b for a, b in wide.cables.items() if not (a[0].startswith("leaf-u2") and b[0] == "spine4")}


def fewer_cards(net):
    """Four nodes of twenty were bought with half of them."""
    wide = sim.rail_optimised(20)
    without = {sim.hca(host, rail) for host in sim.hosts(4, 17) for rail in range(4, 8)}
    net.cables = {a: b for a, b in wide.cables.items() if a not in without}


def slow_management(net):
    net.odd[sim.hca("mgmt01", 0)] = (1, "EDR")


def aggregation(net):
    """SHARP: each switch shows an engine on its last port."""
    for number, switch in enumerate([s for s in net.switches if s != "spine1"]):
        net.rename[f"engine{number} mlx5_0"] = "Mellanox Technologies Aggregation Node"
        net.cables[f"engine{number} mlx5_0", 1] = net.free(switch)


def nameless(net):
    """Drivers that were never told their host, one of a node's among them: no cable is missing."""
    for name in ("gpu01 mlx5_6", "gpu02 mlx5_6"):
        net.rename[name] = "MT4123 ConnectX6   Mellanox Technologies"


def half_nameless(net):
    net.rename["gpu01 mlx5_6"] = "localhost mlx5_6"


def factory_switches(net):
    net.rename |= dict.fromkeys(net.switches, "Quantum Mellanox Technologies")


def modular(net):
    """Spines that are boards of one chassis."""
    for number, spine in enumerate(s for s in net.switches if s.startswith("spine")):
        net.rename[spine] = f"MF0;core:MCS8500/S{number + 1:02}/U1"


def one_gone_spine(net):
    net.cables = {a: b for a, b in net.cables.items() if b[0] != "spine4"}


def whole_rail_dark(net):
    """A leaf that is not there yet: no node has that rail."""
    net.cables = {a: b for a, b in net.cables.items() if "leaf-u1-r7" not in (a[0], b[0])}
    del net.switches["leaf-u1-r7"]


SOUND = (
    storage, half_speed_on_every_node, two_speeds, one_older_node, older_half_of_cards, unit_with_fewer_spines,
    unit_of_ten_with_fewer_spines, fewer_cards, slow_management, aggregation, nameless,
    half_nameless, factory_switches, modular, one_gone_spine, whole_rail_dark,
)  # fmt: skip
