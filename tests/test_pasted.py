"""A ticket with several outputs in it says what the outputs say, whatever chats and mails made of them."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Callable

import nodes
import pytest

from topocheck.check import check
from topocheck.sources.hosts import of_one_host
from topocheck.sources.pasted import unpasted

CAPTURE = nodes.healthy("hgx-h100")
FILES = ("nvidia-smi_topo_-m", "lspci_-D_-nn_-vv", "ibstat", "numactl_-H", "lscpu", "nvidia-smi_nvlink_-s",
         "nvidia-smi_topo_-p2p_r")  # fmt: skip
OUTPUTS = {file: (CAPTURE / file).read_text() for file in FILES}


def fenced() -> str:
    blocks = (f"`{file.replace('_', ' ')}` says:\n```console\n{text}```\n" for file, text in OUTPUTS.items())
    return "Hi,\n\nallreduce is slow on this node since the update.\n\n" + "\n".join(blocks) + "\nThanks!\n"


def each(line: Callable[[str], str], text: str | None = None) -> str:
    return "".join(f"{line(one)}\n" for one in (text or fenced()).splitlines())


def numbered(form: str) -> str:
    return "".join(form.format(number, line) + "\n" for number, line in enumerate(fenced().splitlines(), 1))


PASTED = {
    "tildes": lambda: fenced().replace("```", "~~~"),
    "unclosed fence": lambda: fenced().removesuffix("```\n\nThanks!\n"),
    "a list's fences": lambda: each(lambda line: f"  {line}".rstrip()),
    "quoted": lambda: each(lambda line: f"> {line}".rstrip()),
    "quoted twice": lambda: "On Monday Jane wrote:\n" + each(lambda line: f"> > {line}".rstrip()),
    "four blanks": lambda: "\n".join(each(lambda line: f"    {line}", text) for text in OUTPUTS.values()),
    "details": lambda: "".join(f"<details>\n<pre>\n{text}</pre>\n</details>\n" for text in OUTPUTS.values()),
    "Jira": lambda: "".join(f"h3. {file}\n{{code}}\n{text}{{code}}\n" for file, text in OUTPUTS.items()),
    "mail": lambda: fenced().replace("\n", "\r\n"),
    "entities": lambda: fenced().replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
    "hard blanks": lambda: fenced().replace("  ", "\u00a0 "),
    "colours": lambda: re.sub(r"((?:GPU|NIC)\d+)", "\x1b[4m\\1\x1b[0m", fenced()),
    "colours spelled": lambda: re.sub(r"((?:GPU|NIC)\d+)", "^[[4m\\1^[[0m", fenced()),
    "kubectl": lambda: each(lambda line: f"[pod/worker-0/main] 2026-11-15T03:04:05.123456Z {line}"),
    "mpirun": lambda: each(lambda line: f"[1,0]<stdout>:{line}"),
    "mpirun 5": lambda: each(lambda line: f"[prterun-gpu017-4711@1,0]<stdout>: {line}"),
    "torchrun": lambda: each(lambda line: f"[default0]:{line}"),
    "pdsh": lambda: each(lambda line: f"gpu017: {line}"),
    "srun -l": lambda: each(lambda line: f"0: {line}"),
    "compose": lambda: each(lambda line: f"worker-1  | {line}"),
    "grep": lambda: each(lambda line: f"ticket.txt:{line}"),
    "grep -n": lambda: numbered("{}:{}"),
    "cat -n": lambda: numbered("{:6}\t{}"),
    "cat -n with blanks": lambda: numbered("{:6}  {}"),
    "a prompt above cat -n": lambda: "$ cat -n ticket.txt\n" + numbered("{:6}\t{}"),
    "an indented log": lambda: each(lambda line: f"    2026-11-15T03:04:05Z stdout F {line}"),
    "syslog": lambda: each(lambda line: f"Nov 15 03:04:05 gpu017 collect[4711]: {line}"),
    "journal": lambda: each(lambda line: f"2026-11-15T03:04:05+00:00 gpu017 collect[4711]: {line}"),
    "times": lambda: each(lambda line: f"[2026-11-15 03:04:05] {line}"),
    "a log": lambda: each(lambda line: f"2026-11-15 03:04:05,123 - INFO - {line}"),
    "a log with brackets": lambda: each(lambda line: f"[2026-11-15 03:04:05,123] [INFO] {line}"),
    "a log without times": lambda: each(lambda line: f"INFO:root:{line}"),
    "docker": lambda: each(lambda line: json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2026"})),
    "Ansible": lambda: '"out.stdout_lines": [\n' + each(lambda line: f"    {json.dumps(line)},") + "]\n",
    "HTML": lambda: f"<html><body><pre>{html.escape(fenced())}</pre></body></html>",
    "breaks": lambda: "<p>" + each(lambda line: f"{line}<br/>") + "</p>",
    "backslashes": lambda: each(lambda line: f"{line}\\"),
    "a window's border": lambda: each(lambda line: f"\u2502 {line:120} \u2502"),
    "zero-width": lambda: each(lambda line: f"\u200b{line}\u200b"),
    "all blanks hard": lambda: fenced().replace(" ", "\u00a0"),
    "broken hard blanks": lambda: fenced().replace("  ", "\u00c2\u00a0 "),
    "dashes": lambda: fenced().replace("-", "\u2013"),
    "quotes": lambda: fenced().replace("'", "\u2019").replace('"', "\u201d"),
    "colours without their escape": lambda: re.sub(r"((?:GPU|NIC)\d+)", "[4m\\1[0m", fenced()),
    "script": lambda: "\x1b[?2004l\r" + fenced().replace("\n", "\x1b[K\r\n") + "\x1b]0;root@gpu017\x07",
    "Markdown's source": lambda: fenced().replace("_", "\\_"),
    "old Mac": lambda: fenced().replace("\n", "\r"),
    "Ray": lambda: each(lambda line: f"(Worker pid=4711, ip=192.0.2.7) {line}"),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    file = tmp_path_factory.mktemp("plain") / "ticket.md"
    file.write_text(fenced())
    return check(str(file))


def test_a_ticket_with_several_outputs_is_one_node(plain):
    report, node = plain
    assert report.verdict == "healthy"
    assert (len(node.gpus), len(node.nics), node.machine.sockets) == (8, 10, 2)
    assert not report.gaps


@pytest.mark.parametrize("how", PASTED)
def test_however_it_was_pasted_it_is_the_same_node(how, plain, tmp_path):
    (tmp_path / "ticket.md").write_text(PASTED[how](), newline="")
    report, node = check(str(tmp_path / "ticket.md"))
    assert node.devices and [(d.id, d.bdf, d.numa_node, d.nvlinks_active, d.state) for d in node.devices] == [
        (d.id, d.bdf, d.numa_node, d.nvlinks_active, d.state) for d in plain.topology.devices
    ]
    assert node.classes == plain.topology.classes
    assert {key: link.width for key, link in node.links.items()} == {
        key: link.width for key, link in plain.topology.links.items()
    }
    assert len(node.p2p) == 1
    assert (report.verdict, report.findings, report.gaps) == ("healthy", (), ())


def test_of_two_hosts_in_one_text_only_the_first_is_read(tmp_path):
    matrix, cpus = OUTPUTS["nvidia-smi_topo_-m"], OUTPUTS["lscpu"]
    one = f"[root@gpu017 ~]# nvidia-smi topo -m\n{matrix}[root@gpu017 ~]# lscpu\n{cpus}"
    (tmp_path / "one.txt").write_text(one)
    assert not check(str(tmp_path / "one.txt")).report.gaps
    (tmp_path / "two.txt").write_text(f"{one}user@gpu018:~$ sudo ibstat\n{OUTPUTS['ibstat']}")
    report, node = check(str(tmp_path / "two.txt"))
    (gap,) = report.gaps
    assert gap.reason == "prompts of two hosts: only what gpu017 printed is read; give gpu018's output by itself"
    assert (len(node.gpus), {nic.state for nic in node.nics}) == (8, {"unknown"})


TWO = {
    "pdsh": lambda host, text: each(lambda line: f"{host}: {line}", text),
    "Ansible": lambda host, text: f"{host} | CHANGED | rc=0 >>\n{text}",
    "dshbak": lambda host, text: f"----------------\n{host}\n----------------\n{text}",
}


@pytest.mark.parametrize("how", TWO)
def test_of_two_hosts_marked_as_tools_mark_them_only_the_first_is_read(how, tmp_path):
    texts = [("gpu017", OUTPUTS["nvidia-smi_topo_-m"]), ("gpu018", OUTPUTS["ibstat"])]
    (tmp_path / "two.txt").write_text("".join(TWO[how](host, text) for host, text in texts))
    report, node = check(str(tmp_path / "two.txt"))
    (gap,) = report.gaps
    assert "of two hosts: only what gpu017 printed is read; give gpu018's output by itself" in gap.reason
    assert (len(node.gpus), {nic.state for nic in node.nics}) == (8, {"unknown"})


def test_the_lines_of_two_hosts_are_told_apart_where_they_are_mixed(tmp_path):
    matrix, other = OUTPUTS["nvidia-smi_topo_-m"], OUTPUTS["nvidia-smi_topo_-m"].replace("NV18", "SYS ")
    pairs = zip(matrix.splitlines(), other.splitlines(), strict=True)
    (tmp_path / "two.txt").write_text("".join(f"gpu017: {one}\ngpu018: {two}\n" for one, two in pairs))
    report, node = check(str(tmp_path / "two.txt"))
    assert {node.pair_class("gpu0", f"gpu{i}") for i in range(1, 8)} == {"NV18"}
    assert [gap.reason for gap in report.gaps] == [
        "lines of two hosts: only what gpu017 printed is read; give gpu018's output by itself"
    ]


def of_another_node() -> dict[str, str]:
    """The same tools on a node with four GPUs, another card's GUIDs, and links at half their width."""
    rows = OUTPUTS["nvidia-smi_topo_-m"].split("Legend:")[0].splitlines()
    four = "\n".join("\t".join(line.split("\t")[:5]) for line in rows[:5]) + "\n"
    links = OUTPUTS["nvidia-smi_nvlink_-s"].replace("UUID: GPU-", "UUID: GPU-f").replace("26.562 GB/s", "<inactive>")
    ports = re.sub(r"(GUID: 0x)[0-9a-f]{4}", r"\g<1>1070", OUTPUTS["ibstat"]).replace("State: Active", "State: Down")
    return {"nvidia-smi_topo_-m": four, "ibstat": ports, "nvidia-smi_nvlink_-s": links}


