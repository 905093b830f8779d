"""Sources: what is handed out, and that nothing a path can hold hangs, floods or escapes."""

import json
import os
import pty
import socket
import subprocess
import sys

import pytest

from topocheck.errors import SourceError
from topocheck.probes.gather import gather, recognised
from topocheck.sources.base import MAX_TEXT_BYTES, Missing, Raw, mangle
from topocheck.sources.open import open_source

# Opens a source in a fresh process, as another user if asked, and says what it handed out and what that took.
SCRIPT = """
import json, os, resource, sys
from topocheck import probes
from topocheck.errors import SourceError
from topocheck.probes.gather import gather
from topocheck.sources import folder, text
from topocheck.sources.open import open_source
user, spec = sys.argv[1:]
if user != "-":  # which may not be able to read the interpreter's own files
    for entry in probes.TEXT_PROBES:
        __import__("topocheck.probes." + entry.module)
    os.setuid(int(user))
try:
    gaps, texts, error = [], [], None
    source = open_source(spec)
    for item in source.texts([], []):
        texts.append(len(item.text)) if hasattr(item, "text") else gaps.append([item.input, item.reason])
    item = None
    facts = len(gather(source))
except SourceError as failure:
    error, facts = str(failure), 0
used = resource.getrusage(resource.RUSAGE_SELF)
with open("/proc/self/status") as status:  # ru_maxrss would count what pytest held when it started this process
    peak_kb = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
took = {"megabytes": peak_kb / 1024, "cpu_seconds": used.ru_utime + used.ru_stime}
print(json.dumps({"gaps": gaps, "texts": texts, "error": error, "facts": facts, **took}))
"""


def opened(spec, user="-", **stdin):
    stdin = stdin or {"input": b""}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(user), str(spec)], capture_output=True, timeout=60, check=False, **stdin
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def items(path, commands=(), paths=()):
    return list(open_source(str(path)).texts(commands, paths))


def texts(path, commands=(), paths=()):
    return {item.name: item.text for item in items(path, commands, paths) if isinstance(item, Raw)}


def gaps(path):
    return {item.input: item.reason for item in items(path) if isinstance(item, Missing)}


def write(folder, files):
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content) if isinstance(content, bytes) else file.write_text(content)
    return folder


MANIFEST = {
    "schema": "topocheck.capture/1",
    "host": "node-a",
    "time": "2026-11-20T03:04:05Z",
    "privileged": True,
    "inputs": [
        {"input": "nvidia-smi topo -m", "file": "nvidia-smi_topo_-m", "exit_code": 0, "stderr": "", "gap": None},
        {"input": "ibstat", "file": "ibstat", "exit_code": None, "stderr": "", "gap": "no answer within 20 s"},
        {"input": "lspci -D -nn -vv", "file": "lspci_-D_-nn_-vv", "exit_code": 1, "stderr": "denied\n", "gap": None},
    ],
    "realpath": {"sys/bus/pci/devices/0000:1b:00.0": "sys/devices/pci0000:15/0000:15:01.0/0000:1b:00.0"},
}


def test_a_capture_replays_its_inputs_its_gaps_and_its_links(tmp_path):
    files = {
        "nvidia-smi_topo_-m": "matrix",
        "ibstat": "",
        "lspci_-D_-nn_-vv": "",
        "manifest.json": json.dumps(MANIFEST),
    }
    source = open_source(str(write(tmp_path, {**files, "sys/bus/pci/devices/0000:1b:00.0/numa_node": "1\n"})))
    assert list(source.texts([], [])) == [
        Missing("ibstat", "no answer within 20 s"),
        Missing("lspci -D -nn -vv", "ended with exit code 1: denied"),
        Raw("nvidia-smi topo -m", "matrix", "nvidia-smi_topo_-m"),
    ]
    assert (source.kind, source.manifest.host, source.manifest.privileged) == ("folder", "node-a", True)
    device = "/sys/bus/pci/devices/0000:1b:00.0"
    assert source.glob("/sys/bus/pci/devices/*") == [device]
    assert source.read(f"{device}/numa_node") == "1"
    assert source.realpath(device) == "/sys/devices/pci0000:15/0000:15:01.0/0000:1b:00.0"
    assert source.realpath("/sys/bus/pci/devices/0000:1c:00.0") is None


@pytest.mark.parametrize(
    "content", ["{", "[" * 100_000, "[]", '{"schema": 1}', "\0\1", '{"schema": "topocheck.capture/1"}']
)
def test_a_broken_manifest_costs_only_itself(tmp_path, content):
    hostile = {"inputs": "x", "realpath": ["x"], "host": 7, "privileged": "yes", "schema": "topocheck.capture/1"}
    for text in (content, json.dumps(hostile)):
        write(tmp_path, {"manifest.json": text, "lscpu": "Architecture: x86_64\n"})
        assert texts(tmp_path) == {"lscpu": "Architecture: x86_64\n"}
        assert open_source(str(tmp_path)).manifest.host is None


