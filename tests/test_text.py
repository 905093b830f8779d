"""The screen, by reports built by hand: its look, its widths, and that no capture can speak to the terminal."""

from dataclasses import replace

import pytest
from reports import EMPTY, FAULTY, GPUS, HEALTHY, NICS, ORDERING, STORAGE, WIDTH, link, nic, row

from topocheck.facts import Evidence, Gap, RdmaPort
from topocheck.finding import Price
from topocheck.formats import text
from topocheck.report import Coverage, Device, GpuRow, Numa, PcieLink, Skipped

FAULTY_SCREEN = """\
HGX H100 · 8 GPUs · 8 compute + 2 storage NICs · 2 sockets   gpu017 2026-11-20
FAILED  1 error, 1 warning   40 rules ran, 3 not applicable, 5 skipped (-v)
driver 580.95.05  kernel 6.8.0  fabric 8/8

 x PCI001 mlx5_3 PCIe 5.0 x8 of x16: gpu3 -> mlx5_3 GPUDirect RDMA 26.9 of 49.0
          GB/s (−45 %)
          lspci -vv:2143  LnkSta: Speed 32GT/s, Width x8 (downgraded)
          7 peers run x16. Reseat the card or its riser
 ! PCI009 mlx5_6 relaxed ordering off, 7 peers on
          lspci -vv:3000  DevCtl: RlxdOrd-
          Set it on in the NIC's firmware

 GPU bus PCIe   NVLink NUMA NIC    bus PCIe     class port       RDMA GB/s
 0   19  5.0x16 18/18  0    mlx5_0 1a  5.0x16   PIX   400 Active 49.0
 1   3b  5.0x16 18/18  0    mlx5_1 3c  5.0x16   PIX   400 Active 49.0
 2   4c  5.0x16 18/18  0    mlx5_2 4d  5.0x16   PIX   400 Active 49.0
 3   5d  5.0x16 18/18  0    mlx5_3 5e  5.0x8 x  PIX   400 Active 26.9 x
 4   9b  5.0x16 18/18  1    mlx5_6 9c  5.0x16 ! PIX   400 Active 49.0 !
 5   bb  5.0x16 18/18  1    mlx5_7 bc  5.0x16   PIX   400 Active 49.0
 6   cb  5.0x16 18/18  1    mlx5_8 cc  5.0x16   PIX   400 Active 49.0
 7   db  5.0x16 18/18  1    mlx5_9 dc  5.0x16   PIX   400 Active 49.0
 storage  mlx5_4 200 Active · mlx5_5 200 Active
 not seen: lspci was run without root: ACS not shown · kernel log needs root
"""


def screen(report, *, verbose=False, width=80, color=False, ascii=False):  # noqa: A002
    return text.render(report, verbose=verbose, width=width, color=color, ascii=ascii)


def hostile():
    """A node whose every name would take the terminal over, or be read as rich markup."""
    evil = "\x1b]0;owned\x07\x1b[2J[bold red]名前‮\x9b31m\r\n\udcff"
    gpu = replace(GPUS[0], model=evil, id="gpu0" + evil)
    card = replace(NICS[0], id=evil, ports=(RdmaPort(1, evil),), role_reason=evil)
    finding = replace(
        WIDTH, subjects=(evil,), message=evil * 30, repair=evil, evidence=(Evidence(evil, 1, evil * 200),), name=evil
    )
    return replace(
        HEALTHY, verdict="failed", platform=evil, driver=evil, devices=(gpu, card), findings=(finding,) * 5,
        rows=(GpuRow(gpu, link("19"), evil, (card,), None, evil, 1.0),), gaps=(Gap(evil, evil),),
        skipped=(Skipped("PCI001", False, evil),), assumptions=(evil,), settings=(evil,),
        source=HEALTHY.source._replace(kind="text", name=evil), verdict_reason=evil, not_applicable=((evil, evil),),
    )  # fmt: skip


def many_nics():
    cards = tuple(nic(i, f"{i + 64:02x}", role="storage") for i in range(63))
    return replace(EMPTY, devices=cards, verdict="unknown")


def dark():
    """Devices of which nothing but the name is known."""
    gpus = tuple(Device(f"gpu{i}", "gpu") for i in range(16))
    rows = tuple(GpuRow(gpu, None, None, (), None, None, None) for gpu in gpus)
    return replace(EMPTY, devices=(*gpus, Device("NIC0", "nic")), rows=rows)


def all_faulty():
    """Two errors on every device, and every rule skipped."""
    findings = tuple(
        replace(f, subjects=(d.id,), message=f"{d.id} {f.message}")
        for f in (WIDTH, replace(WIDTH, rule="PCI002"), ORDERING, replace(ORDERING, rule="NET003", severity="info"))
        for d in (*GPUS, *NICS)
    )
    skipped = tuple(Skipped(f"PCI0{i:02}", False, f"reason number {i} of very many") for i in range(40))
    return replace(HEALTHY, verdict="failed", findings=findings, skipped=skipped)


