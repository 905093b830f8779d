"""Outputs of single tools as people post them: what must not be said of ports and GPUs that are as they should be.

Machines and identifiers are made up; the shapes are those of the real tools.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_posted import looked, loud, matrix, own_switch_each

from topocheck.report import Report


def roles(report: Report) -> dict[str, str | None]:
    return {d.id: d.role for d in report.devices if d.kind == "nic"}


def ibdev2netdev(*rows: str) -> str:
    """Rows "mlx5_0 enp1s0np0 Up" in the tool's words."""
    return "".join("{} port 1 ==> {} ({})\n".format(*row.split()) for row in rows)


RAILS = tuple(f"mlx5_{i} ibp{26 + i}s0 Down" for i in range(4))  # IPoIB is down everywhere: says nothing of the port


def test_a_second_port_without_cable_is_known_by_its_interfaces_name(tmp_path: Path) -> None:
    text = ibdev2netdev(*RAILS, "mlx5_4 enp61s0f0np0 Up", "mlx5_5 enp61s0f1np1 Down")
    report = looked(tmp_path, ibdev2netdev=text)
    assert loud(report) == []
    assert roles(report) == {f"mlx5_{i}": "compute" for i in range(4)} | {"mlx5_4": "storage", "mlx5_5": "storage"}


def test_ethernet_cards_beside_infiniband_ones_are_another_kind(tmp_path: Path) -> None:
    text = ibdev2netdev(*RAILS, "mlx5_4 enp61s0np0 Up", "mlx5_5 enp62s0np0 Down")
    assert loud(looked(tmp_path, ibdev2netdev=text)) == []


def test_the_second_port_of_a_card_whose_first_is_in_a_bond_is_no_rail(tmp_path: Path) -> None:
    # Rails have cards of one function, which systemd numbers without "f"; the other card has two.
    rails = (f"mlx5_{i} enp{25 + i}s0np0 Up" for i in range(8))
    text = ibdev2netdev(*rails, "mlx5_8 bond0 Up", "mlx5_9 enp83s0f1np1 Down")
    assert loud(looked(tmp_path, ibdev2netdev=text)) == []


def test_an_ethernet_rail_that_is_down_among_its_like_is_said(tmp_path: Path) -> None:
    text = ibdev2netdev(*(f"mlx5_{i} enp{26 + i}s0np0 {'Down' if i == 2 else 'Up'}" for i in range(8)))
    assert [line[:14] for line in loud(looked(tmp_path, ibdev2netdev=text))] == ["NET001 error m"]


PORT_DOWN = """CA 'mlx5_{i}'
\tCA type: {model}
\tNumber of ports: 1
\tPort 1:
\t\tState: Down
\t\tPhysical state: Disabled
\t\tRate: 10
\t\tLink layer: InfiniBand
"""


@pytest.mark.parametrize(("model", "repaired_gb_per_s"), [("MT4131", 196.0), ("MT9999", None)])
def test_the_rate_of_a_down_port_is_no_price(tmp_path: Path, model: str, repaired_gb_per_s: float | None) -> None:
    # ibstat's 10 is a placeholder; a ConnectX-8 (MT4131) carries 800 Gb/s: 100 GB/s, of which 98 % are achievable.
    text = "".join(PORT_DOWN.format(i=i, model=model) for i in range(2))
    report = looked(tmp_path, ibstat=text, nvidia_smi_topo__m=matrix(2, 2, own_switch_each))
    assert [f.rule for f in report.findings] == ["NET001"] * 2
    assert report.together is None or report.together.repaired_gb_per_s == repaired_gb_per_s
    assert [f.price is None for f in report.findings] == [repaired_gb_per_s is None] * 2


def nvlinks(*states: str) -> str:
    """`nvidia-smi nvlink -s` of one GPU that has 18 links; "" is a line that the poster cut."""
    return "GPU 0: NVIDIA H100 80GB HBM3\n" + "".join(
        f"\t Link {n}: {state}\n" if state else "\t [...]\n" for n, state in enumerate(states)
    )


