"""What ibstat, ibstatus, ibv_devinfo -v, rdma link and ibdev2netdev print of a laid-out node."""

from __future__ import annotations

import ipaddress

from nodesim.facts import gids
from nodesim.layout import Layout, NamedNic

_LAYER = {"infiniband": "InfiniBand", "ethernet": "Ethernet"}
_WIDTH_SPEED = {400: ("4X (2)", "100.0 Gbps (128)"), 200: ("4X (2)", "50.0 Gbps (64)"),
                100: ("4X (2)", "25.0 Gbps (32)"), 50: ("2X (16)", "25.0 Gbps (32)"),
                25: ("1X (1)", "25.0 Gbps (32)")}  # fmt: skip
_PHYSICAL = {"linkup": "LinkUp", "polling": "Polling", "disabled": "Disabled"}
_MTU = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}


def _state(n: NamedNic) -> str:
    return {"active": "Active", "down": "Down", "init": "Initializing"}[n.port.state]


def _rate(n: NamedNic) -> int:
    """A port that is down shows a placeholder."""
    return n.rate if n.port.state == "active" else 10 if n.layer == "infiniband" else 40


def ibstat(layout: Layout) -> str:
    """`ibstat`."""
    text = ""
    for n in layout.nics:
        ib = n.layer == "infiniband"
        text += (
            f"CA '{n.name}'\n\tCA type: {n.nic.part.ca_type}\n\tNumber of ports: 1\n"
            f"\tFirmware version: {n.nic.firmware or n.nic.part.firmware}\n\tHardware version: 0\n"
            f"\tNode GUID: 0x{n.guid}\n\tSystem image GUID: 0x{n.system_guid}\n\tPort 1:\n"
            f"\t\tState: {_state(n)}\n\t\tPhysical state: {_PHYSICAL[n.port.physical]}\n\t\tRate: {_rate(n)}\n"
            f"\t\tBase lid: {n.lid if ib else 0}\n\t\tLMC: 0\n\t\tSM lid: {1 if ib else 0}\n"
            f"\t\tCapability mask: {'0xa751e848' if ib else '0x00010000'}\n\t\tPort GUID: 0x{n.guid}\n"
            f"\t\tLink layer: {_LAYER[n.layer]}\n"
        )
    return text


def devinfo(layout: Layout) -> str:
    """`ibv_devinfo -v`."""
    return "".join(_device(n) + _port(n) for n in layout.nics)


def _row(depth: int, key: str, value: object) -> str:
    return "\t" * depth + f"{key}:\t\t\t{value}\n"


def _device(n: NamedNic) -> str:
    part = n.nic.part
    rows = {
        "transport": "InfiniBand (0)", "fw_ver": n.nic.firmware or part.firmware, "node_guid": _colons(n.guid),
        "sys_image_guid": _colons(n.system_guid), "vendor_id": "0x02c9",
        "vendor_part_id": part.ca_type.removeprefix("MT"), "hw_ver": "0x0",
        "board_id": n.nic.board_id or part.board_id, "phys_port_cnt": 1,
    }  # fmt: skip
    return f"hca_id:\t{n.name}\n" + "".join(_row(1, key, value) for key, value in rows.items())


def _port(n: NamedNic) -> str:
    ib = n.layer == "infiniband"
    state = {"active": "PORT_ACTIVE (4)", "down": "PORT_DOWN (1)", "init": "PORT_INIT (2)"}[n.port.state]
    physical = {"linkup": "LINK_UP (5)", "polling": "POLLING (2)", "disabled": "DISABLED (3)"}[n.port.physical]
    width, speed = _WIDTH_SPEED.get(n.rate if n.port.state == "active" else 0, ("4X (2)", "10.0 Gbps (4)"))
    rows = {
        "state": state, "max_mtu": "4096 (5)", "active_mtu": f"{n.port.mtu} ({_MTU[n.port.mtu]})",
        "sm_lid": 1 if ib else 0, "port_lid": n.lid if ib else 0, "port_lmc": "0x00", "link_layer": _LAYER[n.layer],
        "active_width": width, "active_speed": speed, "phys_state": physical,
    }  # fmt: skip
    table = [f"GID[  0]:\t\tfe80:0000:0000:0000:{_colons(n.guid)}"] if ib else [
        f"GID[{g.number:3}]:\t\t{ipaddress.ip_address(g.gid)}, RoCE {g.version}" for g in gids(n)
    ]  # fmt: skip
    return "\t\tport:\t1\n" + "".join(_row(3, key, value) for key, value in rows.items()) + "".join(
        f"\t\t\t{line}\n" for line in table
    ) + "\n"  # fmt: skip


def _colons(guid: str) -> str:
    return ":".join(guid[i : i + 4] for i in range(0, 16, 4))


def rdma_link(layout: Layout) -> str:
    """`rdma link`."""
    text = ""
    for n in layout.nics:
        state = {"active": "ACTIVE", "down": "DOWN", "init": "INIT"}[n.port.state]
        physical = {"linkup": "LINK_UP", "polling": "POLLING", "disabled": "DISABLED"}[n.port.physical]
        ib = f"subnet_prefix fe80:0000:0000:0000 lid {n.lid} sm_lid 1 lmc 0 " if n.layer == "infiniband" else ""
        text += f"link {n.name}/1 {ib}state {state} physical_state {physical} "
        text += (f"netdev {n.netdev} " if not ib else "") + "\n"
    return text


def ibdev2netdev(layout: Layout) -> str:
    """`ibdev2netdev`."""
    return "".join(
        f"{n.name} port 1 ==> {n.netdev} ({'Up' if n.port.state == 'active' else 'Down'})\n" for n in layout.nics
    )
