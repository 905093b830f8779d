"""RoCE rails by real LLDP: lldpd on hosts and leaves in network namespaces, `topocheck node` on what each host hears,
`topocheck fleet` on the four reports."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nodes
import pytest

from topocheck.cli import run

pytestmark = pytest.mark.real("lldpd")

CAPTURE = nodes.NODES / "hgx-h100-roce" / "capture"
NICS = {
    "mlx5_0": "enp26s0np0", "mlx5_1": "enp60s0np0", "mlx5_2": "enp77s0np0", "mlx5_3": "enp94s0np0",
    "mlx5_6": "enp156s0np0", "mlx5_7": "enp188s0np0", "mlx5_8": "enp204s0np0", "mlx5_9": "enp220s0np0",
}  # fmt: skip
HOSTS = ("gpu01", "gpu02", "gpu03", "gpu04")
SIMULATOR = Path(__file__).with_name("lldp_sim.py")
PLANS = ("good", "exchanged", "of two nodes", "stray")


def plan():
    """Rail r of host h on port h of leaf r."""
    rails = enumerate(NICS.values(), start=1)
    ports = [(netdev, f"leaf-rail{rail}") for rail, netdev in rails]
    return {host: {netdev: [leaf, f"swp{h}"] for netdev, leaf in ports} for h, host in enumerate(HOSTS, start=1)}


def swapped(a, b):
    changed = plan()
    ends = [(changed[host], NICS[nic]) for host, nic in (a, b)]
    (one, i), (two, j) = ends
    one[i], two[j] = two[j], one[i]
    return changed


def stray(host, nic, leaf):
    changed = plan()
    changed[host][NICS[nic]] = [leaf, "swp20"]
    return changed


@pytest.fixture(scope="module")
def heard(tmp_path_factory):
    """A folder a plan, in it what lldpcli printed on each host."""
    folder = tmp_path_factory.mktemp("lldp")
    plans = (
        plan(),
        swapped(("gpu03", "mlx5_2"), ("gpu03", "mlx5_7")),
        swapped(("gpu02", "mlx5_1"), ("gpu04", "mlx5_6")),
        stray("gpu01", "mlx5_9", "leaf-rail1"),
    )
    (folder / "plans.json").write_text(json.dumps(plans))
    spaces = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
    allowed = subprocess.run([*spaces, "ip", "link"], capture_output=True, text=True, check=False)
    if allowed.returncode != 0:
        reason = f"network namespaces are not permitted here: {allowed.stderr.strip()}"
        pytest.fail(reason, pytrace=False) if os.environ.get("TOPOCHECK_REAL") == "1" else pytest.skip(reason)
    made = subprocess.run(
        [*spaces, sys.executable, SIMULATOR, folder / "plans.json", folder / "out"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return {name: folder / "out" / str(number) for number, name in enumerate(PLANS)}


@pytest.fixture
def fleet(heard, tmp_path):
    """The fleet's document of one plan."""

    def document(name):
        for host in HOSTS:
            capture = tmp_path / host
            shutil.copytree(CAPTURE, capture)
            shutil.copy(heard[name] / f"{host}.json", capture / "lldpctl_-f_json")
            manifest = capture / "manifest.json"
            manifest.write_text(manifest.read_text().replace('"gpu-r01"', f'"{host}"'))
            report = tmp_path / "reports" / f"{host}.json"
            report.parent.mkdir(exist_ok=True)
            words = ("--format", "json", "--fail-on", "never", "--output", str(report))
            assert run(["node", "--from", str(capture), *words]) == 0
        out = tmp_path / "fleet.json"
        run(["fleet", str(tmp_path / "reports"), "--format", "json", "--output", str(out)])
        return json.loads(out.read_text())

    return document


def ends(fault):
    return [(e["host"], e["nic"], e["bdf"], e["leaf"], str(e["leaf_port"]), e["expected_leaf"]) for e in fault["ends"]]


def test_rails_as_planned(fleet):
    document = fleet("good")
    rails = document["rails"]
    assert (document["verdict"], rails["why_none"], rails["faults"]) == ("healthy", None, [])
    assert rails["by"] == ["lldp", "subnet"]
    (pod,) = rails["pods"]
    assert [row["leaf"] for row in pod["leaves"]] == [f"leaf-rail{rail}" for rail in range(1, 9)]


def test_exchanged_cables_of_one_host(fleet):
    document = fleet("exchanged")
    (fault,) = document["rails"]["faults"]
    assert (fault["rule"], fault["severity"]) == ("RAIL001", "error")
    assert ends(fault) == [
        ("gpu03", "mlx5_2", "0000:4d:00.0", "leaf-rail6", "swp3", "leaf-rail3"),
        ("gpu03", "mlx5_7", "0000:bc:00.0", "leaf-rail3", "swp3", "leaf-rail6"),
    ]
    assert document["exclude"] == "gpu03"


def test_exchanged_cables_of_two_hosts(fleet):
    (fault,) = fleet("of two nodes")["rails"]["faults"]
    assert (fault["rule"], fault["severity"]) == ("RAIL001", "error")
    assert ends(fault) == [
        ("gpu02", "mlx5_1", "0000:3c:00.0", "leaf-rail5", "swp4", "leaf-rail2"),
        ("gpu04", "mlx5_6", "0000:9c:00.0", "leaf-rail2", "swp2", "leaf-rail5"),
    ]


def test_a_cable_on_another_rails_leaf(fleet):
    (fault,) = fleet("stray")["rails"]["faults"]
    assert (fault["rule"], fault["severity"]) == ("RAIL002", "error")
    assert ends(fault) == [("gpu01", "mlx5_9", "0000:dc:00.0", "leaf-rail1", "swp20", "leaf-rail8")]