REPORTS = {
    "healthy": HEALTHY,
    "faulty": FAULTY,
    "empty": EMPTY,
    "only NUMA nodes": replace(EMPTY, numa_nodes=(Numa(0, None, None, None),)),
    "63 NICs": many_nics(),
    "nothing known": dark(),
    "all faulty": all_faulty(),
    "hostile": hostile(),
}


def test_a_faulty_node_is_one_screen():
    assert screen(FAULTY) == FAULTY_SCREEN


def test_a_healthy_node_is_the_same_without_the_findings():
    lines = screen(HEALTHY).splitlines()
    assert lines[1] == "HEALTHY  40 rules ran, 3 not applicable, 5 skipped (-v)"
    assert lines[4:6] == [
        " GPU bus PCIe   NVLink NUMA NIC    bus PCIe   class port       RDMA GB/s",
        " 0   19  5.0x16 18/18  0    mlx5_0 1a  5.0x16 PIX   400 Active 49.0",
    ]
    assert " x " not in screen(HEALTHY)


@pytest.mark.parametrize("width", [*range(40, 120, 7), 200])
@pytest.mark.parametrize("name", REPORTS)
def test_no_line_is_wider_than_the_terminal(name, width):
    from rich.cells import cell_len

    for verbose in (False, True):
        page = screen(REPORTS[name], width=width, verbose=verbose)
        assert max(cell_len(line) for line in page.splitlines()) <= width


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_scrolls(name):
    assert screen(REPORTS[name]).count("\n") <= 40


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("name", REPORTS)
def test_ascii_and_plain(name, verbose):
    page = screen(REPORTS[name], verbose=verbose, ascii=True)
    assert page.isascii()
    assert all(char == "\n" or char.isprintable() for char in page)
    assert not any(line != line.rstrip() for line in page.splitlines())


def test_ascii_keeps_the_figures():
    page = screen(FAULTY, ascii=True)
    assert "HGX H100 | 8 GPUs | 8 compute + 2 storage NICs | 2 sockets" in page
    assert "GB/s (-45 %)" in page


@pytest.mark.parametrize("verbose", [False, True])
def test_a_capture_cannot_speak_to_the_terminal(verbose):
    page = screen(hostile(), verbose=verbose)
    assert not {char for char in page if not char.isprintable()} - {"\n"}
    assert "\\x1b]0;owned\\x07\\x1b[2J[bold red]" in page


def test_color_is_only_the_styles_of_rich():
    page = screen(hostile(), color=True)
    escapes = {part[: part.index("m")] for part in page.split("\x1b[")[1:]}
    assert escapes
    assert all(set(escape) <= set("0123456789;") for escape in escapes)
    assert "\x1b" not in screen(FAULTY)


def test_no_fault_seen_is_not_healthy():
    blind = replace(HEALTHY, coverage=Coverage(12, 28, 8), skipped=(Skipped("PCI001", False, "no lspci"),) * 28)
    assert screen(blind).splitlines()[1] == ("NO FAULT SEEN by the 12 rules that could run; 28 skipped: no lspci (-v)")
    half = replace(HEALTHY, coverage=Coverage(20, 20, 8))
    assert screen(half).splitlines()[1].startswith("HEALTHY  20 rules ran")


def test_unknown_says_why():
    assert screen(EMPTY).splitlines() == [
        "no GPU · no NIC   capture 2026-11-20",
        "UNKNOWN  no GPU was seen   0 rules ran, 8 not applicable, 40 skipped (-v)",
    ]


def test_many_findings_of_one_rule_share_an_entry():
    findings = tuple(replace(WIDTH, subjects=(n.id,), message=f"{n.id} x8 of x16") for n in NICS)
    assert screen(replace(FAULTY, findings=findings)).splitlines()[4:8] == [
        " x PCI001 mlx5_0 x8 of x16",
        "          and 7 more: mlx5_1 · mlx5_2 · mlx5_3 · mlx5_6 · mlx5_7 · mlx5_8 ·",
        "                      mlx5_9",
        "          lspci -vv:2143  LnkSta: Speed 32GT/s, Width x8 (downgraded)",
    ]


def test_info_is_a_line_and_full_in_verbose():
    note = replace(ORDERING, severity="info", message="mlx5_6 " + "relaxed ordering off " * 10)
    report = replace(HEALTHY, findings=(note,))
    assert "1 note" in screen(report).splitlines()[1]
    assert screen(report).splitlines()[4].endswith("…")
    assert " ".join(screen(report, verbose=True).split()).count("relaxed ordering off") == 10


