"""Reports as clush, ansible, kubectl and others hand them over: with labels, times and headings, in pieces, in other
JSON. Each is read; a message beside them is counted."""

import json

import fleetsim
import pytest
from handed import CLEAN, edited, unread


def in_pieces(lines, size=1024):
    """As srun -l writes them: a piece of each task in turn, each with its label; those of a task in order."""
    pieces = [[line[i : i + size] for i in range(0, len(line), size)] for line in lines]
    for turn in range(max(map(len, pieces))):
        yield from (b"%2d: %s" % (task, own[turn]) for task, own in enumerate(pieces) if turn < len(own))


def tagged(lines, behind):
    """As Open MPI tags pieces of 4 KB, of all processes in turn; `behind`: what stands behind each but the last."""
    pieces = [[line[i : i + 4096] for i in range(0, len(line), 4096)] for line in lines]
    mixed = b""
    for turn in range(max(map(len, pieces))):
        for rank, own in enumerate(pieces):
            if turn < len(own):
                mixed += b"[1,%d]<stdout>:%s%s" % (rank, own[turn], behind if turn < len(own) - 1 else b"\n")
    return [mixed]


def sixteen_kb(line):
    """As containerd cuts a line."""
    return [line[i : i + 16384] for i in range(0, len(line), 16384)]


def host_of(line):
    return json.loads(line)["host"].encode()


def prefixed(lines, words):
    """With these words before each, %s for its host."""
    return [words.replace(b"%s", host_of(line)) + line for line in lines]


def headed(lines, heading):
    """With lines above each that name its host."""
    return [part for line in lines for part in (*heading(host_of(line)), line)]


def ansible(line, indent=4):
    text = line.decode()
    return json.dumps({"changed": True, "rc": 0, "stdout": text, "stdout_lines": [text]}, indent=indent).encode()


LABELLED = {
    "srun -l": lambda lines: in_pieces(lines),
    "srun -l, one after the other": lambda lines: in_pieces(lines, 10**6),
    "clush": lambda lines: [b"gpu%03d: %s" % (i, line) for i, line in enumerate(lines)],
    "clush -b": lambda lines: headed(lines, lambda host: [b"-" * 15, host, b"-" * 15]),
    "clush -b, by a name without the domain": lambda lines: headed(
        [edited(line, host=host_of(line).decode() + ".site") for line in lines], lambda host: [host.partition(b".")[0]]
    ),
    "xdsh | xcoll": lambda lines: headed(lines, lambda host: [b"=" * 36, host, b"=" * 36]),
    "ansible": lambda lines: headed(lines, lambda host: [host + b" | CHANGED | rc=0 >>"]),
    "ansible -o": lambda lines: prefixed(lines, b"%s | CHANGED | rc=0 | (stdout) "),
    "ansible, as JSON": lambda lines: [host_of(line) + b" | SUCCESS => " + ansible(line) for line in lines],
    "ansible-playbook -v": lambda lines: [b"changed: [" + host_of(x) + b"] => " + ansible(x, None) for x in lines],
    "ansible-playbook, debug": lambda lines: [
        b"ok: [" + host_of(line) + b"] => " + json.dumps({"msg": json.loads(line)}, indent=4).encode() for line in lines
    ],
    "ansible --tree": lambda lines: [ansible(line, indent=None) for line in lines],
    "pssh -i": lambda lines: headed(lines, lambda host: [b"[7] 12:00:59 [SUCCESS] " + host]),
    "salt": lambda lines: headed(lines, lambda host: [host + b":"]),
    "salt --out=json": lambda lines: [
        json.dumps({host_of(line).decode(): line.decode()}, indent=4).encode() for line in lines
    ],
    "tail": lambda lines: headed(lines, lambda host: [b"", b"==> reports/" + host + b".json <=="]),
    "parallel --tag": lambda lines: prefixed(lines, b"%s\t"),
    "docker compose logs": lambda lines: prefixed(lines, b"%s  | "),
    "kubectl logs --prefix": lambda lines: prefixed(lines, b"[pod/topocheck-x7k2p/node] "),
    "kubectl logs --timestamps": lambda lines: prefixed(lines, b"2026-11-20T03:04:05.123456789Z "),
    "kubectl logs --timestamps, of long lines": lambda lines: [
        b"".join(b"2026-11-20T03:04:05.123456789Z " + piece for piece in sixteen_kb(line)) for line in lines
    ],
    "a pod's log file": lambda lines: [
        b"2026-11-20T03:04:05.123456789Z stdout %s %s" % (b"F" if piece == sixteen_kb(line)[-1] else b"P", piece)
        for line in lines
        for piece in sixteen_kb(line)
    ],
    "journalctl": lambda lines: prefixed(lines, b"Nov 20 03:04:05 %s topocheck[4711]: "),
    "a log's JSON": lambda lines: [json.dumps({"log": f"{line.decode()}\n", "time": "now"}).encode() for line in lines],
    "mpirun --tag-output": lambda lines: prefixed(lines, b"[1,7]<stdout>:"),
    "mpirun, in pieces": lambda lines: tagged(lines, b"\n"),
    "mpirun, in pieces on one line": lambda lines: tagged(lines, b""),
    "mpiexec -prepend-rank": lambda lines: prefixed(lines, b"[7] "),
    "grep": lambda lines: prefixed(lines, b"reports/%s.json:"),
    "PowerShell's >": lambda lines: [b"\n".join(lines).decode().encode("utf-16")],
    "pdsh": lambda lines: [b"gpu%03d.example.com: %s" % (i, line) for i, line in enumerate(lines)],
    "blank lines": lambda lines: [part for line in lines for part in (line, b"", b"  ")],
    "CRLF": lambda lines: [line + b"\r" for line in lines],
    "CRLF and a label": lambda lines: [b"gpu%03d: %s\r" % (i, line) for i, line in enumerate(lines)],
    "a byte order mark": lambda lines: [b"\xef\xbb\xbf" + lines[0], *lines[1:]],
    "spaces": lambda lines: [b"  %s\t" % line for line in lines],
    "an array": lambda lines: [b"[" + b",".join(lines) + b"]"],
    "indented": lambda lines: [json.dumps(json.loads(line), indent=2).encode() for line in lines],
    "an indented array": lambda lines: [json.dumps([json.loads(line) for line in lines], indent=4).encode()],
}