def test_files_of_the_machine_are_handed_out_when_asked_for_and_read_at_their_path(tmp_path):
    write(tmp_path, {"sys/class/x": "1", "proc/cmdline": "quiet\n", "proc/1/environ": "secret", "topo.txt": "t"})
    assert texts(tmp_path, paths=["/proc/cmdline", "/proc/modules"]) == {"topo.txt": "t", "proc/cmdline": "quiet\n"}
    assert items(tmp_path, paths=["/proc/cmdline"])[-1].input == "/proc/cmdline"


def test_kinds_are_told_by_what_lies_at_the_top(tmp_path):
    assert open_source(str(write(tmp_path / "r", {"sys/a": "", "etc/b": ""}))).kind == "root"
    assert open_source(str(write(tmp_path / "f", {"sys/a": "", "lscpu": "x"}))).kind == "folder"
    sos = write(tmp_path / "s", {"sosreport-a/sos_commands/pci/lspci_-nnvv": "p", "sosreport-a/sos_commands/x/df": "d"})
    assert open_source(str(sos)).kind == "sosreport"
    assert texts(sos, commands=["lspci -D -nn -vv"]) == {"sos_commands/pci/lspci_-nnvv": "p"}


def test_links_are_followed_inside_the_folder_once_and_never_out_of_it(tmp_path):
    write(tmp_path / "in", {"a/lscpu": "cpu"})
    write(tmp_path, {"outside": "secret"})
    links = {"again": "a/lscpu", "up": "../outside", "absolute": "/etc/hostname", "loop": "loop", "round": "a/back"}
    for name, target in {**links, "a/back": "../round", "folder": "a", "a/self": ".."}.items():
        (tmp_path / "in" / name).symlink_to(target)
    assert texts(tmp_path / "in") == {"a/lscpu": "cpu"}
    assert set(gaps(tmp_path / "in")) == {"up", "absolute", "loop", "round", "a/back"}


def test_links_of_a_root_lead_where_the_machine_had_them(tmp_path):
    write(tmp_path, {"sys/devices/pci0000:15/0000:1b:00.0/numa_node": "1", "run/topology.xml": "<x/>"})
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:1b:00.0").symlink_to("../../../devices/pci0000:15/0000:1b:00.0")
    (tmp_path / "sys/bus/pci/devices/0000:99:00.0").symlink_to("/../../../../devices/gone")
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "var/loop").symlink_to("/" + "loop/" * 800)
    source = open_source(str(tmp_path))
    assert source.realpath("/sys/bus/pci/devices/0000:1b:00.0") == "/sys/devices/pci0000:15/0000:1b:00.0"
    assert source.realpath("/sys/bus/pci/devices/0000:99:00.0") == "/devices/gone"
    assert source.read("/sys/bus/pci/devices/0000:1b:00.0/numa_node") == "1"
    assert source.read("/var/run/topology.xml") == "<x/>"
    assert source.read("/var/loop") is None
    assert source.read("/../../../../etc/hostname") is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("é\n".encode("utf-16"), "é\n"),
        (b"\xef\xbb\xbfa\r\nb\r\n", "a\nb\n"),
        (b"a\xffb", "a\ufffdb"),
    ],
)
def test_texts_are_decoded_as_people_save_them(tmp_path, data, text):
    assert texts(write(tmp_path, {"x": data})) == {"x": text}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n\t\n", "empty"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00", "binary"),
        (b"\x1f\x8b\x08\x00abc", "a gzip file that is cut or damaged"),
    ],
)
def test_what_is_no_text_is_a_gap(tmp_path, data, reason):
    write(tmp_path, {"x": data})
    assert reason in gaps(tmp_path)["x"]
    assert not recognised(gather(open_source(str(tmp_path))))


@pytest.mark.parametrize("data", [b"PK\x03\x04", b"\x28\xb5\x2f\xfd"])
def test_an_archive_of_another_kind_is_refused_with_what_to_do(tmp_path, data):
    (tmp_path / "capture").write_bytes(data + bytes(512))
    with pytest.raises(SourceError, match="this kind is not read: unpack it"):
        open_source(str(tmp_path / "capture"))


def test_garbage_is_not_recognised_and_breaks_nothing(tmp_path):
    garbage = bytes(range(1, 256)) * 4000
    names = ("noise", "nvidia-smi_topo_-m", "lspci_-vvv", "ibstat", "numactl_-H", "lscpu", "dmesg", "nvidia-smi_-q")
    write(tmp_path, dict.fromkeys(names, garbage))
    facts = gather(open_source(str(tmp_path)))
    assert not any("internal error" in fact.reason for fact in facts if hasattr(fact, "reason"))
    assert not recognised(facts)