def test_links_cut_out_of_a_posted_list_are_not_down(tmp_path: Path) -> None:
    rate = "26.562 GB/s"
    cut = nvlinks(rate, *[""] * 16, rate)
    counters = cut.replace(rate, "Replay Errors: 0")
    assert loud(looked(tmp_path, nvidia_smi_nvlink__s=cut)) == []
    assert loud(looked(tmp_path, nvidia_smi_nvlink__s=counters + cut)) == []
    some = nvlinks(rate, "<inactive>", *[""] * 15, rate)
    (said,) = loud(looked(tmp_path, nvidia_smi_nvlink__s=some))
    assert said.startswith("NVL001 error gpu0 has at most 17 of 18 NVLinks up (link 1 inactive)")


def gpus(report: Report) -> dict[str, str | None]:
    return {d.id: d.bdf for d in report.devices if d.kind == "gpu"}


def one_of(attached: int, bdf: str, *below: str) -> str:
    """`nvidia-smi -q -i N`: one GPU of those attached."""
    lines = (
        f"Attached GPUs                             : {attached}",
        f"GPU {bdf}",
        *(f"    {line}" for line in below),
    )
    return "\n==============NVSMI LOG==============\n\n" + "\n".join(lines) + "\n"


def test_a_gpu_asked_for_by_its_number_has_it(tmp_path: Path) -> None:
    asked = "".join(f"$ nvidia-smi -q -i {i}\n" + one_of(8, f"00000000:{i}1:00.0") for i in (2, 5))
    assert gpus(looked(tmp_path, post=asked)) == {"gpu2": "0000:21:00.0", "gpu5": "0000:51:00.0"}


def test_a_gpu_that_no_input_numbers_is_the_first_of_the_list(tmp_path: Path) -> None:
    assert gpus(looked(tmp_path, nvidia_smi__q=one_of(4, "00000001:C8:00.0"))) == {"gpu0": "0001:c8:00.0"}


ROW = "|   {i}  NVIDIA L40S                    On  |   00000000:{b}:00.0 Off |                    0 |\n"


def test_a_row_of_the_table_numbers_the_gpu_that_was_asked_for(tmp_path: Path) -> None:
    # The table's title was cut off.
    table = "".join(ROW.format(i=i, b=b) for i, b in ((3, "4E"), (4, "9A")))
    report = looked(tmp_path, nvidia_smi=table, nvidia_smi__q=one_of(8, "00000000:9A:00.0", "VBIOS Version : 95.02"))
    assert gpus(report) == {"gpu3": "0000:4e:00.0", "gpu4": "0000:9a:00.0"}
    assert [d.firmware for d in report.devices] == [None, "95.02"]


def test_a_slice_of_a_gpu_is_not_the_gpu(tmp_path: Path) -> None:
    slices = ("Active vGPUs : 1", "vGPU ID : 3251637554", "    PCI", "        Bus Id : 00000000:00:05.0")
    assert gpus(looked(tmp_path, nvidia_smi_vgpu__q=one_of(1, "00000000:1B:00.0", *slices))) == {"gpu0": "0000:1b:00.0"}


def test_gpus_beside_the_one_without_a_handle_are_there(tmp_path: Path) -> None:
    listing = "".join(
        f"0{i}:00.0 VGA compatible controller: NVIDIA Corporation GA104GL [RTX A4000] (rev a1)\n" for i in (1, 2, 3)
    )
    lost = "Unable to determine the device handle for GPU1: 0000:02:00.0: Unknown Error\n"
    report = looked(tmp_path, lspci=listing, nvidia_smi=lost)
    assert gpus(report) == {f"gpu{i}": f"0000:0{i + 1}:00.0" for i in range(3)}
    assert [(f.rule, f.severity, f.subjects) for f in report.findings] == [("GPU001", "error", ("gpu1",))]


@pytest.mark.parametrize(("board", "said"), [("No", ["PCI001"]), ("Yes", [])])
def test_the_lanes_of_a_gpu_on_a_board_of_several_are_the_boards(tmp_path: Path, board: str, said: list[str]) -> None:
    # nvidia-smi's Max is the chip's there; the board's own switch gives each GPU four of the slot's lanes.
    gen = ("PCI", "    GPU Link Info", "        PCIe Generation", "            Max : 4", "            Current : 4")
    width = ("        Link Width", "            Max : 16x", "            Current : 4x")
    name = ("Product Name : NVIDIA A16", f"MultiGPU Board : {board}", "Performance State : P0")
    text = one_of(1, "00000000:13:00.0", *name, *gen, *width)
    assert [line[:6] for line in loud(looked(tmp_path, nvidia_smi__q=text))] == said