def test_what_an_unmarked_second_node_says_of_the_same_names_is_not_joined(plain, tmp_path):
    (tmp_path / "ticket.md").write_text(fenced() + "And the other node:\n" + "\n".join(of_another_node().values()))
    report, node = check(str(tmp_path / "ticket.md"))
    assert [(d.id, d.nvlinks_active, d.state) for d in node.devices] == [
        (d.id, d.nvlinks_active, d.state) for d in plain.topology.devices
    ]
    assert (report.verdict, report.findings) == ("healthy", ())
    assert {gap.input for gap in report.gaps} == {"nvidia-smi topo -m", "ibstat", "nvidia-smi nvlink -s"}
    assert {gap.reason for gap in report.gaps} == {
        "outputs of two nodes: only the first is read; give the other's by itself"
    }


def test_a_second_reading_after_a_gpu_was_lost_is_no_second_node(tmp_path):
    def listing(buses: list[str]) -> str:
        gpus = (f"GPU 00000000:{bus}:00.0\n    Product Name : NVIDIA H100 PCIe\n" for bus in buses)
        return f"Attached GPUs : {len(buses)}\n" + "".join(gpus)

    (tmp_path / "nvidia-smi_-q").write_text(listing(["1b", "43", "52"]) + listing(["1b", "52"]))
    assert not any("two nodes" in gap.reason for gap in check(str(tmp_path)).report.gaps)
    (tmp_path / "nvidia-smi_-q").write_text(listing(["1b", "43", "52"]) + listing(["2c", "61"]))
    report = check(str(tmp_path)).report
    assert [d.bdf for d in report.devices] == ["0000:1b:00.0", "0000:43:00.0", "0000:52:00.0"]
    assert any("two nodes" in gap.reason for gap in report.gaps)