def test_only_the_worst_entries_show_their_evidence_and_only_some_notes_are_shown():
    warnings = tuple(replace(ORDERING, rule=f"PCI00{i}", message=f"mlx5_6 warning {i}") for i in range(6))
    notes = tuple(replace(ORDERING, rule=f"NET00{i}", severity="info", message=f"mlx5_6 note {i}") for i in range(9))
    lines = screen(replace(HEALTHY, findings=(*warnings, *notes))).splitlines()
    assert sum("RlxdOrd-" in line for line in lines) == 4
    assert sum("mlx5_6 warning" in line for line in lines) == 6
    assert sum("mlx5_6 note" in line for line in lines) == 6
    assert "   and 3 more notes (-v)" in lines


def test_a_note_marks_nothing_in_the_table():
    note = replace(HEALTHY, findings=(replace(ORDERING, severity="info"),))
    assert screen(note).splitlines()[-11:] == screen(HEALTHY).splitlines()[-11:]


def test_a_waived_finding_counts_nowhere():
    waived = replace(WIDTH, waived=True, waiver="until 2027-03-31: riser by order")
    page = screen(replace(HEALTHY, findings=(waived,)))
    assert page.splitlines()[1].startswith("HEALTHY  1 waived   40 rules ran")
    assert page.splitlines()[4].startswith(" - PCI001 waived until 2027-03-31: riser by order; mlx5_3")
    assert "waived until 2027-03-31: riser by order" in " ".join(
        screen(replace(HEALTHY, findings=(waived,)), verbose=True).split()
    )
    assert " x" not in page.replace("-> mlx5_3", "").split("GPU bus")[1]


def test_several_nics_of_a_gpu_are_counted_and_their_rates_summed():
    four = tuple(nic(i, bus, 100.0) for i, bus in enumerate(("1a", "1b", "1c", "1d")))
    down = replace(four[3], ports=(RdmaPort(1, "down", "polling", 10.0),))
    rows = (row(0)._replace(nics=four), row(1)._replace(nics=(*four[:3], down)))
    lines = screen(replace(HEALTHY, rows=rows)).splitlines()
    assert "mlx5_0 +3" in lines[5]
    assert "400 Active" in lines[5]
    assert "300 3/4 Active" in lines[6]


def test_a_sleeping_link_shows_the_speed_it_can_and_the_lanes_it_has():
    asleep = row(0)._replace(link=link("19", width=8, speed_gts=2.5, asleep=True))
    assert " ~5.0x8 " in screen(replace(HEALTHY, rows=(asleep,)))


def test_what_nobody_read_is_left_out_or_a_question_mark():
    unread = PcieLink(None, "0000:3b:00.0", None, None)
    rows = tuple(row(i)._replace(nvlinks=None, link=unread if i else link("19"), rdma_gb_per_s=None) for i in (0, 1))
    lines = screen(replace(HEALTHY, rows=rows)).splitlines()
    assert lines[4:7] == [
        " GPU bus PCIe   NUMA NIC    bus PCIe   class port",
        " 0   19  5.0x16 0    mlx5_0 1a  5.0x16 PIX   400 Active",
        " 1   3b  ?      0    mlx5_1 3c  5.0x16 PIX   400 Active",
    ]


def test_not_seen_names_what_is_missing_and_counts_the_rest():
    reasons = ["no PCIe link field in the input"] * 3 + [f"no output {i} of a tool in the input" for i in range(9)]
    report = replace(HEALTHY, skipped=tuple(Skipped(f"PCI00{i % 9}", False, why) for i, why in enumerate(reasons)))
    assert screen(report).splitlines()[-2:] == [
        " not seen: PCIe link field · output 0 of a tool · output 1 of a tool · output 2",
        "           of a tool · output 3 of a tool · output 4 of a tool +4",
    ]


def test_gaps_are_named_where_no_rule_was_skipped():
    gaps = (Gap("nvidia-smi -L", "not loaded"), Gap("dmesg", "needs root"), Gap("nvidia-smi topo -m", "not loaded"))
    assert screen(replace(EMPTY, gaps=gaps)).splitlines()[-1] == (
        " not seen: nvidia-smi -L and 1 more: not loaded · dmesg: needs root"
    )


def test_models_are_called_by_their_common_name():
    for model, name in (
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA Corporation GH100 [H100 SXM5]", "H100 SXM5"),
    ):
        report = replace(HEALTHY, platform=None, devices=(replace(GPUS[0], model=model), *NICS))
        assert screen(report).splitlines()[0].startswith(f"{name} · 1 GPU · 8 compute NICs")
    mixed = replace(HEALTHY, platform=None, devices=(*GPUS[:2], replace(GPUS[2], model="NVIDIA L4")))
    assert screen(mixed).splitlines()[0].startswith("H100 80GB HBM3 and 1 other model · 3 GPUs · no NIC")