def test_of_a_long_file_64_mb_are_read_and_the_rest_is_a_gap(tmp_path):
    file = tmp_path / "log"
    file.write_bytes(b"x" * (MAX_TEXT_BYTES + (36 << 20)))  # 100 MB, one line
    seen = opened(file)
    assert (seen["texts"], seen["gaps"]) == ([MAX_TEXT_BYTES], [[str(file), "only the first 64 MB were read"]])
    assert seen["megabytes"] < 300
    assert seen["cpu_seconds"] < 5


@pytest.mark.parametrize("special", ["/dev/zero", "fifo", "socket"])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path, special):
    path = special if special.startswith("/") else str(tmp_path / special)
    if special == "fifo":
        os.mkfifo(path)
    elif special == "socket":
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(path)
        bound.close()
    with pytest.raises(SourceError, match=r"device|pipe|socket"):
        open_source(path)
    if special != "/dev/zero":  # inside a folder it costs only itself
        assert gaps(write(tmp_path, {"lscpu": "cpu"})).keys() == {special}


@pytest.mark.parametrize("name", ["", "no/such/file", "nul\0byte", "x" * 5000])
def test_a_path_that_leads_nowhere_is_one_line(name):
    with pytest.raises(SourceError, match="give a folder, a file"):
        open_source(name)


def test_a_folder_of_more_than_20_000_files_is_refused(tmp_path):
    for number in range(20_000):
        os.mknod(tmp_path / str(number))
    assert len(items(tmp_path)) == 20_000
    (tmp_path / "deeper").mkdir()
    os.mknod(tmp_path / "deeper/one more")
    with pytest.raises(SourceError, match="more than 20000 files"):
        open_source(str(tmp_path))


def test_a_file_that_vanishes_is_a_gap(tmp_path):
    source = open_source(str(write(tmp_path, {"lscpu": "cpu", "vanished": "x"})))
    (tmp_path / "vanished").unlink()
    assert list(source.texts([], [])) == [
        Raw("lscpu", "cpu", "lscpu"),
        Missing("vanished", "no such file or directory"),
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_may_not_be_read_is_a_gap_in_a_folder_and_an_error_by_itself(tmp_path_factory):
    folder = tmp_path_factory.mktemp("open")
    for parent in [folder, *list(folder.parents)[:2]]:
        parent.chmod(0o755)
    write(folder, {"lscpu": "cpu", "secret": "x", "closed/ibstat": "x"})
    (folder / "secret").chmod(0)
    (folder / "closed").chmod(0)
    seen = opened(folder, user=65534)
    assert seen["texts"] == [3]
    assert sorted(seen["gaps"]) == [["closed", "permission denied"], ["secret", "permission denied"]]
    assert "permission denied" in opened(folder / "secret", user=65534)["error"]
    assert "permission denied" in opened(folder / "closed", user=65534)["error"]


def test_endless_standard_input_is_read_to_the_limit():
    with open("/dev/zero", "rb") as zero:  # noqa: PTH123 (a device, not a file)
        seen = opened("-", stdin=zero)
    assert seen["gaps"] == [["stdin", "binary, not text"]]
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        lines = opened("-", stdin=endless.stdout)
        endless.stdout.close()
        endless.kill()
    assert (lines["texts"], lines["gaps"]) == ([MAX_TEXT_BYTES], [["stdin", "only the first 64 MB were read"]])
    for result in (seen, lines):
        assert result["megabytes"] < 500
        assert result["cpu_seconds"] < 5


def test_a_terminal_as_standard_input_is_refused():
    parent, child = pty.openpty()
    assert "is a terminal" in opened("-", stdin=child)["error"]
    os.close(parent)
    os.close(child)


def test_standard_input_and_dev_stdin_are_the_same():
    for spec in ("-", "/dev/stdin"):
        assert opened(spec, input=b"hello\n")["texts"] == [6]
        assert opened(spec, input=b"")["gaps"] == [["stdin", "empty"]]


def test_names_that_would_break_a_line_are_shown_harmless(tmp_path):
    write(tmp_path, {"a\nb\x1b[31m": "", os.fsdecode(b"c\xff"): "x"})
    shown = [item.input for item in items(tmp_path)]
    assert sorted(shown) == ["a?b?[31m", "c?"]


@pytest.mark.parametrize(
    ("command", "name"),
    [("nvidia-smi topo -m", "nvidia-smi_topo_-m"), ("/sbin/lspci -nn", "sbin.lspci_-nn"), ("ls -l /a/b", "ls_-l_.a.b")],
)
def test_a_command_becomes_the_name_sosreport_gives_it(command, name):
    assert mangle(command) == name