def test_double_bit_errors_are_uncorrectable(tmp_path: Path) -> None:
    # As drivers print them of GPUs before the A100; only those since the driver's load count.
    def errors(volatile: int) -> str:
        kinds = {"Volatile": volatile, "Aggregate": 3}
        below = [
            line
            for kind, count in kinds.items()
            for line in (
                f"    {kind}",
                "        Single Bit",
                "            Total : 9",
                "        Double Bit",
                f"            Device Memory : {count}",
                f"            Total : {count}",
            )
        ]
        return one_of(1, "00000000:1B:00.0", "Product Name : Tesla V100-SXM2-32GB", "ECC Errors", *below)

    assert loud(looked(tmp_path, nvidia_smi__q=errors(0))) == []
    assert [line[:14] for line in loud(looked(tmp_path, nvidia_smi__q=errors(2)))] == ["GPU005 warning"]


def test_the_line_of_the_most_errors_is_shown(tmp_path: Path) -> None:
    heading = "GPU 0: Tesla V100-SXM2-32GB\n"
    text = "".join(f"{heading}\t Link 0: CRC Errors: {n}\n\t Link 1: CRC Errors: 0\n" for n in (8814, 65535))
    (found,) = (f for f in looked(tmp_path, nvidia_smi_nvlink__e=text).findings if f.rule == "NVL004")
    assert found.evidence[0].text == "Link 0: CRC Errors: 65535"


def test_buses_that_count_from_one_are_no_line_numbers(tmp_path: Path) -> None:
    listing = "".join(
        f"0{i}:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)\n" for i in range(1, 6)
    )
    wanted = {f"gpu{i}": f"0000:0{i + 1}:00.0" for i in range(5)}
    numbered = "".join(f"{n}:{line}\n" for n, line in enumerate(listing.splitlines(), 1))  # grep -n
    assert [gpus(looked(tmp_path, lspci=text)) for text in (listing, numbered)] == [wanted] * 2


@pytest.mark.parametrize("command", ["ibstatus", "ibdev2netdev", "show_gids", "rdma link", "fi_info -p efa", "dmesg"])
def test_prompts_of_two_hosts(tmp_path: Path, command: str) -> None:
    text = "".join(f"root@gpu0{n}:/# {command}\n{ibdev2netdev(f'mlx5_{n} enp1s0np0 Up')}" for n in (1, 2))
    report = looked(tmp_path, post=text)
    assert list(roles(report)) == ["mlx5_1"]
    assert any("two hosts" in gap.reason for gap in report.gaps)


def test_the_link_layer_of_old_cards(tmp_path: Path) -> None:
    text = PORT_DOWN.format(i=0, model="MT26428").replace("InfiniBand", "IB")
    (nic,) = looked(tmp_path, ibstat=text).devices
    assert [port.link_layer for port in nic.ports] == ["infiniband"]


def test_one_line_is_shown_once(tmp_path: Path) -> None:
    text = "link mlx5_0/1 state DOWN physical_state DISABLED netdev ens3np0\n"
    (found,) = looked(tmp_path, rdma_link=text).findings
    assert len(found.evidence) == 1


COUNTERS = (
    "Tx packets: 123456789", "Malformed packet Errors: 0", "Buffer overrun Errors: 0", "Rx Errors: 0", "Tx discards: 0",
    "Link recovery successful events: {n}", "Link recovery failed events: 0", "Total link recovery events: {n}",
    "Effective Errors: 0", "Effective BER: 15e-255", "Symbol Errors: 0", "FEC Errors - 0: 36140749276",
    "FEC Errors - 1: 9263", "Raw BER Lane 0: 2061", "Raw Errors Lane 0: 82", "PLR Xmit Blocks: 1234567890",
)  # fmt: skip


def blackwell_counters(recoveries: int) -> str:
    """`nvidia-smi nvlink -e` as drivers from 570 on print it of a B200 or B300."""
    links = (f"\t Link {link}: {c.format(n=recoveries * (link == 4))}\n" for link in range(18) for c in COUNTERS)
    return f"GPU 0: NVIDIA B300 SXM6 AC\n{''.join(links)}"


