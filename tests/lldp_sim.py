"""Real LLDP between hosts and leaf switches: each is a network namespace with its own lldpd, joined by veth pairs.

    unshare --mount --net --pid --fork --kill-child --mount-proc python tests/lldp_sim.py PLANS.json OUT

PLANS.json lists cabling plans, {host: {interface: [leaf, leaf port]}}; after each one, made by moving cables only, what
`lldpcli -f json show neighbors` prints on a host stands in OUT/<number of the plan>/<host>.json. All namespaces and
daemons are in the namespaces of `unshare` and end with it. Needs root, lldpd and iproute2; about 4 s for a plan.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

_WAIT_S = 20


class Fabric:
    """Namespaces, the cables between them as they are, and a daemon in each."""

    def __init__(self, scratch):
        self.scratch, self.cables, self.names = scratch, {}, []

    def power_on(self, names):
        ip("".join(f"netns add {name}\n" for name in names))
        for name in names:
            config = self.scratch / f"{name}.conf"
            config.write_text(f"configure system hostname {name}\nconfigure lldp tx-interval 1\n")
            with (self.scratch / f"{name}.log").open("w") as log:
                subprocess.Popen(
                    ["ip", "netns", "exec", name, "lldpd", "-d", "-u", self.socket(name),
                     "-p", self.scratch / f"{name}.pid", "-O", config],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )  # fmt: skip
        self.names += names

    def socket(self, name):
        return str(self.scratch / f"{name}.sock")

    def cable(self, plan):
        """Only what is not as it was is touched."""
        wanted = {(host, port): tuple(far) for host, ports in plan.items() for port, far in ports.items()}
        moved = [end for end, far in self.cables.items() if wanted.get(end) != far]
        added = [end for end, far in wanted.items() if self.cables.get(end) != far]
        for host, port in moved:
            ip(f"link del {port}\n", host)
        for host, port in moved:  # what was heard on it goes with it
            self.wait(lambda host=host, port=port: f'"{port}"' not in self.neighbours(host), f"{port} stays on {host}")
        for host, port in added:
            leaf, leaf_port = wanted[host, port]
            ip(f"link add {port} netns {host} type veth peer name {leaf_port} netns {leaf}\n")
            ip(f"link set {port} up\n", host)
            ip(f"link set {leaf_port} up\n", leaf)
        self.cables = wanted

    def neighbours(self, host):
        """What lldpcli prints, "" where its daemon does not answer yet."""
        command = ["lldpcli", "-u", self.socket(host), "-f", "json", "show", "neighbors"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def heard(self, plan):
        """host → text, once each interface has its neighbour, by name, and no other."""
        texts = {}

        def whole(host, leaves):
            texts[host] = self.neighbours(host)
            return far_ends(texts[host]) == sorted(leaves)

        for host, ports in plan.items():
            leaves = [(port, leaf) for port, (leaf, _) in ports.items()]
            self.wait(lambda host=host, leaves=leaves: whole(host, leaves), f"not all neighbours of {host} are there")
        return texts

    def wait(self, done, trouble):
        end = time.monotonic() + _WAIT_S
        while not done():
            if time.monotonic() > end:
                logs = "".join(log.read_text() for log in self.scratch.glob("*.log"))
                sys.exit(f"{trouble}\n{logs}")
            time.sleep(0.2)


def far_ends(text):
    """(interface, name of the switch) of each neighbour; a single one is no list."""
    told = json.loads(text)["lldp"].get("interface", []) if text.startswith("{") else []
    entries = [entry for part in (told if isinstance(told, list) else [told]) for entry in part.items()]
    return sorted((port, name) for port, entry in entries for name in entry["chassis"])


def ip(batch, namespace=None):
    inside = ["-n", namespace] if namespace else []
    subprocess.run(["ip", *inside, "-batch", "-"], input=batch, text=True, check=True, capture_output=True)


def main(plans, out):
    # A place of our own for namespaces, and lldpd's chroot.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    scratch = Path("/run/fabric")  # open to the user that the daemons become
    for folder in ("/run/lldpd", "/run/netns", scratch):
        Path(folder).mkdir()
    plans = json.loads(Path(plans).read_text())
    fabric = Fabric(scratch)
    leaves = {leaf for plan in plans for ports in plan.values() for leaf, _ in ports.values()}
    fabric.power_on(sorted({host for plan in plans for host in plan} | leaves))
    for number, plan in enumerate(plans):
        fabric.cable(plan)
        folder = Path(out) / str(number)
        folder.mkdir(parents=True)
        for host, text in fabric.heard(plan).items():
            (folder / f"{host}.json").write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
