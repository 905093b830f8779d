"""The traps of peers.md section 6 that lie in links, NVLinks and measuring (test_traps.py has the others); the number
is the row's."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import nodes
import pytest
from nodesim import capture, place
from nodesim.faults import changing
from nodesim.shapes import Shape, build
from test_traps import LSPCI, MATRIX, changed, loud, without

from topocheck.check import Checked, check
from topocheck.probes import asked
from topocheck.probes.gather import gather
from topocheck.sources.open import open_source

QUERY = "nvidia-smi_-q_-x"


def faulty(folder: Path, node: str, name: str) -> Checked:
    """The node's capture with a fault of its edits.toml."""
    return check(str(nodes.apply(node, nodes.edit(node, name), folder)))


def rules(checked: Checked) -> list[str]:
    """The rules that say something above info."""
    return [f.rule for f in checked.report.findings if f.severity != "info"]


def rewritten(node: str, file: str, *pairs: tuple[str, str]) -> nodes.Change:
    """A file with regular expressions replaced all over; each must match."""
    text = (nodes.healthy(node) / file).read_text()
    for pattern, by in pairs:
        text, times = re.subn(pattern, by, text)
        assert times, f"{node}/{file}: nothing matches {pattern!r}"
    return nodes.Change(file, text=text)


def in_block(node: str, bdf: str, old: str, new: str) -> nodes.Change:
    """One function of lspci's text changed."""
    return nodes.Change(LSPCI, at=f"^{bdf} ", replace=old, by=new)


def test_trap_01_a_link_at_gen1_is_asleep_where_the_gpu_is_idle_and_slow_where_it_works(tmp_path: Path) -> None:
    idle = check(str(nodes.healthy("pcie-box")))
    own = [idle.topology.links[g.bdf] for g in idle.topology.gpus if g.bdf]
    assert [link.speed_gts for link in own] == [2.5] * 8 and loud(idle) == []
    unproven = next(s for s in idle.report.skipped if s.rule == "PCI002")
    assert "8 asleep" in unproven.reason, "not called sound either"
    without_pstate = without(tmp_path / "no-pstate", "pcie-box", (QUERY,))
    assert loud(without_pstate) == []
    assert loud(faulty(tmp_path / "p0", "pcie-box", "gpu5-gen3-in-p0"), "PCI002")


def test_trap_02_speed_may_differ_between_samples_width_may_not(tmp_path: Path) -> None:
    """lspci and nvidia-smi are two samples: one saw the GPU's link asleep, the other awake."""
    awake = nodes.Change(
        QUERY,
        at='<gpu id="00000000:23:00.0">',
        replace="<current_link_gen>1</current_link_gen>\n\t\t\t\t\t<device_current_link_gen>1<",
        by="<current_link_gen>4</current_link_gen>\n\t\t\t\t\t<device_current_link_gen>4<",
    )
    flapping = changed(tmp_path / "speed", "pcie-box", awake)
    assert loud(flapping) == [] and not flapping.report.disagreements
    narrow = faulty(tmp_path / "width", "pcie-box", "gpu2-asleep-at-x8")
    (finding,) = [f for f in narrow.report.findings if f.rule == "PCI001"]
    assert (finding.severity, finding.confidence) == ("warning", "medium"), "strong evidence, no proof"


def test_trap_03_a_card_in_a_slower_slot_is_capped_not_degraded(tmp_path: Path) -> None:
    capped = faulty(tmp_path / "slot", "hgx-h100", "mlx5_2-slot-gen4")
    assert rules(capped) == ["PCI003"] and capped.report.verdict == "degraded"
    degraded = faulty(tmp_path / "link", "hgx-h100", "mlx5_6-gen4")
    assert rules(degraded) == ["PCI002"] and degraded.report.verdict == "failed"


