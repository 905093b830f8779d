"""What comes with a fleet's reports: labels, folders, archives, half of a line, another program's output. What is no
report costs itself and is counted; every report beside it is read."""

import bz2
import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import fleetsim
import pytest
from handed import CLEAN, edited, unread

ROOT = Path(__file__).parents[1]


def test_lines(ask, lines):
    document = ask(b"\n".join(lines) + b"\n")
    assert (document["nodes"], document["unread"], document["verdict"]) == (12, CLEAN, "healthy")


SPOILED = {
    "torn": lambda line: line[: len(line) // 2],
    "torn at its first brace": lambda line: b"{",
    "torn in its middle": lambda line: line[:5000] + line[9000:],
    "two in one": lambda line: line[:3000] + line,
    "schema: older": lambda line: edited(line, schema="topocheck.node/0"),
    "schema: to come": lambda line: edited(line, schema="topocheck.node/2"),
    "schema: a capture's manifest": lambda line: edited(line, schema="topocheck.capture/1"),
    "foreign: another program's": lambda line: b'{"schema": "lstopo/2", "host": "x"}',
    "foreign: no object": lambda line: b"[1, 2, 3]",
    "foreign: a message": lambda line: b"srun: error: gpu0001: task 3: Exited with exit code 1",
    "foreign: bytes": lambda line: bytes(range(1, 256)).replace(b"\n", b""),
    "torn: no devices": lambda line: edited(line, devices=None),
    "torn: no findings": lambda line: json.dumps({**json.loads(line), "findings": [{}]}).encode(),
    "torn: a number for a name": lambda line: edited(line, host=17),
    "torn: deep": lambda line: b'{"schema":' + b"[" * 100_000,
    "torn: a number larger than any": lambda line: re.sub(
        rb'("achievable_gb_per_s":)[0-9.]+', rb"\g<1>1" + b"0" * 400, line
    ),
    "torn: a platform that is no name": lambda line: edited(line, platform={"name": 10**400, "virtual": False}),
    "torn: a port of no switch": lambda line: line.replace(
        b'"ports":[{"port":1,', b'"ports":[{"port":1' + b"0" * 400 + b","
    ),
    "torn: a number without end": lambda line: b'{"schema":' + b"9" * 100_000 + b"}",
}


@pytest.mark.parametrize("kind", SPOILED)
@pytest.mark.parametrize("place", [0, 5, 11])
def test_a_spoiled_line_costs_that_line_and_is_counted(ask, lines, kind, place):
    given = [*lines[:place], SPOILED[kind](lines[place]), *lines[place + 1 :]]
    document = ask(b"\n".join(given) + b"\n")
    assert document["nodes"] == 11
    cause = "torn" if kind == "two in one" else kind.partition(":")[0].partition(" ")[0]
    assert document["unread"] == unread(**{cause: 1}), document["unread_examples"]
    assert len(document["unread_examples"]) == 1


def test_the_last_line_may_be_cut_off(ask, lines):
    document = ask(b"\n".join(lines)[:-30])
    assert (document["nodes"], document["unread"]) == (11, unread(torn=1))


@pytest.mark.parametrize("start", [b"", b'{"schema":"topocheck.node/1","x":"', b"7: "])
def test_a_line_of_100_mb_costs_that_line(ask, lines, start):
    began_s = time.monotonic()
    document = ask(b"\n".join([*lines[:6], start + b"x" * 100_000_000, *lines[6:]]))
    assert (document["nodes"], sum(document["unread"].values())) == (12, 1)
    assert time.monotonic() - began_s < 5


@pytest.mark.parametrize("first", ["older", "newer"])
def test_of_two_reports_of_a_host_the_newer_counts(ask, lines, first):
    older = edited(lines[0], time="2026-11-19T23:59:59Z", verdict="failed")
    both = [older, lines[0]] if first == "older" else [lines[0], older]
    document = ask(b"\n".join([*both, *lines[1:]]))
    assert (document["nodes"], document["verdict"], document["unread"]) == (12, "healthy", unread(duplicate=1))
    assert "gpu0001" in document["unread_examples"][0]


def packed(folder, lines):
    """One folder of <host>.json, as `--output` writes them, and what else lies there."""
    folder.mkdir()
    for line in lines:
        (folder / f"{json.loads(line)['host']}.json").write_bytes(line + b"\n")
    (folder / ".gpu0001.json.4711.tmp").write_bytes(lines[0][:999])  # being written now
    return folder


def tar_of(folder, file, mode):
    with tarfile.open(file, mode) as tar:
        tar.add(folder, "reports")
    return file


WRAPPED = {
    "folder": lambda folder, place: folder,
    "tar": lambda folder, place: tar_of(folder, place / "reports.tar", "w"),
    "tar.gz": lambda folder, place: tar_of(folder, place / "reports.tgz", "w:gz"),
    "tar.xz": lambda folder, place: tar_of(folder, place / "reports.tar.xz", "w:xz"),
    "tar without its suffix": lambda folder, place: tar_of(folder, place / "reports", "w"),
}


@pytest.mark.parametrize("wrap", WRAPPED)
def test_folders_and_archives(ask, lines, tmp_path, wrap):
    document = ask(WRAPPED[wrap](packed(tmp_path / "folder", lines), tmp_path))
    assert (document["nodes"], document["unread"]) == (12, CLEAN), document["unread_examples"]


def test_a_tar_that_is_cut_gives_what_is_in_it(ask, lines, tmp_path):
    whole = tar_of(packed(tmp_path / "folder", lines), tmp_path / "tar", "w").read_bytes()
    document = ask(whole[: len(whole) // 2])
    assert 1 <= document["nodes"] < 12
    assert any("ends in the middle of a file" in example for example in document["unread_examples"])


def test_an_empty_file_is_a_report_of_which_nothing_was_written(ask, lines, tmp_path):
    (packed(tmp_path / "folder", lines) / "gpu0099.json").write_bytes(b"")
    document = ask(tmp_path / "folder")
    assert (document["nodes"], document["unread"]) == (12, unread(torn=1))
    assert document["unread_examples"][0].endswith("gpu0099.json: empty")


def test_a_link_to_a_folder_is_told_and_not_followed(ask, lines, tmp_path):
    packed(tmp_path / "folder", lines[:6])
    packed(tmp_path / "elsewhere", lines[6:])
    (tmp_path / "folder/more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder/again").symlink_to(tmp_path / "folder")
    document = ask(tmp_path / "folder")
    assert (document["nodes"], document["unread"]) == (6, unread(foreign=2))
    assert "folder/again: a link to a folder" in document["unread_examples"][0]


def test_a_capture_is_told_before_the_lines_of_its_files(ask, lines, tmp_path):
    (tmp_path / "capture").mkdir()
    (tmp_path / "capture/dmesg").write_text("[    0.000000] Linux version 6.8.0\n" * 50)
    (tmp_path / "capture/manifest.json").write_text('{"schema": "topocheck.capture/1"}')
    document = ask(b"\n".join(lines), tmp_path / "capture")
    assert document["unread"] == unread(schema=1, foreign=50)
    assert "topocheck node --from" in document["unread_examples"][0]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_packed_lines(ask, lines, pack):
    assert ask(pack(b"\n".join(lines)))["nodes"] == 12


def test_half_a_packed_file_gives_what_is_in_it(ask, lines):
    packed_lines = gzip.compress(b"\n".join(lines))
    document = ask(packed_lines[: len(packed_lines) * 2 // 3])
    assert 1 <= document["nodes"] < 12
    assert sum(document["unread"].values()) >= 1


def test_several_inputs_are_one_fleet(ask, lines, tmp_path):
    document = ask(b"\n".join(lines[:5]), packed(tmp_path / "folder", lines[5:9]), gzip.compress(b"\n".join(lines[9:])))
    assert (document["nodes"], document["unread"]) == (12, CLEAN)


def fleet(*words, stdin=b"", timeout_s=20):
    done = subprocess.run(
        [sys.executable, "-m", "topocheck", "fleet", *map(str, words)],
        env={"PYTHONPATH": str(ROOT)}, input=stdin, capture_output=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_standard_input(lines):
    code, out, _ = fleet("-", "--format", "json", stdin=b"\n".join(lines))
    assert (code, json.loads(out)["nodes"]) == (0, 12)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for number, line in enumerate(lines):
            entry = tarfile.TarInfo(f"reports/{number}.json")
            entry.size = len(line)
            tar.addfile(entry, io.BytesIO(line))
    code, out, _ = fleet("-", "--format", "json", stdin=buffer.getvalue())
    assert (code, json.loads(out)["nodes"]) == (0, 12)


NOTHING = {
    "empty": b"",
    "blank": b"\n\n  \n",
    "text": b"hello\n",
    "binary": b"\x7fELF\x02\x01\x01\0\0\0",
    "brace": b"{",
}


@pytest.mark.parametrize("what", NOTHING)
def test_where_there_is_no_report_it_says_so_in_a_line(tmp_path, what):
    (tmp_path / "file").write_bytes(NOTHING[what])
    code, out, err = fleet(tmp_path / "file", "--format", "json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("topocheck: ") and "topocheck node --format json" in err


def test_what_is_no_file_is_refused_at_once(tmp_path, lines):
    os.mkfifo(tmp_path / "fifo")
    for name in (tmp_path / "fifo", "/dev/zero", tmp_path / "nowhere", ""):
        code, out, err = fleet(name)
        assert (code, out, err.count("\n")) == (2, "", 1), name
        assert err.startswith("topocheck: ")
    (tmp_path / "nodes.jsonl").write_bytes(b"\n".join(lines))
    code, out, _ = fleet(tmp_path, "--format", "json")
    document = json.loads(out)
    assert (code, document["nodes"], document["unread"]) == (0, 12, unread(foreign=1))
    assert "fifo" in document["unread_examples"][0]


def test_what_is_no_time_is_older_than_any(ask, lines):
    odd = edited(lines[0], time="yesterday", verdict="failed")
    for both in ([odd, lines[0]], [lines[0], odd]):
        document = ask(b"\n".join([*both, *lines[1:]]))
        assert (document["nodes"], document["verdict"], document["unread"]) == (12, "healthy", unread(duplicate=1))


def test_a_report_without_a_host_goes_by_its_file_or_label(ask, lines, tmp_path):
    (tmp_path / "folder").mkdir()
    for number, line in enumerate(lines[:3]):
        (tmp_path / f"folder/gpu{number}.json").write_bytes(edited(line, host=None))
    label = b"gpu3: " + edited(lines[3], host=None)
    document = ask(tmp_path / "folder", label)
    assert document["hosts"]["healthy"] == "gpu[0-3]"


NAMES = [
    "gpu 01",
    "имя",
    "a,b",
    "x[1-2]",
    "$(reboot)",
    "\x1b[31mred",
    "../../etc",
    "-rf",
    "@all",
    "",
    "n" * 300,
    "<b>&",
]


def test_names_with_odd_characters(ask, tmp_path):
    """Each is a node of its own; nothing of them is run, unfolded or printed raw."""
    broken = fleetsim.template(fleetsim.FAMILIES[0], "gpu5-x8").filled("any", 1, []).encode()
    failed = [edited(broken, host=name) for name in NAMES]
    document = ask(b"\n".join(failed))
    assert (document["nodes"], document["unread"]) == (12, CLEAN)
    (tmp_path / "odd").write_bytes(b"\n".join(failed))
    for format_ in ("text", "html", "prometheus", "exclude"):
        code, out, err = fleet(tmp_path / "odd", "--format", format_)
        assert (code, err) == (1, "")
        assert "\x1b" not in out and '<b>&"' not in out
    assert out.count("\n") <= 1


def test_a_fabric_listing_alone_is_read(ask):
    document = ask(fleetsim.simulate(64).listing().encode())
    assert (document["nodes"], document["unread"]) == (36, CLEAN)  # the hosts of the fabric
    assert len(document["rails"]["leaves"]) == 16  # two pods of 8 leaves: 32 nodes and 4
