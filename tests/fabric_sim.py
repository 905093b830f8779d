"""InfiniBand fabrics of many shapes, with faults; as ibsim's net files, as listings, and under the real tools.

    net = rail_optimised()                          4 hosts of 8 HCAs, a leaf a rail, 4 spines, a management host
    net.swap(("gpu02", 3), ("gpu02", 4))            two cables exchanged
    net.listing()                                   the text that ibnetdiscover prints of it
    with running(net) as run: run("iblinkinfo")     ibsim and OpenSM under the real program

Names and GUIDs are made up.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

End = tuple[str, int]  # a switch, or a CA by its description; and a port
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
_SPEEDS = {"FDR": "e=1", "EDR": "e=2", "HDR": "e=4"}  # of ibsim 0.10, which knows no NDR
_WIDTHS = {1: "w=1", 2: "w=16", 4: "w=2"}


@dataclass
class Net:
    """Cables from an end to the other: hosts' from the CA, trunks' from the lower switch. `speed`: of each that has
    none of its own."""

    switches: dict[str, int] = field(default_factory=dict)  # name → ports
    cables: dict[End, End] = field(default_factory=dict)
    odd: dict[End, tuple[int, str]] = field(default_factory=dict)  # width and speed
    speed: str = "HDR"
    rename: dict[str, str] = field(default_factory=dict)  # CA → what its description says instead
    base: int = 0  # of GUIDs: two fabrics must not share them
    _numbers: dict[str, int] = field(default_factory=dict)

    def swap(self, a: tuple[str, int], b: tuple[str, int]) -> None:
        """Exchanges two HCAs' cables at the switch."""
        one, two = hca(*a), hca(*b)
        self.cables[one], self.cables[two] = self.cables[two], self.cables[one]

    def mirror(self, host: str, rails: int) -> None:
        """Cables a host in the opposite order."""
        for rail in range(rails // 2):
            self.swap((host, rail), (host, rails - 1 - rail))

    def move(self, host: str, rail: int, switch: str) -> End:
        """Puts an HCA's cable into the last free port of another switch."""
        self.cables[hca(host, rail)] = end = self.free(switch)
        return end

    def free(self, switch: str) -> End:
        """The last port of a switch that has no cable."""
        taken = {end for cable in self.cables.items() for end in cable}
        return next((switch, p) for p in range(self.switches[switch], 0, -1) if (switch, p) not in taken)

    def trunks(self, a: str, b: str) -> list[End]:
        """The ends on `a` of its cables to `b`, a switch above it."""
        return [end for end, far in self.cables.items() if end[0] == a and far[0] == b]

    def guid(self, node: str) -> str:
        """A node's, 16 hex digits."""
        number = self._numbers.setdefault(node, len(self._numbers) + 1)
        return f"{0x02BADC0FFE000000 + self.base + (number << 8):016x}"

    def port_guid(self, ca: str) -> str:
        """Of its port, as sysfs spells it."""
        digits = self._port(ca)
        return ":".join(digits[at : at + 4] for at in range(0, 16, 4))

    def records(self) -> Iterator[tuple[str, list[tuple[int, End, tuple[int, str]]]]]:
        """Switches, then CAs, with their cables; a CA without any can neither be discovered nor simulated."""
        ports: dict[str, list[tuple[int, End, tuple[int, str]]]] = {name: [] for name in self.switches}
        for a, b in self.cables.items():
            state = self.odd.get(a, (4, self.speed))
            ports.setdefault(a[0], []).append((a[1], b, state))
            ports[b[0]].append((b[1], a, state))
        yield from ((node, sorted(cables)) for node, cables in ports.items())

    def net_file(self) -> str:
        """What ibsim reads; programs are on the first node, which must be a CA."""
        text = ["width=3", "speed=7", "extspeed=7"]
        for node, cables in sorted(self.records(), key=lambda record: record[0] in self.switches):
            kind, size, prefix = self._kind(node)
            name = self.rename.get(node, node)
            guid = self.guid(node)
            key = "switchguid" if prefix == "S" else "caguid"
            text += [f"sysimgguid=0x{guid}", f"{key}=0x{guid}", f'{kind}\t{size} "{prefix}-{guid}"\t\t# "{name}"']
            for port, (far, far_port), (width, speed) in cables:
                odd = f" {_WIDTHS[width]} {_SPEEDS[speed]}" if (width, speed) != (4, "HDR") else ""
                text.append(f'[{port}]\t"{self._kind(far)[2]}-{self.guid(far)}"[{far_port}]{odd}')
            text.append("")
        return "\n".join(text)

    def listing(self) -> str:
        """What ibnetdiscover prints."""
        text = ["#", "# Topology file: generated on Fri Nov 20 03:04:05 2026", "#"]
        for node, cables in self.records():
            kind, size, prefix = self._kind(node)
            guid = self.guid(node)
            key = "switchguid" if prefix == "S" else "caguid"
            after = f" enhanced port 0 lid {self._lid(node)} lmc 0" if prefix == "S" else ""
            text += ["", "vendid=0x2c9", f"sysimgguid=0x{guid}", f"{key}=0x{guid}"]
            text.append(f'{kind}\t{size} "{prefix}-{guid}"\t\t# "{self.rename.get(node, node)}"{after}')
            for port, (far, far_port), (width, speed) in cables:
                own = f"({self._port(node)})" if prefix == "H" else ""
                its = f"({self._port(far)})" if far not in self.switches else ""
                end = f'[{port}]{own} \t"{self._kind(far)[2]}-{self.guid(far)}"[{far_port}]{its}'
                name, lid = self.rename.get(far, far), self._lid(far)
                names = f'lid {self._lid(node)} lmc 0 "{name}"' if prefix == "H" else f'"{name}"'
                text.append(f"{end}\t\t# {names} lid {lid} {width}x{speed}")
        return "\n".join(text) + "\n"

    def _kind(self, node: str) -> tuple[str, int, str]:
        return ("Switch", self.switches[node], "S") if node in self.switches else ("Ca", 1, "H")

    def _lid(self, node: str) -> int:
        return self._numbers[node]

    def _port(self, ca: str) -> str:
        return f"{int(self.guid(ca), 16) + 1:016x}"


def hca(host: str, rail: int) -> End:
    """An HCA's only port."""
    return f"{host} mlx5_{rail}", 1


def hosts(count: int, first: int = 1) -> list[str]:
    """gpu01, gpu02, …"""
    return [f"gpu{number:02}" for number in range(first, first + count)]


def rail_optimised(count: int = 4, rails: int = 8, spines: int = 4, units: int = 1, ports: int = 40) -> Net:
    """Units of `count` hosts, rail r on leaf r of the unit, host h on port h of each; a cable from each leaf to each
    spine; a management host on the first spine."""
    net = Net()
    for spine in range(1, spines + 1):
        net.switches[f"spine{spine}"] = ports
    for unit in range(units):
        for rail in range(rails):
            leaf = f"leaf-u{unit + 1}-r{rail}"
            net.switches[leaf] = ports
            for port, host in enumerate(hosts(count, unit * count + 1), 1):
                net.cables[hca(host, rail)] = (leaf, port)
            for spine in range(1, spines + 1):
                net.cables[leaf, ports - spines + spine] = (f"spine{spine}", unit * rails + rail + 1)
    if spines:
        net.cables[hca("mgmt01", 0)] = ("spine1", ports)
    return net


def three_tier(units: int = 4) -> Net:
    """Units of 4 hosts of 4 rails with 2 spines each, 2 cables from each leaf to each; 2 cores above all spines."""
    net = Net(switches={"core1": 40, "core2": 40})
    for unit in range(1, units + 1):
        spines = [f"spine-u{unit}-{number}" for number in (1, 2)]
        net.switches |= dict.fromkeys(spines, 40)
        for rail in range(4):
            leaf = f"leaf-u{unit}-r{rail}"
            net.switches[leaf] = 40
            for port, host in enumerate(hosts(4, unit * 4 - 3), 1):
                net.cables[hca(host, rail)] = (leaf, port)
            for number, spine in enumerate(spines):
                for cable in range(2):
                    net.cables[leaf, 31 + 2 * number + cable] = (spine, 1 + 2 * rail + cable)
        for spine in spines:
            for cable in range(4):
                core = f"core{1 + cable % 2}"
                net.cables[spine, 37 + cable] = net.free(core)
    return net


def fat_tree(leaves: int = 4, per_leaf: int = 4, nics: int = 2, spines: int = 2) -> Net:
    """Each host's ports on one leaf, side by side; two cables from each leaf to each spine."""
    net = Net(switches={f"spine{number + 1}": 40 for number in range(spines)})
    for leaf in range(leaves):
        net.switches[f"leaf{leaf + 1}"] = 40
        for place, host in enumerate(hosts(per_leaf, leaf * per_leaf + 1)):
            for nic in range(nics):
                net.cables[hca(host, nic)] = (f"leaf{leaf + 1}", 1 + place * nics + nic)
        for cable in range(2 * spines):
            net.cables[f"leaf{leaf + 1}", 33 + cable] = (f"spine{1 + cable // 2}", 1 + 2 * leaf + cable % 2)
    return net


def single_switch(count: int = 4, nics: int = 8) -> Net:
    """Every port on one switch."""
    net = Net(switches={"switch1": 64})
    for place, host in enumerate(hosts(count)):
        for nic in range(nics):
            net.cables[hca(host, nic)] = ("switch1", 1 + place * nics + nic)
    return net


def dual_plane(count: int = 6) -> tuple[Net, Net]:
    """Rails 0-3 in one fabric, 4-7 in another, whose switches have the same names."""
    one, two = rail_optimised(count, rails=4, spines=2), rail_optimised(count, rails=4, spines=2)
    two.base = 0x10_0000
    two.cables = {(_later(name), port): far for (name, port), far in two.cables.items()}
    return one, two


def _later(name: str) -> str:
    host, _, number = name.partition(" mlx5_")
    return f"{host} mlx5_{int(number) + 4}" if number else name


@contextmanager
def running(net: Net) -> Iterator[Callable[..., str]]:
    """Runs a program on the simulated fabric, with its subnet manager; what it printed. All end with the block."""
    (library,) = Path("/usr/lib").glob("*/umad2sim/libumad2sim.so")
    with TemporaryDirectory() as folder:
        file = Path(folder, "fabric.net")
        file.write_text(net.net_file())
        name = f"topocheck-{os.getpid()}-{Path(folder).name}"  # of an abstract socket
        environment = {"PATH": PATH, "IBSIM_SOCKNAME": name, "OSM_TMP_DIR": folder, "OSM_CACHE_DIR": folder}
        simulated = environment | {"LD_PRELOAD": str(library)}

        def run(*command: str) -> str:
            done = subprocess.run(command, cwd=folder, env=simulated, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            return done.stdout

        def start(*command: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
            with Path(folder, f"{command[0]}.out").open("wb") as log:
                return subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        started = [start("ibsim", "-s", "-n", str(file), env=environment)]
        try:
            _wait(lambda: "simulator ready" in Path(folder, "ibsim.out").read_text(), folder)
            started.append(start("opensm", "-f", f"{folder}/osm.log", env=simulated))
            _wait(lambda: _is_up(run("iblinkinfo", "-l")), folder)
            yield run
        finally:
            for process in reversed(started):  # OpenSM first: without its fabric it never ends
                process.kill()
                process.wait()


def _is_up(links: str) -> bool:
    return "Active" in links and not any(state in links for state in ("Initialize", "Armed"))


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""


def _wait(ready: Callable[[], bool], folder: str) -> None:
    end = time.monotonic() + 60
    while not ready():
        logs = {log.name: _text(log)[-2000:] for log in Path(folder).glob("*.[ol][ou][tg]")}
        assert time.monotonic() < end, logs
        time.sleep(0.05)