def test_counters_of_blackwells_links(tmp_path: Path) -> None:
    # What forward error correction has to do is no error; neither is its floor of a bit error rate.
    assert looked(tmp_path, post=blackwell_counters(0)).findings == ()
    (found,) = looked(tmp_path, post=blackwell_counters(2)).findings
    assert (found.rule, found.severity) == ("NVL004", "info")
    assert "most on link 4: 2 Link recovery successful at some time" in found.message
    assert found.evidence[0].text == "Link 4: Link recovery successful events: 2"


MEMORY = ("Channel Repair Pending : {channel}", "TPC Repair Pending : No", "Unrepairable Memory : {unrepairable}")


@pytest.mark.parametrize(
    ("channel", "unrepairable", "said"),
    [("No", "No", []), ("Yes", "No", [("GPU005", "info")]), ("Yes", "Yes", [("GPU005", "error")])],
)
def test_repairs_of_blackwells_memory(
    tmp_path: Path, channel: str, unrepairable: str, said: list[tuple[str, str]]
) -> None:
    lines = [f"    {line.format(channel=channel, unrepairable=unrepairable)}" for line in MEMORY]
    rows = ("Remapped Rows", "    Pending : No", "    Remapping Failure Occurred : No")
    text = one_of(1, "00000000:1B:00.0", "Product Name : NVIDIA B300 SXM6 AC", "ECC Errors", *lines, *rows)
    assert [(f.rule, f.severity) for f in looked(tmp_path, nvidia_smi__q=text).findings] == said


def test_infiniband_beside_efa_manages_nvlink(tmp_path: Path) -> None:
    card = PORT_DOWN.format(i=0, model="MT4129").replace("Down", "Active").replace("Disabled", "LinkUp")
    efa = "provider: efa\n    fabric: efa\n    domain: rdmap79s0-rdm\n    type: FI_EP_RDM\n"
    report = looked(tmp_path, ibstat=card.replace("Rate: 10", "Rate: 100"), fi_info=efa)
    assert roles(report) == {"mlx5_0": "management", "rdmap79s0": "compute"}


MISMATCH = "$ nvidia-smi\nFailed to initialize NVML: Driver/library version mismatch\n"
RTX8000_ROW = "|   0  Quadro RTX 8000     On   | 00000000:12:00.0 Off |                  Off |\n"


@pytest.mark.parametrize("mended", [True, False])
def test_a_driver_error_above_a_table_was_mended(tmp_path: Path, mended: bool) -> None:
    table = f"$ nvidia-smi\n{RTX8000_ROW}"
    post = MISMATCH + "After a reboot:\n" + table if mended else table + "After the update:\n" + MISMATCH
    report = looked(tmp_path, post=post)
    assert [d.bdf for d in report.devices if d.kind == "gpu"] == ["0000:12:00.0"]
    assert [f.rule for f in report.findings if f.severity == "error"] == ([] if mended else ["GPU003"])


@pytest.mark.parametrize(("column", "said"), [("0", []), ("Off", []), ("N/A", []), ("18", ["GPU005"])])
def test_memory_errors_that_the_table_counts(tmp_path: Path, column: str, said: list[str]) -> None:
    row = f"|   1  Tesla V100S-PCI...  Off  | 00000000:00:08.0 Off | {column:>20} |\n"
    report = looked(tmp_path, nvidia_smi=RTX8000_ROW + row)
    assert [f.rule for f in report.findings if f.severity == "warning"] == said


PORTS_GREPPED = {
    "ibstat": ("CA 'mlx5_{i}'\n\t\tState: {s}\n\t\tRate: 400\n", "Active", "Down"),
    "ibv_devinfo": ("hca_id:\tmlx5_{i}\n\t\t\tstate:\t\t\t{s}\n", "PORT_ACTIVE (4)", "PORT_DOWN (1)"),
}


@pytest.mark.parametrize("tool", PORTS_GREPPED)
def test_ports_without_the_lines_that_number_them(tmp_path: Path, tool: str) -> None:
    # `ibstat | grep -e CA -e State -e Rate`; two ports of mlx5_0, of which the second has no cable as all second ones
    card, up, down = PORTS_GREPPED[tool]
    cards = [card.format(i=i, s=down if i == 2 else up) for i in range(4)]
    assert [line[:14] for line in loud(looked(tmp_path, **{tool: "".join(cards)}))] == ["NET001 error m"]
    second = card.format(i=0, s=down).splitlines(keepends=True)[1:]
    two = looked(tmp_path, **{tool: cards[0] + "".join(second)})
    assert [[p.state for p in d.ports] for d in two.devices] == [["active", "down"]]