def test_trap_04_nvswitches_bmc_and_audio_functions_are_not_judged_by_their_links(tmp_path: Path) -> None:
    audio = (
        "0000:19:00.1 Audio device [0403]: NVIDIA Corporation Device [10de:22ba] (rev a1)\n"
        "\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n"
        "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported\n"
        "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x1 (downgraded)\n\n0000:1a:00.0 "
    )
    changes = (
        in_block("hgx-h100", "0000:83:00.0", "LnkSta:\tSpeed 16GT/s, Width x2", "LnkSta:\tSpeed 2.5GT/s, Width x1"),
        in_block("hgx-h100", "0000:00:0e.0", "LnkSta:\tSpeed 5GT/s", "LnkSta:\tSpeed 2.5GT/s"),
        nodes.Change(LSPCI, replace="0000:1a:00.0 ", by=audio),
    )
    checked = changed(tmp_path / "others", "hgx-h100", *changes)
    assert "0000:19:00.1" in checked.topology.functions and loud(checked) == []
    assert rules(faulty(tmp_path / "gpu", "hgx-h100", "gpu5-x8")) == ["PCI001"]


def test_trap_06_the_hop_inside_a_switch_is_no_link(tmp_path: Path) -> None:
    node = check(str(nodes.healthy("hgx-h100"))).topology
    inside = [f.bdf for f in node.functions.values() if f.port_type == "downstream"]
    assert inside and not set(inside) & set(node.links), "a downstream port's LnkSta is of the link below it"
    gpu = node.by_id["gpu0"]
    assert {link.id for link in node.path_up(gpu)} == {"0000:19:00.0", "0000:16:00.0"}
    narrow = faulty(tmp_path, "hgx-h100", "gpu5-x8")  # both ends of the link say x8: one link, one finding
    assert [(f.rule, f.subjects) for f in narrow.report.findings if f.severity != "info"] == [("PCI001", ("gpu5",))]


@pytest.mark.parametrize("word", ["", " (ok)"])
def test_trap_07_a_fault_needs_no_downgraded_and_a_sound_link_no_ok(word: str, tmp_path: Path) -> None:
    """pciutils up to 3.7 prints "(ok)", later ones nothing; ports print neither."""
    folder = nodes.apply("hgx-h100", nodes.edit("hgx-h100", "gpu5-x8"), tmp_path)
    text = (folder / LSPCI).read_text()
    assert "(downgraded)" in text
    plain = re.sub(r"(LnkSta:\tSpeed [\d.]+GT/s)( \(\w+\))?(, Width x\d+)( \(\w+\))?", rf"\1{word}\3{word}", text)
    (folder / LSPCI).write_text(plain)
    assert "(downgraded)" not in plain
    assert rules(check(str(folder))) == ["PCI001"]


def test_trap_12_a_pcie_link_that_contradicts_itself_is_not_judged_where_there_is_none(tmp_path: Path) -> None:
    """A Grace part: generation 1 of max 1, width 1, while device and host maximum say 5."""
    names = ("max_link_gen", "current_link_gen", "device_current_link_gen")
    gens = [(rf"<{name}>5<", f"<{name}>1<") for name in names]
    widths = [(rf"<{name}>16x<", f"<{name}>1x<") for name in ("max_link_width", "current_link_width")]
    query = rewritten("gb200-tray", QUERY, *gens, *widths)
    assert "<max_device_link_gen>5<" in (query.text or "")
    ends = [
        in_block("gb200-tray", bdf, "LnkSta:\tSpeed 32GT/s, Width x16", "LnkSta:\tSpeed 2.5GT/s, Width x1")
        for bdf in ("0008:00:00.0", "0008:01:00.0")
    ]
    undependable = changed(tmp_path / "width", "gb200-tray", *ends)  # lspci alone says so; a fault on any other GPU
    assert undependable.topology.links["0008:01:00.0"].width == 1 and loud(undependable) == []
    assert loud(changed(tmp_path / "both", "gb200-tray", query, *ends)) == []
    alone = without(tmp_path / "alone", "gb200-tray", (LSPCI, "ib*", "rdma_link"), query)
    assert len(alone.topology.gpus) == 4 and loud(alone) == []
    assert rules(faulty(tmp_path / "nic", "gb200-tray", "mlx5_3-x8")) == ["PCI001"], "its NICs have real links"


