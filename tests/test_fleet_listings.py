"""Listings as they are found: of two hosts without a switch, of an old tool, of a part of the fabric, with names that
are the host's alone; a cable that is slow by what its own line says."""

import json

import pytest

from topocheck.cli import run


@pytest.fixture
def ask(tmp_path):
    """`topocheck fleet` on a listing: the answer's document, with its exit code."""

    def asked(text):
        (tmp_path / "listing").write_text(text)
        code = run(["fleet", "--format", "json", "--output", str(tmp_path / "answer"), str(tmp_path / "listing")])
        return json.loads((tmp_path / "answer").read_text()) | {"code": code}

    return asked


def blocks(*ports, kind="Switch:", arrow="{} Active/  LinkUp"):
    """iblinkinfo's block of a switch; each port: what is at it, its speed, what is said behind it."""
    lines = [f"{kind} 0xa088c20300ab1200 leaf01:"]
    for port, (name, speed, able) in enumerate(ports, 1):
        state = arrow.format(speed)
        lines.append(f'          73 {port:4}[  ] ==( {state})==> {port + 100:7}    1[  ] "{name}" ({able})')
    return (
        "\n".join([*lines, '          73   40[  ] ==(                Down/ Polling)==>             [  ] "" ( )']) + "\n"
    )


def hosts(*speeds, able=None):
    """One host a speed; `able`: number of a host → what its line says that both ends could."""
    return [(f"gpu{i:02} mlx5_0", speed, (able or {}).get(i, " ")) for i, speed in enumerate(speeds, 1)]


HDR, EDR, LANE, TWO = "4X  53.125 Gbps", "4X  25.78125 Gbps", "1X  53.125 Gbps", "2X  53.125 Gbps"


def said(answer):
    return [(f["rule"], f["severity"], f["message"].partition(";")[0]) for f in answer["rails"]["faults"]]


def slow(host, port, how):
    return [("NET002", "warning", f"gpu{host:02} mlx5_0 on leaf01 port {port} runs at {how}")]


def test_below_what_both_ends_support_is_named_with_both_ends(ask):
    answer = ask(blocks(*hosts(HDR, EDR, able={2: " Could be 53.125 Gbps"})))
    assert said(answer) == slow(2, 2, "4x EDR (100 Gb/s)")
    assert (answer["verdict"], answer["code"], answer["exclude"]) == ("degraded", 0, "")
    assert answer["rails"]["faults"][0]["ends"][0]["host"] == "gpu02"


def test_two_lanes_of_the_only_host(ask):
    assert said(ask(blocks(*hosts(TWO, able={1: "Could be 4X "})))) == slow(1, 1, "2x HDR (100 Gb/s)")


@pytest.mark.parametrize("able", [" Could be 53.125 Gbps", "Could be 12X ", "Could be 12X Could be 53.125 Gbps"])
def test_what_is_said_of_all_was_meant_to_be_so(ask, able):
    """EDR cables in an HDR switch; a simulator that claims 12 lanes of every port."""
    assert said(ask(blocks(*hosts(EDR, EDR, EDR, able=dict.fromkeys((1, 2, 3), able))))) == []


def test_what_is_said_of_a_login_node_and_of_all_others_was_meant_to_be_so(ask):
    able = " Could be 53.125 Gbps"
    assert said(ask(blocks(*hosts(EDR, EDR, able={1: able, 2: able}), ("login mlx5_0", EDR, able)))) == []


def test_a_single_lane_needs_no_sisters(ask):
    assert said(ask(blocks(*hosts(HDR, LANE, HDR)))) == slow(2, 2, "1x HDR (50 Gb/s)")
    assert said(ask(blocks(*hosts(HDR, LANE)))) == []
    assert said(ask(blocks(*hosts(HDR, "1X  999.9 Gbps", LANE, HDR)))) == slow(3, 3, "1x HDR (50 Gb/s)")
    assert said(ask(blocks(*hosts(LANE, LANE, LANE, HDR, HDR)))) == []  # ports split into lanes


def test_what_sisters_tell_is_told_once(ask):
    answer = ask(blocks(*hosts(HDR, LANE, HDR, HDR, HDR, able={2: "Could be 4X "})))
    assert [(f["rule"], f["severity"]) for f in answer["rails"]["faults"]] == [("NET002", "error")]


def test_a_trunk_below_what_both_ends_support(ask):
    answer = ask(
        blocks(("leaf02", EDR, " Could be 53.125 Gbps"), ("leaf02", HDR, " "), *hosts(HDR)[:1])
        + "Switch: 0xa088c20300ab1201 leaf02:\n"
        f'         101    1[  ] ==( {EDR} Active/  LinkUp)==>      73    1[  ] "leaf01" ( Could be 53.125 Gbps)\n'
    )
    assert said(answer) == [("NET002", "warning", "leaf01 port 1 – leaf02 port 1 runs at 4x EDR (100 Gb/s)")]


def test_the_block_of_an_old_iblinkinfo(ask):
    text = blocks(*hosts(HDR, HDR, HDR, LANE), kind="Switch", arrow="{} Active /   LinkUp")
    assert [m for _, _, m in said(ask(text))] == ["gpu04 mlx5_0 on leaf01 port 4 runs at 1x HDR (50 Gb/s)"]


