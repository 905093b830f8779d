"""Where the rules of missing and unlike NICs begin to speak: at the limits of rules.md, and one beside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from boards import hgx, hgx_node, nics, placed, said, unsaid
from nodesim.spec import Node, Port

from topocheck.expected import Baseline, EarlierDevice, Expected
from topocheck.facts import Evidence, Host, Matrix, PciListing, RdmaDevice
from topocheck.graph import Topology
from topocheck.model import Scenario
from topocheck.patches import AddNic, SetField

DGX = {"product": "NVIDIA DGXH100", "line": Evidence("dmi", None, "NVIDIA DGXH100")}
OCI = {"product": "OracleCloud.com", "line": Evidence("dmi", None, "OracleCloud.com")}
P5 = {"product": "Amazon EC2 p5.48xlarge", "line": Evidence("dmi", None, "Amazon EC2 p5.48xlarge")}


def lacking(count: int, *missing: int, **values: object) -> Node:
    """GPUs each with a NIC, of which some are not plugged."""
    node = hgx_node(count, **({"gpu": "l40s", "fabric": "none"} | values))  # type: ignore[arg-type]
    for uid in nics(*missing):
        node = node.changed(uid, lambda nic: None)
    return node


# --- NET005 and RAIL003


@pytest.mark.parametrize(
    ("count", "missing", "net005", "rail003"),
    [
        (5, (1, 3), True, True),  # two of five: fewer than half
        (4, (1, 2), False, True),  # half have one, half have none
        (6, (1, 2, 4), False, True),  # half
        (3, (1,), True, True),
        (5, (1, 2, 3), False, False),  # fewer than half have one
        (4, (), False, False),
    ],
)
def test_a_minority_without_a_nic(count: int, missing: tuple[int, ...], net005: bool, rail003: bool) -> None:
    board = placed(lacking(count, *missing))
    gpus = tuple(f"gpu{i}" for i in missing)
    for rule, told in (("NET005", net005), ("RAIL003", rail003)):
        found = board.said(rule)
        assert [(f.subjects, f.severity, f.expected_from) for f in found] == [(gpus, "warning", "equals")] * told
        for finding in found:
            assert finding.patches == tuple(AddNic(gpu, "mlx5_0") for gpu in gpus)
            assert finding.scenarios == (Scenario("node-nics"), *(Scenario("gpu-nic", gpu) for gpu in gpus))
            assert (finding.price_kind, finding.covers) == ("computed", frozenset(gpus))
            rows = [line.text.split()[0] for line in finding.evidence]
            assert rows == [f"GPU{i}" for i in missing][: 1 if rule == "NET005" else None]
            have = "has" if len(gpus) == 1 else "have"
            assert f"{', '.join(gpus)} {have} no compute NIC" in finding.message
            assert f", {count - len(gpus)} GPUs have one" in finding.message


def test_net005_does_not_ask_where_nics_are_tied_by_order_alone() -> None:
    node = placed(lacking(3, 1)).topology
    unsure = replace(node, devices=tuple(replace(d, tie_unsure=d.id == "mlx5_1") for d in node.devices))
    assert said(unsure, "NET005") == [] and unsaid(unsure, "NET005") == "in part"
    whole = placed(lacking(3)).topology
    unsure = replace(whole, devices=tuple(replace(d, tie_unsure=True) for d in whole.devices))
    assert unsaid(unsure, "NET005") == ""


def test_rail003_asks_where_there_are_fewer_nics_than_gpus() -> None:
    board = placed(lacking(4, 1, 2))
    assert board.levels("RAIL003") == {"g1": "warning"} and hgx(4).said("RAIL003") == []
    efa = board.changed(lambda f: replace(f, efa=True) if isinstance(f, RdmaDevice) else f)
    assert efa.unsaid("RAIL003") == "not applicable"
    one = board.device("n0", efa=True)
    assert one.unsaid("RAIL003") == "", "one of them alone is EFA"
    assert placed(lacking(2, 1)).unsaid("RAIL003") == "not applicable", "one compute NIC"
    assert placed(lacking(2)).unsaid("RAIL003") == ""


def test_rail003_a_shared_nic_is_nobodys_own() -> None:
    """Of five GPUs two have their own, one shares, two have none: fewer than half have one."""
    node = replace(lacking(5, 1, 2, 3), cells=((("g1", "n0"), "PIX"), (("n0", "g1"), "PIX")))
    assert placed(node).said("RAIL003") == []


def test_rail003_beside_grace_nics_are_beside_the_cpu() -> None:
    board = placed(lacking(4, 1))
    for uid in ("g0", "g1", "g2", "g3"):
        board = board.pci(uid, device_id="2941", name="NVIDIA Corporation GB200").state(uid, model="NVIDIA GB200")
    assert board.said("RAIL003") == []


def test_rail003_where_gpus_share_a_nic_on_their_switch() -> None:
    """The NIC of g0 is on the switch of g1 as well."""
    node = lacking(3, 1)
    shared = replace(node, cells=((("g1", "n0"), "PIX"), (("n0", "g1"), "PIX")))
    assert placed(shared).said("RAIL003") == []


@pytest.mark.parametrize(
    ("host", "severity"),
    [(DGX, "error"), (DGX | {"virtual": True}, "info"), (P5, "info")],
)
def test_net005_no_nic_at_all_where_the_platform_has_some(host: dict, severity: str) -> None:
    board = hgx(8, nic=None)
    if "virtual" in host:
        board = board.changed(lambda f: replace(f, virtual=None) if isinstance(f, Host) and f.virtual is False else f)
    board = board.host(**host)
    (found,) = board.said("NET005")
    assert (found.severity, found.expected_from, found.subjects) == (severity, "platform", ())
    assert (found.price_kind, found.patches, found.covers) == ("unknown", (), frozenset())
    assert found.evidence == (host["line"],)
    assert ("if attached at its launch" in found.message) == (severity == "info")
    assert board.host(container=True).unsaid("NET005") == "not applicable"
    excerpt = board.without(PciListing)
    assert excerpt.said("NET005") == [] and excerpt.unsaid("NET005") == "skipped"


def test_net005_no_nic_where_nothing_says_that_there_are_some() -> None:
    assert hgx(8, nic=None).unsaid("NET005") == "not applicable", "an HGX H100 is any maker's"
    assert hgx(4, nic=None).unsaid("NET005") == "not applicable"
    assert unsaid(replace(hgx(8, nic=None).host(**DGX).topology, devices=()), "NET005") == "not applicable"


def test_net005_fewer_than_the_platform_has() -> None:
    assert hgx().host(**DGX).said("NET005") == []
    board = placed(lacking(8, 1, gpu="h100", fabric="nvswitch")).host(**DGX)
    (found,) = board.said("NET005")
    assert (found.subjects, found.severity, found.expected_from) == (("gpu1",), "error", "platform")
    assert found.patches == (AddNic("gpu1", "mlx5_0"),) and found.price_kind == "computed"
    assert [line.text.split()[0] for line in found.evidence] == ["GPU1", "NVIDIA"]
    assert "gpu1 has fewer NICs than the others (7 compute NICs, DGX H100 has 8)" in found.message
    (found,) = placed(lacking(8, 1, 2, gpu="h100", fabric="nvswitch")).host(**DGX).said("NET005")
    assert found.patches == (AddNic("gpu1", "mlx5_0"), AddNic("gpu2", "mlx5_0")) and "gpu1, gpu2 have" in found.message


def test_net005_two_nics_a_gpu() -> None:
    """OCI's eight cards of two ports: one card gone is two NICs of one GPU; one port each is nobody's."""
    node = lacking(8, 1, gpu="h100", fabric="nvswitch", nic="cx7-dual", ports=(Port(), Port()))
    (found,) = placed(node).host(**OCI).said("NET005")
    assert found.patches == (AddNic("gpu1", "mlx5_0"), AddNic("gpu1", "mlx5_0"))
    assert found.scenarios == (Scenario("node-nics"), Scenario("gpu-nic", "gpu1"))
    (found,) = placed(lacking(8, gpu="h100", fabric="nvswitch", nic="cx7-dual")).host(**OCI).said("NET005")
    assert (found.subjects, found.severity, found.price_kind) == ((), "error", "unknown")
    assert [line.text.split()[0] for line in found.evidence] == ["GPU0", "OracleCloud.com"]
    assert found.message.startswith("8 compute NICs, OCI BM.GPU.H100.8 has 16")


def test_net005_a_function_of_the_compute_kind_without_a_device() -> None:
    board = placed(hgx_node(4).changed("n1", lambda nic: replace(nic, rdma=False)))
    bdf = board.bdf("n1")
    (found,) = board.said("NET005")
    assert (found.subjects, found.severity, found.expected_from) == ((bdf,), "warning", "equals")
    assert [line.text.split()[0] for line in found.evidence] == [bdf] and "Load its driver" in found.repair
    earlier = EarlierDevice("mlx5_1", "nic", bdf, "15b3:1021", None, "compute")
    other = earlier._replace(bdf="0000:fe:00.0")

    def before(*devices: EarlierDevice) -> Topology:
        baseline = Baseline("before.json", "2026-11-01T00:00:00Z", devices)
        return replace(board.topology, expected=Expected(baseline))

    (found,) = said(before(earlier), "NET005")
    assert (found.severity, found.expected_from) == ("error", "baseline") and "one did in the baseline" in found.message
    storage = said(before(earlier._replace(role="storage")), "NET005")
    assert [(f.severity, f.expected_from) for f in storage] == [("warning", "equals")]
    gone = said(before(other), "NET005")
    assert [f.severity for f in gone] == ["warning"], "as many as before: none is gone"
    two = placed(lacking(4, 3).changed("n1", lambda nic: replace(nic, rdma=False)))
    assert [f.subjects for f in two.said("NET005")] == [(two.bdf("n1"),)], "whose GPU lacks it is not said twice"


def test_net005_no_rdma_device_at_all() -> None:
    line = Evidence("ibv_devices", 1, "no devices")
    board = hgx(4).without(RdmaDevice).without(Matrix).host(no_rdma_device=True, line=line)
    (found,) = board.said("NET005")
    assert found.subjects == tuple(board.bdf(f"n{i}") for i in range(4)) and found.severity == "warning"
    for count, words in (
        (2, "{0} and {1}: no RDMA device stands for any of the 2"),
        (1, "{0} is a card of the compute"),
    ):
        few = hgx(count).without(RdmaDevice).without(Matrix).host(no_rdma_device=True, line=line)
        bdfs = [few.bdf(f"n{i}") for i in range(count)]
        assert few.said("NET005")[0].message.startswith(words.format(*bdfs))
    assert found.message == "no RDMA device stands for any of the 4 compute NICs on the bus"
    assert [line.text.split()[0] for line in found.evidence] == ["no", board.bdf("n0")]
    # The cards are on the bus: in another network namespace their devices are not seen, whatever was seen before.
    devices = (EarlierDevice("mlx5_0", "nic", board.bdf("n0"), None, None, "compute"),)
    expected = Expected(Baseline("before.json", "2026-11-01T00:00:00Z", devices))
    (found,) = said(replace(board.topology, expected=expected), "NET005")
    assert (found.severity, found.confidence, found.expected_from) == ("warning", "medium", "baseline")
    assert "namespace" in found.repair


def test_net005_gone_since_the_baseline() -> None:
    board = placed(lacking(4, 1))
    earlier = tuple(EarlierDevice(f"mlx5_{i}", "nic", f"0000:{i}:00.0", None, None, "compute") for i in (7, 8, 9))
    kept = tuple(EarlierDevice(n.id, "nic", n.bdf, n.pci_id, None, "compute") for n in board.topology.compute_nics)
    baseline = Baseline("before.json", "2026-11-01T00:00:00Z", (*kept, earlier[0]))
    (found,) = said(replace(board.topology, expected=Expected(baseline)), "NET005")
    assert (found.severity, found.expected_from, found.subjects) == ("error", "baseline", ("0000:7:00.0",))
    assert found.patches == (AddNic("gpu1", "mlx5_0"),) and [line.input for line in found.evidence] == ["before.json"]


# --- NET006


@pytest.mark.parametrize("field", ["firmware", "board_id"])
@pytest.mark.parametrize(
    ("values", "odd"),
    [
        ("AAB", [2]),  # two of two equals
        ("AB", []),
        ("AABCD", [2, 3, 4]),  # two of four
        ("AABCDE", []),  # two of five
        ("AAAB", [3]),
        ("AAA", []),
        ("AA-B", [3]),  # one was not read
        ("---A", []),
    ],
)
def test_net006_half_of_the_equals_and_two_have_another(field: str, values: str, odd: list[int]) -> None:
    board = hgx(len(values), gpu="l40s", fabric="none")
    for i, value in enumerate(values):
        board = board.device(f"n{i}", **{field: None if value == "-" else f"MT_{value}"})
    board = replace(board, compute_nics="mlx5_*")
    found = board.said("NET006")
    assert [f.subjects for f in found] == [tuple(f"mlx5_{i}" for i in odd)] * bool(odd)
    for finding in found:
        assert (finding.severity, finding.effect, finding.expected_from) == ("info", "none", "equals")
        assert finding.patches == tuple(SetField(f"mlx5_{i}", field, "MT_A") for i in odd)
        assert len(finding.evidence) == 1
        assert ("one release" in finding.repair) == (field == "firmware")


def test_net006_of_other_models_and_roles() -> None:
    node = hgx_node(4)
    node = node.changed("n3", lambda nic: replace(nic, part_key="cx6-hdr"))
    assert replace(placed(node), compute_nics="mlx5_*").said("NET006") == [], "another model has another firmware"
    typeless = placed(node).changed(lambda f: replace(f, model=None) if isinstance(f, RdmaDevice) else f)
    assert replace(typeless, compute_nics="mlx5_*").said("NET006") == []
    assert placed(node).said("NET006") == [], "it is no compute NIC"
    many = hgx(4).device("n3", firmware="old")
    assert [f.subjects for f in many.said("NET006")] == [("mlx5_3",)]
    header = many.device("n3", line=None).said("NET006")
    assert len(header[0].evidence) == 1
    assert many.device("n3", line=None).pci("n3", lines={}).said("NET006")[0].evidence == ()
    efa = many.device("n0", efa=True).device("n1", efa=True).device("n2", efa=True)
    assert efa.unsaid("NET006") == "not applicable", "EFA devices are not judged"
    for uid in nics(0, 1, 2, 3):
        many = many.pci(uid, vf_of="0000:f0:00.0")
    assert many.unsaid("NET006") == "not applicable", "nor are virtual functions"


def test_net006_one_card_with_two_link_layers() -> None:
    lines = {"link_layer": Evidence("ibstat", 4, "Link layer")}
    board = hgx(4, nic="cx7-dual", ports=(Port(), Port()))
    assert board.said("NET006") == []
    mixed = board.port("n0.1", link_layer="infiniband", lines=lines)
    found = [f for f in mixed.said("NET006") if f.severity == "warning"]
    assert [(f.subjects, f.expected_from) for f in found] == [(("mlx5_0", "mlx5_1"), "equals")]
    assert found[0].evidence[-1].text == "Link layer" and "one card, two link layers" in found[0].message
    assert found[0].patches == tuple(SetField(f"mlx5_{i}", "link_layer", "ethernet", 1) for i in (0, 1))


def test_net006_a_stranger_beside_a_gpu_without_a_nic() -> None:
    board = hgx(4).port("n1", link_layer="ethernet")
    (found,) = board.said("NET006")
    assert (found.subjects, found.severity, found.covers) == (("mlx5_1",), "warning", {"gpu1"})
    assert found.patches == (SetField("mlx5_1", "link_layer", "infiniband", 1),)
    assert [line.text for line in found.evidence] == ["link_layer: infiniband"]
    assert "beside gpu1, 3 of its kind are infiniband" in found.message
    bare = board.port("n1", lines={}).said("NET006")
    assert [len(f.evidence) for f in bare] == [1], "else its header"
    assert board.port("n1", lines={}).device("n1", line=None).pci("n1", lines={}).said("NET006")[0].evidence == ()
    near = replace(hgx_node(4), cells=((("g1", "n1"), "PXB"), (("n1", "g1"), "PXB")))
    assert [f.covers for f in placed(near).port("n1", link_layer="ethernet").said("NET006")] == [{"gpu1"}]
    assert board.device("n1", board_id="MT_other").said("NET006") == [], "another card"
    elsewhere = replace(hgx_node(4), cells=((("g1", "n1"), "SYS"), (("n1", "g1"), "SYS")))
    assert [f for f in placed(elsewhere).port("n1", link_layer="ethernet").said("NET006") if f.covers] == []
    two = board.port("n2", link_layer="ethernet")
    assert [f.subjects for f in two.said("NET006")] == [("mlx5_1",), ("mlx5_2",)]


def test_net006_of_what_was_not_read() -> None:
    mute = hgx(3)
    for uid in nics(0, 1, 2):
        mute = mute.device(uid, firmware=None, board_id=None).port(uid, link_layer=None)
    assert mute.unsaid("NET006") == "skipped" and hgx(3).unsaid("NET006") == ""
    assert mute.port("n0", link_layer="ethernet").unsaid("NET006") == ""
    assert mute.device("n0", firmware="1").unsaid("NET006") == ""
    assert hgx(1).unsaid("NET006") == "not applicable" and hgx(2).unsaid("NET006") == ""