CARDS = Shape(gpu="h100-pcie", groups=4, per_group=1, switched=False, nested="", nics="cpu", nic="cx7-ndr", each=1,
              second_port="down", storage="cx4lx", storage_count=1, sockets=2, numa_per_socket=1, cpu="intel",
              slot_gen=5, nic_slot_gen=5, asleep=False, bridged=True, pooled=True, mig=False)  # fmt: skip


@pytest.mark.parametrize("bridged", [True, False])
def test_trap_17_cards_have_the_links_of_their_bridges_not_those_of_the_die(bridged: bool, tmp_path: Path) -> None:
    node = build(replace(CARDS, bridged=bridged))
    sound = check(str(capture(place(node), tmp_path / "sound")))
    links = {gpu.nvlinks_active or 0 for gpu in sound.topology.gpus}
    assert links == ({12} if bridged else {0}) and sound.topology.gpus[0].part is not None
    assert sound.topology.gpus[0].part.nvlinks == 18
    assert loud(sound, "NVL001", "NVL002", "NVL004", "P2P004") == []
    if bridged:
        ill = changing("g1", links_down=frozenset({2}))(node)
        assert loud(check(str(capture(place(ill), tmp_path / "ill"))), "NVL001", "NVL002", "NVL004")


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("In Progress", "N/A"),
        ("Not Started", "N/A"),
        ("Completed", "Insufficient Resources"),
        ("Completed", "Unknown Error"),
    ],
)
def test_trap_18_trained_nvlinks_do_not_make_a_fabric(state: str, status: str, tmp_path: Path) -> None:
    fabric = nodes.Change(
        QUERY,
        at='<gpu id="00000000:BB:00.0">',
        replace="<state>Completed</state>\n\t\t\t<status>Success</status>",
        by=f"<state>{state}</state>\n\t\t\t<status>{status}</status>",
    )
    checked = changed(tmp_path, "hgx-h100", fabric)
    assert [g.nvlinks_active for g in checked.topology.gpus] == [18] * 8, "every link is up"
    assert loud(checked) == ["NVL005 ('gpu5',)"] and checked.report.verdict == "failed"


def test_trap_18_registered_in_no_cluster_is_not_registered(tmp_path: Path) -> None:
    """A compute tray: Completed, Success, but a cluster UUID of zeros. A board that is no part of a rack has none."""
    fault = nodes.edit("gb200-tray", "gpu1-in-no-cluster")
    assert loud(check(str(nodes.apply("gb200-tray", fault, tmp_path)))) == ["NVL005 ('gpu1',)"]
    board = check(str(nodes.healthy("hgx-h100"))).topology
    assert {g.gpu.fabric_cluster for g in board.gpus if g.gpu} == {False}


def test_trap_23_an_efa_that_is_not_ready_yet_turns_no_job_away(tmp_path: Path) -> None:
    """Just booted: the function is on the bus, its RDMA device is not there. One look; the next one sees it."""
    folder = nodes.apply("p5-vm", nodes.Edit("p5-vm", "trap", "", (), (), nodes.Expect("", "info")), tmp_path)
    (info,) = folder.glob("fi_info*")
    info.write_text("---\n".join(b for b in info.read_text().split("---\n") if "rdmap96s0" not in b))
    for file, pattern in (
        ("ibv_devinfo_-v", r"(?ms)^hca_id:\trdmap96s0.*?(?=^hca_id|\Z)"),
        ("rdma_link", r"link rdmap96s0.*\n"),
    ):
        text = (folder / file).read_text()
        (folder / file).write_text(re.sub(pattern, "", text))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["realpath"] = {key: value for key, value in manifest["realpath"].items() if "rdmap96s0" not in key}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    checked = check(str(folder))
    assert len(checked.topology.compute_nics) == 31
    assert loud(checked) == ["NET005 ('0000:60:00.0',)"], "said of the very card"
    assert checked.report.verdict == "degraded", "no error: it is there, nothing proves it broken"