GREPPED = (
    "{bus}:00.0 3D controller: NVIDIA Corporation GH100 [H100 PCIe] (rev a1)\n\t\tLnkSta:\tSpeed 32GT/s, Width x{w}\n"
)


@pytest.mark.parametrize(("narrow", "said"), [(16, []), (8, ["PCI003"])])
def test_lanes_of_a_gpu_against_those_of_its_model(tmp_path: Path, narrow: int, said: list[str]) -> None:
    # `lspci -vv | grep -e NVIDIA -e LnkSta`: what a card can is not shown, but others of its model run at x16
    gpus = (GREPPED.format(bus=bus, w=narrow if bus == "65" else 16) for bus in ("17", "65", "ca", "e3"))
    found = looked(tmp_path, lspci="".join(gpus)).findings
    assert [f.rule for f in found if f.severity == "warning"] == said
    assert all("x8 now and can x16" in f.message for f in found)


def excerpt(section: str, *values: str) -> str:
    return "".join((f"    {section}\n", *(f"        {value}\n" for value in values), "--\n"))


def test_sections_that_grep_left_of_a_query(tmp_path: Path) -> None:
    # `grep -A` leaves no line that says whose section it is: they come in the order of the GPUs, or -i says it
    memory = [
        excerpt("Remapped Rows", "Correctable Error : 0", f"Remapping Failure Occurred : {x}") for x in ("No", "Yes")
    ]
    fabric = [excerpt("Fabric", "State : Completed", f"Status : {x}") for x in ("Success", "Insufficient Resources")]
    by_order = "$ nvidia-smi -q | grep -A 4 Remapped\n" + "".join(memory)
    by_number = (
        "$ nvidia-smi -q -i 3 | grep -A 2 Fabric\n"
        + fabric[1]
        + "$ nvidia-smi -q -i 0 | grep -A 2 Fabric\n"
        + fabric[0]
    )
    by_address = "$ nvidia-smi -q -i 0000:1b:00.0 | grep -A 2 Fabric\n" + fabric[1]
    errors = [excerpt("ECC Errors", "Volatile", f"    DRAM Uncorrectable : {n}", "Aggregate") for n in (0, 0, 2)]
    counted = "$ nvidia-smi -q | grep -A 3 'ECC Errors'\n" + "".join(errors)
    found = looked(tmp_path, post=by_order + by_number + by_address + counted).findings
    assert {(f.rule, *f.subjects) for f in found} == {("GPU005", "gpu1"), ("NVL005", "gpu3"), ("GPU005", "gpu2")}


TWO_LINES = """|   {i}  {name:<26} On  | 00000000:{i}7:00.0 Off |                    0 |
| N/A   38C    P0              62W / {cap}W |      4MiB / 81559MiB |      0%      Default |
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [("NVIDIA H100 80GB HBM3", ["GPU002"]), ("NVIDIA GeForce RTX 3090", []), ("NVIDIA A100-SXM...", [])],
)
def test_a_lower_power_limit_in_the_table(tmp_path: Path, name: str, said: list[str]) -> None:
    # makers of GeForce boards set other limits; a name that the table cut may be that of two models
    rows = (TWO_LINES.format(i=i, name=name, cap=350 if i == 2 else 700) for i in range(4))
    found = looked(tmp_path, nvidia_smi="".join(rows)).findings
    assert [f.rule for f in found if f.severity == "warning"] == said


@pytest.mark.parametrize("key", ["Pending", "Pending Page Blacklist"])
def test_pages_that_wait_for_their_retirement(tmp_path: Path, key: str) -> None:
    # drivers to 418 said "Pending"; before the A100 pages were retired, since then rows are remapped
    text = one_of(1, "00000000:1B:00.0", "Product Name : Tesla V100-PCIE-16GB", "Retired Pages", f"    {key} : Yes")
    assert [(f.rule, f.severity) for f in looked(tmp_path, nvidia_smi__q=text).findings] == [("GPU005", "info")]
