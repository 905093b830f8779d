"""A ticket with several outputs in it says what the outputs say, whatever chats and mails made of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import nodes
import pytest

from topocheck.check import check
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


def test_the_kernels_own_times_and_a_documents_entities_stay():
    for text in (
        "[    9.100000] nvidia: loaded\n" * 5,
        "[Sun Nov 15 03:04:05 2026] nvidia: loaded\n" * 5,
        "2026-11-15T03:04:05.123456+00:00 node-a kernel: nvidia: loaded\n" * 5,
        '<?xml version="1.0"?><topology><info value="a &lt; b"/></topology>\n',
        "node-a:100:200 [0] NCCL INFO x\n" * 5,
        "> one quoted line\nof three\nonly\n",
    ):
        assert unpasted(text) == text


@pytest.mark.parametrize("unit", ["> ", "\x1b[", "\x1b]8;;", "^[[", "&lt;", "[a/", "(a pid=1", "2026-11-15T03:04:05"])
def test_a_text_made_of_marks_takes_linear_time(unit):
    text = unit * (8 << 20 >> 3)
    started = time.process_time()
    unpasted(text + "\n" + text[:1000])
    assert time.process_time() - started < 2