def cards_of_eight_lanes(width: int) -> list[nodes.Change]:
    """pcie-box with GPUs of eight lanes in its x16 slots; the first one trained to `width`."""
    blocks = (nodes.healthy("pcie-box") / LSPCI).read_text().split("\n\n")
    for i, block in enumerate(blocks):
        if "[10de:26b9]" in block:
            lanes = width if block.lstrip().startswith("0000:03:00.0") else 8
            block = re.sub(r"(LnkCap:\t.*Width )x16", r"\1x8", block)
            blocks[i] = re.sub(r"(LnkSta:\t.*Width )x16", rf"\1x{lanes}", block)
    query = rewritten("pcie-box", QUERY, ("<max_link_width>16x", "<max_link_width>8x"),
                      ("<current_link_width>16x", "<current_link_width>8x"))  # fmt: skip
    first = (query.text or "").replace("<current_link_width>8x", f"<current_link_width>{width}x", 1)
    return [nodes.Change(LSPCI, text="\n\n".join(blocks)), nodes.Change(QUERY, text=first)]


def test_trap_25_a_card_of_eight_lanes_is_whole_at_eight(tmp_path: Path) -> None:
    sound = changed(tmp_path / "x8", "pcie-box", *cards_of_eight_lanes(8))
    assert {sound.topology.links[g.bdf].width for g in sound.topology.gpus if g.bdf} == {8}
    assert loud(sound) == []
    assert loud(changed(tmp_path / "x4", "pcie-box", *cards_of_eight_lanes(4))) == ["PCI001 ('gpu0',)"]


def test_trap_27_nothing_is_measured_and_a_measured_figure_is_no_fault(tmp_path: Path) -> None:
    commands, _ = asked()
    assert not [c for c in commands if re.search(r"_perf|_bw\b|_lat\b|bandwidth|nvbandwidth|dcgmi|iperf|pktgen", c)]
    slow = "#       size         count      type   redop    root     time   algbw   busbw\n"
    slow += "  8589934592    2147483648     float     sum      -1    99999    1.20    2.10\n"
    untouched = without(tmp_path / "without", "hgx-h100", ("manifest.json",))
    log = nodes.Change("nccl-tests.txt", text=slow)  # a name that is read: without a manifest every file is looked at
    measured = without(tmp_path / "with", "hgx-h100", ("manifest.json",), log)
    assert measured.report.verdict == untouched.report.verdict == "healthy"
    assert [f.rule for f in measured.report.findings] == [f.rule for f in untouched.report.findings]


def addresses(text: str, pattern: str) -> set[str]:
    return set(re.findall(pattern, text, re.MULTILINE))


@pytest.mark.parametrize("name", nodes.names())
def test_trap_29_a_fixture_writes_addresses_as_each_real_tool_does(name: str) -> None:
    """nvidia-smi prints eight upper-case digits of domain, lspci -D and /sys four lower-case ones. A fixture that had
    our own form everywhere would hide the difference."""
    folder = nodes.healthy(name)
    query = next(folder.glob("nvidia-smi_-q*")).read_text()
    by_smi = addresses(query, r'^(?:\t<gpu id="|GPU )([0-9A-Fa-f]+:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)')
    by_lspci = addresses((folder / LSPCI).read_text(), r"^([0-9a-f]+:[0-9a-f]{2}:[0-9a-f]{2}\.\d) (?:3D|VGA).*NVIDIA")
    assert by_smi and all(re.fullmatch(r"[0-9A-F]{8}:[0-9A-F]{2}:00\.0", bdf) for bdf in by_smi)
    assert all(re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:00\.0", bdf) for bdf in by_lspci)
    assert {bdf[4:].lower() for bdf in by_smi} == by_lspci, "and they are the same devices"


@pytest.mark.parametrize("name", nodes.names())
def test_trap_29_every_text_of_a_fixture_is_one_its_probe_reads_alone(name: str, tmp_path: Path) -> None:
    folder = nodes.healthy(name)
    texts = [file for file in sorted(folder.iterdir()) if file.is_file() and file.name != "manifest.json"]
    assert MATRIX in {file.name for file in texts}
    for file in texts:
        alone = tmp_path / file.name
        alone.write_text(file.read_text())
        facts = list(gather(open_source(str(alone))))
        assert facts, f"{file.name}: no probe reads a fact in it"