def test_narrow_screens_keep_what_matters():
    assert " GPU PCIe   NIC    class RDMA GB/s" in screen(FAULTY, width=40).splitlines()


@pytest.mark.parametrize(
    ("addresses", "shown"),
    [
        (("0000:19:00.0", "0000:3b:00.0"), ("19", "3b")),
        (("0000:00:05.0", "0000:00:06.0"), ("00:05", "00:06")),
        (("0001:00:00.0", "0002:00:00.0"), ("0001:00", "0002:00")),
        (("10000:01:00.0", "10000:02:00.0"), ("10000:01", "10000:02")),
    ],
)
def test_the_bus_is_as_long_as_it_takes_to_tell_gpus_apart(addresses, shown):
    rows = tuple(row(i)._replace(gpu=replace(GPUS[i], bdf=bdf), nics=()) for i, bdf in enumerate(addresses))
    lines = screen(replace(HEALTHY, rows=rows)).splitlines()
    assert tuple(line.split()[1] for line in lines[5:7]) == shown


def test_only_nics_are_listed_by_role():
    page = screen(replace(EMPTY, devices=(*NICS[:2], *STORAGE)))
    assert page.splitlines()[0] == "no GPU · 2 compute + 2 storage NICs   capture 2026-11-20"
    assert " compute  mlx5_0 400 Active · mlx5_1 400 Active" in page


def test_what_does_not_fit_is_counted():
    report = many_nics()
    last = [line for line in screen(report).splitlines() if line.strip()][-1]
    listed = screen(report).count("mlx5_")
    assert last.endswith(f"+{63 - listed}")


def test_all_repairs_together_are_shown_where_there_are_several():
    price = Price("node NICs", 310.7, 392.0, 0.2074, None, "computed")
    two = (WIDTH, replace(WIDTH, subjects=("mlx5_6",)))
    line = "   all repaired: node NICs 310.7 of 392.0 GB/s (−21 %)"
    assert line in screen(replace(FAULTY, findings=two, together=price)).splitlines()
    assert "all repaired" not in screen(replace(FAULTY, findings=(WIDTH,), together=price))


def test_verbose_says_the_rest():
    page = " ".join(screen(FAULTY, verbose=True).split())
    for said in (
        "lspci -vv:2100 LnkSta: Speed 32GT/s, Width x8",
        "repair: 7 peers run x16. Reseat the card or its riser",
        "confidence high, expected from both ends, effect: slows",
        "price: gpu3 -> mlx5_3 GPUDirect RDMA 26.9 of 49.0 GB/s, loss 45.1 %, slowest GPU 26.9 of 49.0 GB/s, computed",
        "explains: PCI004 mlx5_3",
        "skipped - P2P002: lspci was run without root: ACS not shown",
        "PCI001: in part: 6 of 10 links",
        "not applicable - NET007: no RoCE port",
        "not read - dmesg: needs root",
        "gpu0 numa_node: 0 by lspci -vv, 1 by nvidia-smi topo -m; used: 0",
        "assumed - MaxPayload assumed 256 bytes where it was not read",
        "mlx5_4, mlx5_5: storage",
    ):
        assert said in page


def test_what_a_fault_costs_elsewhere_is_said():
    for worst_loss, said in ((0.5, ", at most 50.0 % in another scenario"), (0.451, "")):
        price = replace_price(worst_loss=worst_loss)
        page = " ".join(screen(replace(FAULTY, findings=(price,)), verbose=True).split())
        assert f"GB/s, loss 45.1 %{said}, slowest GPU" in page


def replace_price(**changed):
    return replace(WIDTH, price=WIDTH.price._replace(**changed))


def test_a_row_as_wide_as_the_screen_is_not_cut():
    wide = tuple(replace(NICS[i], id="mlx5_00000000" + str(i)) for i in range(2))
    lines = screen(replace(HEALTHY, rows=tuple(row(i)._replace(nics=(wide[i],)) for i in range(2)))).splitlines()
    assert [len(line) for line in lines[4:7]] == [80, 75, 75]
    assert lines[5].endswith(" 49.0")


def test_a_typical_price_is_a_range():
    price = Price("gpu0 -> mlx5_0 GPUDirect RDMA", None, 49.0, None, (0.35, 0.55), "typical")
    page = " ".join(screen(replace(FAULTY, findings=(replace(WIDTH, price=price),)), verbose=True).split())
    assert "GPUDirect RDMA of 49.0 GB/s, typical loss 35–55 %, typical" in page