def test_lines_of_hosts_alone_tell_their_switch(ask):
    """-l of which the switch's own lines are missing: one GUID at several ports is a switch."""
    lines = "\n".join(
        f'0xa088c20300ab13{i:02} "              gpu{i:02} mlx5_0" {i + 10:6}    1[  ] ==( {rate} Active/  LinkUp)==>  '
        f'0xa088c20300ab1200     73 {i:4}[  ] "leaf01" ( )'
        for i, rate in enumerate([HDR] * 4 + [EDR], 1)
    )
    answer = ask(lines)
    assert [m for _, _, m in said(answer)] == ["gpu05 mlx5_0 on leaf01 port 5 runs at 4x EDR (100 Gb/s)"]
    assert answer["nodes"] == 5


def test_a_fabric_file_that_is_no_listing_is_told(tmp_path):
    (tmp_path / "hosts").write_text('Ca\t: 0xa088c20300ab1300 ports 1 "gpu01 mlx5_0"\n')
    (tmp_path / "links").write_text(blocks(*hosts(HDR)))
    words = ["--fabric", str(tmp_path / "hosts"), "--fabric", str(tmp_path / "links")]
    run(["fleet", "--format", "json", "--output", str(tmp_path / "answer"), *words])
    notes = json.loads((tmp_path / "answer").read_text())["rails"]["notes"]
    assert notes == [f"{tmp_path / 'hosts'} is no output of ibnetdiscover, iblinkinfo or ibdiagnet"]


def ibnetdiscover(*ports):
    lines = [
        f'[{i}]\t"H-a088c20300ab13{i:02}"[1](a088c20300ab13{i:02}) \t\t# "{name}" lid {i + 10} {speed}'
        for i, (name, speed) in enumerate(ports, 1)
    ]
    head = 'switchguid=0xa088c20300ab1200(a088c20300ab1200)\nSwitch\t41 "S-a088c20300ab1200"\t\t# "leaf01" lid 73 lmc 0'
    return "\n".join([head, *lines]) + "\n"


def test_a_description_that_is_the_hosts_name_alone(ask):
    answer = ask(ibnetdiscover(*[(f"n{i:02}", "4xEDR") for i in range(1, 8)], ("n08", "4xSDR")))
    assert [m for _, _, m in said(answer)] == ["n08 on leaf01 port 8 runs at 4x SDR (10 Gb/s)"]
    assert (answer["nodes"], answer["exclude"]) == (8, "n08")


def test_lines_picked_out_with_grep(ask):
    """`iblinkinfo | grep Up`: no block names the port's own end; a LID at several ports is a switch."""
    own = [
        f"      0xa088c20300ab13{i:02} {i + 10:6}    1[  ] ==( {HDR} Active/  LinkUp)==>      73 {i:4}"
        for i in range(1, 6)
    ]
    text = "".join(f'{line}[  ] "leaf01" ( )\n' for line in own)
    for i in range(1, 6):
        rate = LANE if i == 5 else HDR
        text += f'          73 {i:4}[  ] ==( {rate} Active/  LinkUp)==>  {i + 10:6}    1[  ] "gpu{i:02} mlx5_0" ( )\n'
    answer = ask(text.replace(own[4], own[4].replace(HDR, LANE)))
    assert [m for _, _, m in said(answer)] == ["gpu05 mlx5_0 on leaf01 port 5 runs at 1x HDR (50 Gb/s)"]
    assert answer["nodes"] == 5


def test_a_remark_behind_the_device(ask):
    answer = ask(ibnetdiscover(*[(f"gpu{i:02} HCA-1 (Mellanox HCA)", "4xEDR") for i in range(1, 5)]))
    assert answer["nodes"] == 4


def test_a_box_with_several_switches_is_named_with_the_chip(ask):
    """Four Quantum-3 in one Q3400: one description, four GUIDs; a host's four planes are on one each."""
    text = ""
    for chip in range(1, 5):
        guid = f"a088c20300ab12{chip:02}"
        head = (
            f'switchguid=0x{guid}({guid})\nSwitch\t145 "S-{guid}"\t\t# "MF0;leaf01:Q3400_RA/U{chip}" lid {chip} lmc 0'
        )
        ports = [
            f'[{host}]\t"H-a088c20300ab13{host:02}"[{chip}](a088c20300ab{chip}3{host:02}) \t\t# "gpu{host:02} mlx5_0" '
            f"lid {host + 10} 1xXDR"
            for host in range(1, 6)
        ]
        text += "\n".join([head, *ports]) + "\n\n"
    answer = ask(text)
    assert said(answer) == []
    assert [leaf["switch"] for leaf in answer["rails"]["leaves"]] == [f"leaf01/U{chip}" for chip in range(1, 5)]


