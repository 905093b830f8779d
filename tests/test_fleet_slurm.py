"""Reports collected through a real Slurm, by the kit's own lines: the fleet's report names exactly the bad nodes."""

import json
import re

import pytest
from slurm_cluster import NODES, running

from topocheck.kit import collecting

pytestmark = pytest.mark.real("slurmctld")

started = pytest.fixture(running, scope="module")


@pytest.fixture
def cluster(started):
    """Healthy, idle nodes whose prolog passes all: the gate would drain what is to be found here."""
    started.write_prolog(GATE="/bin/true")
    yield started
    started.at_rest()


def collect(cluster):
    """The kit's lines, run as they are printed; what they printed."""
    text = collecting("slurm")
    for name, value in {"REPORTS": cluster.folder / "reports.txt", "PARTITION": "main"}.items():
        text, count = re.subn(rf"^{name}=\S*", f"{name}={value}", text, flags=re.MULTILINE)
        assert count == 1, name
    script = cluster.folder / "collect.sh"
    script.write_text(text.replace("/usr/local/bin/topocheck", str(cluster.folder / "topocheck")))
    return cluster.run("/bin/sh", str(script))


def fleet(cluster, *words):
    return json.loads(cluster.run(str(cluster.folder / "topocheck"), "fleet", "--format", "json", *words))


def named(document):
    """Rule, device and hosts of what counts."""
    return {(g["rule"], g["device"], g["hosts"]) for g in document["groups"] if g["severity"] != "info"}


def test_standard_output_of_srun(cluster):
    """Three reports of 40 KB, each in forty pieces and all of them mixed."""
    cluster.break_node("n2", "gpu5-x8")
    screen = collect(cluster)
    assert re.search(r"\bn2\b", screen) and "PCI001" in screen, screen
    pieces = [line.lstrip()[:2] for line in (cluster.folder / "reports.txt").read_text().splitlines()]
    assert len(pieces) > 3 * 30 and set(pieces) == {"0:", "1:", "2:"}
    document = fleet(cluster, "reports.txt", "--expect", "n[1-3]")
    assert document["hosts"] == {"failed": "n2", "healthy": "n[1,3]", "degraded": "", "unknown": ""}
    assert named(document) == {("PCI001", "gpu5", "n2")}
    assert (document["exclude"], document["missing"], document["unexpected"]) == ("n2", "", "")
    assert sum(document["unread"].values()) == 0, document["unread_examples"]


def test_files_in_a_folder_that_all_nodes_share(cluster):
    """Two nodes with one fault are one row, the third has another; Slurm's own list takes what is to be left out."""
    (cluster.folder / "shared").mkdir()
    for node, fault in zip(NODES, ("mlx5_3-x8", "mlx5_3-x8", "gpu5-x8"), strict=True):
        cluster.break_node(node, fault)
    line = f"{cluster.folder}/topocheck node --format json --fail-on never --output shared/$SLURMD_NODENAME.json"
    cluster.run("srun", "-N3", "--ntasks-per-node=1", "sh", "-c", line)
    document = fleet(cluster, "shared", "--expect", "n[1-3]")
    assert document["nodes"] == 3
    assert named(document) == {("PCI001", "mlx5_3", "n[1-2]"), ("PCI001", "gpu5", "n3")}
    assert document["exclude"] == "n[1-3]"
    cluster.break_node("n1", None)
    cluster.run("srun", "-N3", "--ntasks-per-node=1", "sh", "-c", line)
    excluded = cluster.run(str(cluster.folder / "topocheck"), "fleet", "--format", "exclude", "shared").strip()
    assert excluded == "n[2-3]"
    assert cluster.run("srun", "-N1", "--exclude", excluded, "sh", "-c", "echo $SLURMD_NODENAME").strip() == "n1"


def test_a_node_that_does_not_answer_is_missing(cluster):
    cluster.run("scontrol", "update", "nodename=n3", "state=down", "reason=test")
    cluster.break_node("n1", "gpu5-x8")
    screen = collect(cluster)
    assert re.search(r"\bn3\b", screen), screen
    document = fleet(cluster, "reports.txt", "--expect", "n[1-3]")
    assert (document["missing"], document["nodes"], named(document)) == ("n3", 2, {("PCI001", "gpu5", "n1")})
