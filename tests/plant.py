"""Clusters built by hand: which leaf each port of each node is cabled to, as reports and as a fabric listing."""

from __future__ import annotations

from topocheck.fleet.fabric import HostCable, Listing
from topocheck.fleet.rails import rails
from topocheck.fleet.record import Kind, NodeRecord, RailPort

H100 = "HGX H100"
BUSES = ("1a", "3c", "4d", "5e", "9c", "bc", "cc", "dc")  # of the compute NICs, in PCI order
NUMBERS = (0, 1, 2, 3, 6, 7, 8, 9)  # of their mlx5_N: 4 and 5 carry storage


class Plant:
    """`leaf[host, rail, port]`; what is taken out of it has no cable. `platform`, `buses` by host."""

    def __init__(self, leaf=None):
        self.leaf = dict(leaf or {})
        self.down, self.platform, self.buses, self.subnet = set(), {}, {}, {}
        self.names = {}  # host → numbers of its mlx5_N

    def __or__(self, other):
        both = Plant(self.leaf | other.leaf)
        for own in ("platform", "buses", "names", "subnet"):
            setattr(both, own, getattr(self, own) | getattr(other, own))
        return both

    @property
    def hosts(self):
        return list(dict.fromkeys(host for host, _, _ in self.leaf))

    def swap(self, a, b):
        self.leaf[a], self.leaf[b] = self.leaf[b], self.leaf[a]

    def nic(self, host, rail):
        return f"mlx5_{self.names.get(host, NUMBERS)[rail]}"

    def bdf(self, host, rail):
        return f"0000:{self.buses.get(host, BUSES)[rail]}:00.0"

    def guid(self, host, rail, port):
        return f"a288:c203:{self.hosts.index(host):04x}:{rail:02x}{port:02x}"

    def switch_port(self, key):
        """A number for each host on a leaf, as a rack is cabled."""
        return str(self.hosts.index(key[0]) % 32 + 1)

    def records(self, by="ibnetdiscover", layer="infiniband", seen=True):
        """The nodes' reports; not `seen`: they know no leaf."""
        ports = {host: [] for host in self.hosts}
        for key, leaf in self.leaf.items():
            host, rail, port = key
            told = (leaf, self.switch_port(key), by) if seen and leaf else (None, None, None)
            state = "down" if key in self.down else "active"
            ports[host].append(
                RailPort(self.nic(host, rail), self.bdf(host, rail), port, rail, self.guid(*key), state, layer, 400.0,
                         self.subnet.get(key), None, *told)
            )  # fmt: skip
        return [self._record(host, sorted(found, key=lambda p: (p.rail, p.port))) for host, found in ports.items()]

    def _record(self, host, ports):
        """Rails are counted as a node counts them: the NICs it has, in PCI order."""
        place = {rail: i for i, rail in enumerate(sorted({p.rail for p in ports}))}
        ports = tuple(p._replace(rail=place[p.rail]) for p in ports)
        kind = Kind(self.platform.get(host, H100), "NVIDIA H100 80GB HBM3", 8, len(place) + 2)
        return NodeRecord(
            host, "2026-11-20T03:04:05Z", f"{host}.json", "1.0.0", "healthy", kind, (), (), 0, (), ports, 392.0
        )

    def listing(self, by="ibnetdiscover", guids=True, rate=400.0):
        cables = tuple(
            HostCable(host, self.nic(host, rail), self.guid(host, rail, port) if guids else None, 100 + i, port, leaf,
                      self.switch_port((host, rail, port)), rate, 4, "NDR", by, f"{host} {self.nic(host, rail)}")
            for i, ((host, rail, port), leaf) in enumerate(self.leaf.items())
            if leaf and (host, rail, port) not in self.down
        )  # fmt: skip
        return Listing("fabric", cables, (), tuple(sorted({c.switch for c in cables})))


def hosts_of(count, first=1):
    return [f"gpu{number:03d}" for number in range(first, first + count)]


def railed(hosts=8, rails=8, pod="a", *, per_leaf=1, first=1):
    """Rail-optimised: rail r of every host on leaf r; `per_leaf` rails on each leaf."""
    return Plant({(h, r, 1): f"leaf-{pod}{r // per_leaf + 1}" for h in hosts_of(hosts, first) for r in range(rails)})


def dual_plane(hosts=8, rails=8):
    """Each NIC's two ports in two planes, each plane with a leaf for each rail."""
    return Plant(
        {(h, r, p): f"leaf-{'xy'[p - 1]}{r + 1}" for h in hosts_of(hosts) for r in range(rails) for p in (1, 2)}
    )


def two_planes(hosts=8, rails=8):
    """Every other NIC in the other plane, one leaf each."""
    return Plant({(h, r, 1): f"plane-{'xy'[r % 2]}" for h in hosts_of(hosts) for r in range(rails)})


def three_tier(hosts=6, rails=8, pods=3):
    """Pods with leaves of their own."""
    plant = Plant()
    for pod in range(pods):
        plant |= railed(hosts, rails, "abcdef"[pod], first=1 + pod * hosts)
    return plant


def fat_tree(hosts=12, rails=8, a_leaf=4):
    """A plain tree: all ports of a host on the leaf of its rack."""
    return Plant({(h, r, 1): f"rack{i // a_leaf + 1}" for i, h in enumerate(hosts_of(hosts)) for r in range(rails)})


def spread(hosts=12, rails=8, leaves=8):
    """A plain tree whose ports were cabled as they came."""
    return Plant(
        {
            (h, r, 1): f"leaf{(i * rails + r + i) % leaves + 1}"
            for i, h in enumerate(hosts_of(hosts))
            for r in range(rails)
        }
    )


RAILED = {
    "two tiers": railed,
    "three tiers": three_tier,
    "dual plane": dual_plane,
    "NICs in two planes": two_planes,
    "two rails a leaf": lambda: railed(per_leaf=2),
    "four rails": lambda: railed(8, 4),
}
PLAIN = {
    "fat tree": (fat_tree, "share one leaf"),
    "single switch": (lambda: fat_tree(12, 8, 100), "one switch"),
    "spread without order": (spread, "no leaf is one rail's"),
    "spread over four": (lambda: spread(9, 8, 4), "no leaf is one rail's"),
    "spread over two": (lambda: spread(9, 2, 2), "no leaf is one rail's"),
    "one NIC a node": (lambda: railed(8, 1), "one compute NIC"),
    "two nodes": (lambda: railed(2), "fewer than 3 nodes"),
}
EVIDENCE = {
    "reports": lambda p: (p.records(), []),
    "listing": lambda p: ([], [p.listing()]),
    "listing and reports": lambda p: (p.records(seen=False), [p.listing()]),
    "listing without GUIDs": lambda p: ([], [p.listing("iblinkinfo", guids=False)]),
    "LLDP": lambda p: (p.records("lldp", "ethernet"), []),
}


def seen(cluster, evidence="reports", patterns=()):
    return rails(*EVIDENCE[evidence](cluster), patterns)


def ends(fault):
    """(host, NIC, port) → the leaf reached and the leaf expected."""
    return {(e.host, e.nic, e.port): (e.leaf, e.expected_leaf) for e in fault.ends}


def wanted(cluster, good, *keys):
    return {
        (host, cluster.nic(host, rail), port): (cluster.leaf[host, rail, port], good.leaf[host, rail, port])
        for host, rail, port in keys
    }


def only_fault(answer):
    assert answer.why_none is None
    assert len(answer.faults) == 1, [f.message for f in answer.faults]
    return answer.faults[0]