def lst(*ports):
    """ibdiagnet2.lst of hosts on a switch, each cable from both ends."""
    lines = []
    for i, (name, phy, speed) in enumerate(ports, 1):
        guid = f"a088c20300ab13{i:02}"
        host = f"{{ CA Ports:01 SystemGUID:{guid} NodeGUID:{guid} PortGUID:{guid} VenID:000002C9 DevID:00001021 "
        host += f"Rev:00000000 {{{name}}} LID:{i + 10:04X} PN:01 }}"
        leaf = "{ SW Ports:41 SystemGUID:a088c20300ab1200 NodeGUID:a088c20300ab1200 PortGUID:a088c20300ab1200 "
        leaf += f"VenID:000002C9 DevID:0000D2F2 Rev:000000A0 {{MF0;leaf01:MQM9700/U1}} LID:0049 PN:{i:02X} }}"
        lines += [f"{one} {other} PHY={phy} LOG=ACT SPD={speed}" for one, other in ((host, leaf), (leaf, host))]
    return "\n".join(lines) + "\n"


def test_the_list_of_ibdiagnet(ask):
    """Port 17 is 0x11."""
    ports = [(f"gpu{i:02} mlx5_0", "4x", "100") for i in range(1, 17)] + [("gpu17 mlx5_0", "4x", "2.5")]
    answer = ask(lst(*ports))
    assert [m for _, _, m in said(answer)] == ["gpu17 mlx5_0 on leaf01 port 17 runs at 4x SDR (10 Gb/s)"]
    assert (answer["nodes"], answer["exclude"]) == (17, "gpu17")
    assert said(ask(lst(*ports[:16]))) == []


PASTED = {
    "quoted": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "numbered": lambda text: "".join(f"{number:6}\t{line}\n" for number, line in enumerate(text.splitlines(), 1)),
    "HTML": lambda text: "<pre>\n" + text.replace('"', "&quot;") + "</pre>\n",
    "a pod's log": lambda text: "".join(f"[pod/diag-x7k2p/main] {line}\n" for line in text.splitlines()),
}


@pytest.mark.parametrize("how", PASTED)
def test_a_listing_as_mails_and_pages_have_it(ask, how):
    speeds = ["4xHDR"] * 8 + ["4xEDR"]
    text = ibnetdiscover(*[(f"n{i:02} mlx5_0", speed) for i, speed in enumerate(speeds, 1)])
    answer = ask(PASTED[how](text))
    assert [m for _, _, m in said(answer)] == ["n09 mlx5_0 on leaf01 port 9 runs at 4x EDR (100 Gb/s)"]


def with_models(text, models):
    """The CAs' own records behind the switch's, with device ids."""
    records = [
        f'devid={model}\ncaguid=0xa088c20300ab13{i:02}\nCa\t1 "H-a088c20300ab13{i:02}"\t\t# "n{i:02} mlx5_0"\n'
        f'[1](a088c20300ab13{i:02}) \t"S-a088c20300ab1200"[{i}]\t\t# lid {i + 10} lmc 0 "leaf01" lid 73 {speed}\n'
        for i, (model, speed) in enumerate(models, 1)
    ]
    return "\n".join([text, *records])


def test_another_model_of_card_is_not_compared(ask):
    """Eight nodes of the same name have got newer cards; in one of the others a cable is slow."""
    speeds = ["4xHDR"] * 8 + ["4xEDR"]
    text = ibnetdiscover(*[(f"n{i:02} mlx5_0", speed) for i, speed in enumerate(speeds, 1)])
    assert [m for _, _, m in said(ask(text))] == ["n09 mlx5_0 on leaf01 port 9 runs at 4x EDR (100 Gb/s)"]
    other = [("0x101b", speed) for speed in speeds[:8]] + [("0x1017", "4xEDR")]
    assert said(ask(with_models(text, other))) == []
    same = [("0x101b", speed) for speed in speeds]
    assert [m for _, _, m in said(ask(with_models(text, same)))] == [
        "n09 mlx5_0 on leaf01 port 9 runs at 4x EDR (100 Gb/s)"
    ]


def test_one_name_on_many_hosts_is_no_host(ask):
    answer = ask(ibnetdiscover(*[("ConnectX-6", "4xEDR")] * 7, ("ConnectX-6", "4xSDR")))
    assert said(answer) == []
    assert "several hosts go by this name" in " ".join(answer["rails"]["notes"])


NO_CABLE = {
    "two hosts, no switch": "CA: gpu01 mlx5_0:\n      0xa088c20300ab1301      4    1[  ] "
    '==( 4X  53.125 Gbps Active/  LinkUp)==>       3    1[  ] "gpu02 mlx5_0" ( )\n',
    "nothing plugged in": blocks(),
    "a host without a cable": 'caguid=0xa088c20300ab1300\nCa\t1 "H-a088c20300ab1300"\t\t# "gpu01 mlx5_0"\n',
    "ports without a cable": "SW  73 22 0xa088c20300ab1200 4x QDR                                   'leaf01'\n",
}


@pytest.mark.parametrize("what", NO_CABLE)
def test_where_no_cable_is_seen_nothing_is_known(ask, what):
    answer = ask(NO_CABLE[what])
    assert (answer["verdict"], answer["code"]) == ("unknown", 2)
