"""What people attach: one node gives the same findings however it is wrapped, and hostile wrappings cost little."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import resource
import subprocess
import sys
import tarfile
from pathlib import Path

import attachments
import nodes
import pytest

from topocheck.check import check
from topocheck.errors import SourceError
from topocheck.probes.gather import gather, recognised
from topocheck.report import Report
from topocheck.sources.base import Missing, Raw
from topocheck.sources.open import open_source

NODE = "hgx-h100"
FAULTS = (None, "mlx5_3-x8", "mlx5_8-polling", "gpu2-one-nvlink", "gpu5-xid-119", "gpu5-x8", "gpu6-fabric-in-progress")
# Rules that the capture decides and the attachment cannot, with the input that is missing there.
CANNOT = {
    "archive": set(),
    "sosreport": {
        "NVL002",  # nvidia-smi topo -m
        "P2P001",  # nvidia-smi topo -p2p
        "P2P004",  # the environment, topo -m
    },
    "bug-report": {
        "NVL002",
        "P2P001",
        "P2P004",
        "NET004",  # ibv_devinfo -v
    },
}


def wrapped(capture: Path, kind: str, folder: Path) -> Path:
    if kind == "bug-report":
        return attachments.bug_report(capture, folder / "nvidia-bug-report.log.gz")
    if kind == "archive":
        return attachments.tar(capture, folder / "c.tar.bz2", "w:bz2")
    sos = attachments.sosreport(capture, folder)
    return attachments.tar(sos, folder / "sos.tar.xz", "w:xz", sos.name)


def said(report: Report, without: set[str] = frozenset()) -> list[tuple[str, str, tuple[str, ...], object]]:
    return [
        (f.rule, f.severity, f.subjects, f.price.loss if f.price else None)
        for f in report.findings
        if f.rule not in without
    ]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", CANNOT)
def test_one_node_says_the_same_however_it_is_wrapped(kind: str, fault: str | None, tmp_path: Path) -> None:
    capture = nodes.apply(NODE, nodes.edit(NODE, fault), tmp_path) if fault else nodes.healthy(NODE)
    plain = check(str(capture)).report
    report = check(str(wrapped(capture, kind, tmp_path))).report
    assert report.source.kind == kind
    assert said(report) == said(plain, CANNOT[kind])
    assert report.verdict == plain.verdict
    assert [d.id for d in report.devices] == [d.id for d in plain.devices]
    assert not report.gaps
    skipped = {s.rule for s in report.skipped if not s.partial} - {s.rule for s in plain.skipped if not s.partial}
    assert skipped == CANNOT[kind]


def test_a_sosreport_folder_and_its_archive_are_one(tmp_path: Path) -> None:
    sos = attachments.sosreport(nodes.healthy(NODE), tmp_path)
    folder = gather(open_source(str(sos)))
    for mode, name in (("w", "s.tar"), ("w:gz", "s.tgz"), ("w:xz", "s.tar.xz")):
        assert gather(open_source(str(attachments.tar(sos, tmp_path / name, mode, sos.name)))) == folder


def test_what_sosreport_says_of_its_commands_counts(tmp_path: Path) -> None:
    sos = attachments.sosreport(nodes.healthy(NODE), tmp_path)
    listed = json.loads((sos / "sos_reports/manifest.json").read_text())
    commands = listed["components"]["report"]["plugins"]["all"]["commands"]
    commands.append({"exec": "nvidia-smi nvlink -R", "filepath": "sos_commands/nvidia/x", "return_code": 124})
    commands.append({"exec": "ibstat", "filepath": "sos_commands/infiniband/ibstat", "truncated": True})
    (sos / "sos_commands/nvidia/x").write_text("")
    (sos / "sos_reports/manifest.json").write_text(json.dumps(listed))
    gaps = {(item.input, item.reason) for item in open_source(str(sos)).texts([], []) if isinstance(item, Missing)}
    assert ("nvidia-smi nvlink -R", "sosreport stopped it at its time limit") in gaps
    assert ("ibstat", "sosreport kept only its last part: the beginning is missing") in gaps


def test_settings_without_numa_balancing_are_a_gap(tmp_path: Path) -> None:
    (tmp_path / "sysctl_-a").write_text("abi.vsyscall32 = 1\nkernel.acct = 4 2 30\n")
    assert [fact.reason for fact in gather(open_source(str(tmp_path)))] == ["kernel.numa_balancing is not in it"]


def test_evidence_of_a_bug_report_counts_lines_below_the_command(tmp_path: Path) -> None:
    capture = nodes.apply(NODE, nodes.edit(NODE, "mlx5_8-polling"), tmp_path)
    report = check(str(wrapped(capture, "bug-report", tmp_path))).report
    (finding,) = [f for f in report.findings if f.rule == "NET001"]
    line = finding.evidence[0]
    assert line.input == "ibstat"
    assert line.line is not None
    below_the_title = ["", *(capture / "ibstat").read_text().splitlines()]
    assert below_the_title[line.line - 1].strip() == line.text


def bug_report_items(text: str, tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "report.log"
    file.write_text(text)
    commands = ["lspci -D -nn -vv", "nvidia-smi -q", "dmesg", "ibstat", "numactl -H", "uname -r"]
    items = open_source(str(file)).texts(commands, ["/proc/cmdline"])
    return {item.input: item.text if isinstance(item, Raw) else item.reason for item in items}


def test_titles_of_all_generations_begin_a_section(tmp_path: Path) -> None:
    rule = "_" * 44
    text = (
        f"{rule}\n\nStart of NVIDIA bug report log file.\n\nuname: Linux node-b 5.4.0 #1\n"
        f'{rule}\n\n/sbin/lspci -d "10de:*" -v -xxx\n\n17:00.0 3D controller\n\n{rule}\n\n{rule}\n'
        f"/bin/numactl --hardware\n\navailable: 1 nodes (0)\n"  # right below the rule
        f"{rule}\n\n*** /proc/./cmdline\n*** ls: -r--r--r-- /proc/./cmdline\nquiet\n\n{rule}\n\n"
        f"Skipping nvidia-smi, nvidia-debugdump, and vulkaninfo due to --safe-mode argument.\n{rule}\n\n"
        f"/usr/sbin/ibstat\n\nCA 'mlx5_0'\n\nibnetdiscover -C mlx5_0\n\nHca\t1\n"
        f"{rule}\n\njournalctl -b -1\n\nNVRM: Xid (PCI:0000:19:00): 79\n{rule}\n\nEnd of NVIDIA bug report log file.\n"
    )
    found = bug_report_items(text, tmp_path)
    skipped = found.pop(str(tmp_path / "report.log"))
    assert "--safe-mode" in skipped
    assert {name: value.strip() for name, value in found.items()} == {
        "uname -a": "Linux node-b 5.4.0 #1",
        "lspci -d 10de:* -v -xxx": "17:00.0 3D controller",
        "numactl -H": "available: 1 nodes (0)",
        "/proc/cmdline": "quiet",
        "ibstat": "CA 'mlx5_0'",
        "ibnetdiscover -C mlx5_0": "Hca\t1",
    }


def test_a_bug_report_that_is_cut_keeps_what_stands_before(tmp_path: Path) -> None:
    whole = wrapped(nodes.healthy(NODE), "bug-report", tmp_path).read_bytes()
    file = tmp_path / "cut.log.gz"
    file.write_bytes(whole[: len(whole) * 9 // 10])
    report = check(str(file)).report
    assert any("cut or damaged" in gap.reason for gap in report.gaps)
    assert len(report.devices) > 8
    (tmp_path / "plain.log").write_bytes(gzip.decompress(whole)[:-60])
    assert any("its last line is missing" in gap.reason for gap in check(str(tmp_path / "plain.log")).report.gaps)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_text_is_read_alone_in_a_folder_and_from_a_pipe(pack, tmp_path: Path) -> None:
    packed = pack((nodes.healthy(NODE) / "ibstat").read_bytes())
    (tmp_path / "ibstat.gz").write_bytes(packed)
    plain = gather(open_source(str(nodes.healthy(NODE) / "ibstat")))
    assert gather(open_source(str(tmp_path / "ibstat.gz"))) == plain
    assert gather(open_source(str(tmp_path))) == plain


def test_bug_reports_of_two_nodes_are_never_joined(tmp_path: Path) -> None:
    first = wrapped(nodes.healthy(NODE), "bug-report", tmp_path)
    other = gzip.decompress(first.read_bytes()).replace(b"Linux node-a", b"Linux node-b")
    (tmp_path / "nvidia-bug-report_node-b.log.gz").write_bytes(gzip.compress(other))
    (tmp_path / "nvidia-bug-report_again.log").write_bytes(gzip.decompress(first.read_bytes()))
    report = check(str(tmp_path)).report
    assert len([d for d in report.devices if d.kind == "gpu"]) == 8
    assert [gap.reason for gap in report.gaps] == ["a bug report of another node (node-b): not joined; give it itself"]


@pytest.mark.parametrize("kind", CANNOT)
def test_what_is_attached_can_come_through_a_pipe(kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "topocheck", "node", "--from", "-", "--format", "json"]
    data = wrapped(nodes.healthy(NODE), kind, tmp_path).read_bytes()
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    document = json.loads(done.stdout)
    assert document["source"] == {"kind": kind, "name": "stdin"}
    assert (document["verdict"], len(document["devices"])) == ("healthy", 22)


# Hostile archives: what they are, and what must be said.
def _member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", data: bytes = b"") -> tuple:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(data)
    return info, data


def _tar(*members: tuple) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def _zeros(count: int) -> bytes:
    return b"\0" * count


def _endless_members(count: int) -> bytes:
    header = _member("a")[0].tobuf()
    return header * count


GOOD = _member("lscpu", data=b"Architecture:        x86_64\nCPU(s):              4\n")
HOSTILE = {
    "dotdot": (_tar(GOOD, _member("../../etc/passwd", data=b"x")), "leads out of the archive"),
    "absolute": (_tar(GOOD, _member("/etc/passwd", data=b"x")), "leads out of the archive"),
    "link-out": (_tar(GOOD, _member("ibstat", tarfile.SYMTYPE, "/etc/hostname")), "leads out of the folder or nowhere"),
    "link-up": (_tar(GOOD, _member("ibstat", tarfile.SYMTYPE, "../../../../etc/hostname")), "leads out"),
    "link-loop": (_tar(GOOD, _member("a", tarfile.SYMTYPE, "b"), _member("b", tarfile.SYMTYPE, "a")), "leads out"),
    "hard-link-out": (_tar(GOOD, _member("ibstat", tarfile.LNKTYPE, "/etc/hostname")), "not read"),
    "below-a-link": (_tar(GOOD, _member("d", tarfile.SYMTYPE, "/"), _member("d/x", data=b"x")), "is a link"),
    "device": (_tar(GOOD, _member("ibstat", tarfile.CHRTYPE)), "a character device"),
    "pipe": (_tar(GOOD, _member("ibstat", tarfile.FIFOTYPE)), "a named pipe"),
    "deep": (_tar(GOOD, _member("d/" * 100 + "x", data=b"x")), "folders deep"),
    "long-name": (_tar(GOOD, _member("n" * 5000, data=b"x")), "longer than"),
    "archive-within": (_tar(GOOD, _member("x.tar", data=_tar(GOOD))), "a tar file"),
    "truncated": (_tar(GOOD, _member("ibstat", data=b"x" * 9000))[:3000], "cut or damaged"),
    "no-header": (_tar(GOOD)[:1024] + b"x" * 2048, "cut or damaged"),
    "cut-gzip": (gzip.compress(_tar(GOOD, _member("n", data=bytes(range(256)) * 900)))[:-90], "cut or damaged"),
    "members": (lambda: gzip.compress(_tar(GOOD)[:1024] + _endless_members(120_000), 1), "more than 100000 members"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_costs_what_is_wrong_with_it(name: str, tmp_path: Path) -> None:
    data, words = HOSTILE[name]
    file = tmp_path / "in" / "capture.tar.gz"
    file.parent.mkdir()
    file.write_bytes(data() if callable(data) else data)
    before = resource.getrusage(resource.RUSAGE_SELF)
    facts = gather(open_source(str(file)))
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime - before.ru_utime < 5
    assert recognised(facts), "what is good in it counts"
    assert any(words in fact.reason for fact in facts if hasattr(fact, "reason")), facts
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "capture.tar.gz"], "nothing is written"


BOMB = """
import resource, sys
from topocheck.sources.open import open_source
source = open_source(sys.argv[1])
print(*(item.reason for item in source.texts([], []) if hasattr(item, "reason")))
used = resource.getrusage(resource.RUSAGE_SELF)
peak_kib = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(used.ru_utime + used.ru_stime, int(peak_kib) / 1024)
"""


def _xz(data: bytes) -> bytes:
    return lzma.compress(data, preset=0)


@pytest.mark.parametrize(("inside", "pack"), [("text", gzip.compress), ("tar", bz2.compress), ("tar", _xz)])
def test_a_bomb_is_not_unpacked(inside: str, pack, tmp_path: Path) -> None:
    huge = _member("huge")[0]
    huge.size = 80 << 20
    zeros = pack(b" " * huge.size if inside == "text" else _tar(GOOD)[:1024] + huge.tobuf() + b" " * huge.size)
    (tmp_path / "bomb").write_bytes(zeros)
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(tmp_path / "bomb")], capture_output=True, text=True, timeout=60, check=True
    )
    *said, used = done.stdout.splitlines()
    assert "unpacks to more than 400 times its size" in " ".join(said)
    cpu_s, megabytes = map(float, used.split())
    assert cpu_s < 5
    assert megabytes < 300


ENDLESS = """
import sys, threading
from topocheck.sources import archive, bug_report, unpack
from topocheck.sources.unpack import Limited
class Endless:
    def __init__(self, head): self.head = head
    def read(self, size):
        data, self.head = self.head[:size], self.head[size:]
        return data or (b"x\\n" * (size // 2 + 1))[:size]
head = bytes.fromhex(sys.argv[2])
stream = Limited(Endless(head), 256 << 20)
if sys.argv[1] == "tar":
    print(archive.read_archive(stream, "pipe")[1])
else:
    print(list(bug_report.BugReport("pipe", stream).texts([], [])))
"""


@pytest.mark.parametrize("what", ["tar", "bug report"])
def test_a_pipe_that_never_ends_is_read_to_the_limit(what: str) -> None:
    huge = _member("huge")[0]
    huge.size = 1 << 50
    huge_header = huge.tobuf(format=tarfile.GNU_FORMAT)
    head = huge_header if what == "tar" else b"_" * 44 + b"\n\nStart of NVIDIA bug report log file.\n"
    command = [sys.executable, "-c", ENDLESS, what, head.hex()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert "only the first 256 MB were read" in done.stdout


@pytest.mark.parametrize("unit", [b"\n", b"_", b"_" * 44 + b"\n", b"\n/usr/bin/lspci -vv\n\nx\n", b"\n*** /sys/a\nx\n"])
def test_a_bug_report_made_of_titles_and_rules_ends_in_time(unit: bytes, tmp_path: Path) -> None:
    head = b"_" * 44 + b"\n\nStart of NVIDIA bug report log file.\n"
    (tmp_path / "b.log").write_bytes(head + unit * ((20 << 20) // len(unit)))
    before = resource.getrusage(resource.RUSAGE_SELF)
    list(open_source(str(tmp_path / "b.log")).texts(["lspci -vv"], ["/sys/*"]))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before.ru_utime < 3


def test_an_archive_of_a_capture_takes_little_memory(tmp_path: Path) -> None:
    file = attachments.tar(nodes.healthy(NODE), tmp_path / "c.tar.xz", "w:xz")
    script = (
        "import sys; from topocheck.check import check; check(sys.argv[1]); print(open('/proc/self/status').read())"
    )
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True)
    (peak,) = [int(line.split()[1]) / 1024 for line in done.stdout.splitlines() if line.startswith("VmHWM")]
    assert peak < 120


def test_an_archive_with_nothing_in_it_is_not_recognised(tmp_path: Path) -> None:
    (tmp_path / "empty.tar").write_bytes(_tar() + _zeros(1024))
    try:
        facts = gather(open_source(str(tmp_path / "empty.tar")))
    except SourceError:
        return
    assert not recognised(facts)