@pytest.mark.parametrize("form", LABELLED)
def test_forms(ask, lines, form):
    document = ask(b"\n".join(LABELLED[form](lines)) + b"\n")
    assert (document["nodes"], document["unread"]) == (12, CLEAN), document["unread_examples"]


MESSAGES = {
    "a warning of ssh": b"gpu0003: Warning: Permanently added 'gpu0003' (ED25519) to the list of known hosts.",
    "of Slurm": b"srun: error: gpu0003: task 2: Exited with exit code 1",
    "a name of another node": b"gpu0099",
    "a shell's": b"Killed",
    "ansible-playbook's": b'fatal: [gpu0099]: UNREACHABLE! => {"changed": false, "msg": "no route to host"}',
    "ansible's": b'gpu0099 | UNREACHABLE! => {\n    "changed": false,\n    "msg": "no route to gpu0099"\n}',
    "other JSON in other JSON": b'{"log": "{\\"schema\\": \\"lstopo/2\\"}", "time": "now"}',
    "half a report in other JSON": b'{"log": "{\\"schema\\":\\"topocheck.node/1\\",\\"ver"}',
}


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("place", [0, 2, 12])
def test_a_message_beside_reports_is_no_heading_and_is_counted(ask, lines, kind, place):
    document = ask(b"\n".join([*lines[:place], MESSAGES[kind], *lines[place:]]))
    assert (document["nodes"], document["unread"]) == (12, unread(foreign=1)), document["unread_examples"]
    assert len(document["unread_examples"]) == 1
    assert "gpu0099" in document["unread_examples"][0] or b"gpu0099" not in MESSAGES[kind]


def test_a_heading_whose_report_never_came_is_counted(ask, lines):
    given = headed(lines, lambda host: [b"-" * 15, host, b"-" * 15])
    document = ask(b"\n".join([*given[:-1], b"-" * 15]))
    assert (document["nodes"], document["unread"]) == (11, unread(foreign=1))
    assert host_of(lines[-1]).decode() in document["unread_examples"][0]


@pytest.mark.parametrize("above", [b"[root@gpu01 ~]# ibnetdiscover", b"[2026-11-20 03:04:05] start", b"{% raw %}"])
def test_a_fabric_listing_under_what_a_terminal_shows_is_read(ask, above):
    listing = fleetsim.simulate(64).listing().encode()
    for text in (above + b"\n" + listing, listing.decode().encode("utf-16")):
        document = ask(text)
        assert (document["nodes"], document["unread"]) == (36, CLEAN)


def test_a_task_that_died_costs_its_own_pieces(ask, lines):
    """Its last pieces never came; what Slurm says of it is counted, too."""
    pieces = [piece for piece in in_pieces(lines) if not piece.startswith(b" 5: ") or b"topocheck.node/1" in piece]
    document = ask(b"\n".join([*pieces, b"srun: error: gpu0006: task 5: Killed"]))
    assert (document["nodes"], document["unread"]) == (11, unread(torn=1, foreign=1))


def test_pieces_without_labels_are_torn_lines_and_the_rest_is_read(ask, lines):
    """srun without -l: two reports were mixed in the middle of a line."""
    mixed = [lines[0][:1024] + lines[1][:2048] + lines[0][1024:], lines[1][2048:]]
    document = ask(b"\n".join([*mixed, *lines[2:]]))
    assert (document["nodes"], document["unread"]["torn"] + document["unread"]["foreign"]) == (10, 2)