def test_the_kernels_own_times_and_a_documents_entities_stay():
    for text in (
        "[    9.100000] nvidia: loaded\n" * 5,
        "[Sun Nov 15 03:04:05 2026] nvidia: loaded\n" * 5,
        "2026-11-15T03:04:05.123456+00:00 node-a kernel: nvidia: loaded\n" * 5,
        '<?xml version="1.0"?><topology><info value="a &lt; b"/></topology>\n',
        "node-a:100:200 [0] NCCL INFO x\n" * 5,
        "> one quoted line\nof three\nonly\n",
        OUTPUTS["numactl_-H"],
        *(
            f"{'CPU':>{width}} NODE SOCKET\n" + "".join(f"{i:{width}}    0      0\n" for i in range(64))
            for width in (3, 4, 5, 6, 7)
        ),
        "node 0 1\n" + "".join(f"{i:3}: {'20 ' * 32}\n" for i in range(32)) + "$ \n",
        "  1:  20  10  20\n  2:  20  20  10\n" + "  3:  20  20  20\n",
        "\t\tLnkSta:\tSpeed 16GT/s, Width x16\n" * 9,
        "NVRM: Xid (PCI:0000:1b:00): 79\n" * 9,
        "# export NCCL_IB_DISABLE=1\n" * 9,
        OUTPUTS["lspci_-D_-nn_-vv"],
        '"no \\q escape",\n"\\ud800 half a pair",\n' * 3,
    ):
        assert of_one_host(unpasted(text)) == (text, None)


@pytest.mark.parametrize(
    "unit",
    [
        "> ",
        "\x1b[",
        "\x1b]8;;",
        "^[[",
        "&lt;",
        "[a/",
        "(a pid=1",
        "2026-11-15T03:04:05",
        "<p ",
        '"\\',
        '{"log":"',
        "a1.",
        "a ",
        "1",
        "\u00a0",
        "----------\n",
        "a | ",
    ],
)
def test_a_text_made_of_marks_takes_linear_time(unit):
    text = unit * (8 << 20 >> 3)
    started = time.process_time()
    of_one_host(unpasted(text + "\n" + text[:1000]))
    assert time.process_time() - started < 2
