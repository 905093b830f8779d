"""`nvidia-bug-report.log[.gz]`: sections between rules of 44 underscores, each the output of a command or a file.

    ____________________________________________

    /usr/bin/nvidia-smi --query

    ==============NVSMI LOG==============
    …
    ____________________________________________

    *** /proc/cmdline
    *** ls: -r--r--r-- 1 root root 0 2025-01-02 03:04:05.000000000 +0000 /proc/cmdline
    BOOT_IMAGE=/vmlinuz iommu=pt

Each section is handed out as the text of its command, so that lines count from the one below the command; files become
a small tree of the machine. Several commands stand under one rule, so texts also end where a command's line stands
behind a blank one. Sections of older boots (journals) have other titles and are not read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from topocheck.sources.base import MAX_TEXT_BYTES, NEVER_RUN, Manifest, Missing, Raw
from topocheck.sources.files import Stored
from topocheck.sources.reading import printable
from topocheck.sources.tree import Tree
from topocheck.sources.unpack import Limited, Reader, Unpacked

HEAD_BYTES = 1 << 16
MAX_BYTES = 512 << 20
_CHUNK_BYTES = 1 << 20
_MAX_FILES = 5000
_MAX_FILE_CHARS = 1 << 20
_MAX_HELD_BYTES = 160 << 20
_MAX_SKIPS = 20
_MAX_SECTIONS = 20_000  # a report has some 300
_MAX_TITLES = 20_000  # of one section
_RULE_BYTES = 64  # a rule with its line end, and blanks behind it

_BEGIN = b"Start of NVIDIA bug report log file"
_END = b"End of NVIDIA bug report log file"
_RUN = re.compile(rb"_{44,}")
_RULE = re.compile(rb"_{44}[ \t]{0,16}\r?\n")
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{76}\r?\n){8}")
_TITLES_BEGIN = ("/", "*** /", "timeout ", "dmesg:", "ibnetdiscover", "iblinkinfo", "ibswitches")
_TITLE = re.compile(
    r"(?:\*\*\* (?P<file>/[^\s:]{1,400})"
    r"|(?:timeout \d+ )?"
    r"(?P<command>(?:/[\w./+-]{0,200}bin/[\w.+-]{1,60}|ibnetdiscover|iblinkinfo|ibswitches)(?: .{0,300})?)"
    r"|(?P<kernel>dmesg:))[ \t]*$",
    re.MULTILINE,
)
_UNAME = re.compile(r"^uname: (Linux .{1,300})$", re.MULTILINE)
_SKIPPED = re.compile(
    r"^Skipping:? ?(?=.{0,80}(?:lspci|nvidia-smi|numactl|ibstat|InfiniBand))(.{1,200})(?:\n(.{1,120}))?", re.MULTILINE
)
_SHORT = {
    "--query": "-q", "--status": "-s", "--errorcounters": "-e", "--remotelinkinfo": "-R", "--hardware": "-H",
}  # fmt: skip


def begins(head: bytes) -> bool:
    """Whether a file with this beginning is a bug report."""
    return _BEGIN in head[:HEAD_BYTES]


class BugReport:
    """Hands out the outputs of the commands in it, and its files as a tree."""

    kind = "bug-report"

    def __init__(self, name: str, stream: Unpacked | Limited) -> None:
        self.name: str = printable(name)
        self._texts: list[tuple[str, str]] = []  # command, output
        self._gaps: list[Missing] = []
        self._files = Stored()
        self._held_bytes = 0
        self._read(stream)
        self.manifest = Manifest(host=self._host())
        self._tree = Tree("/", files=self._files)
        self.read, self.read_bytes = self._tree.read, self._tree.read_bytes
        self.glob, self.realpath, self.sampled = self._tree.glob, self._tree.realpath, self._tree.sampled

    def texts(self, commands: Sequence[str], paths: Sequence[str]) -> Iterator[Raw | Missing]:
        """The outputs of the tools asked for, and the files asked for."""
        yield from self._gaps
        tools = {command.split()[0] for command in commands} | set(NEVER_RUN)
        for command, text in self._texts:
            if command.split()[0] in tools:
                yield Raw(command, text, f"{self.name}: {command}")
        for path in (path for pattern in paths for path in self.glob(pattern)):
            if content := self.read(path):
                yield Raw(path, content, f"{self.name}: {path}")

    def _read(self, stream: Unpacked | Limited) -> None:
        ended = False
        for count, section in enumerate(_sections(stream)):
            if count == _MAX_SECTIONS:
                self._gaps.append(Missing(self.name, f"more than {_MAX_SECTIONS} sections: the rest was not read"))
                return
            ended = ended or _END in section[:HEAD_BYTES]
            if not _BASE64.search(section[:HEAD_BYTES]):
                self._take(section)
        if stream.problem:
            self._gaps.append(Missing(self.name, stream.problem))
        elif not ended:
            words = "its last line is missing: it was cut, or the script hung; what stands before counts"
            self._gaps.append(Missing(self.name, words))

    def _take(self, section: bytes) -> None:
        """The parts of one section."""
        text = section.decode("utf-8", "replace").replace("\r\n", "\n")
        if match := _UNAME.search(text, 0, HEAD_BYTES):
            self._texts.append(("uname -a", match[1]))
        for skip in _SKIPPED.finditer(text, 0, HEAD_BYTES):
            if len(self._gaps) < _MAX_SKIPS:
                words = ", ".join(word.strip() for word in skip.groups() if word and word.strip())
                self._gaps.append(Missing(self.name, f"the bug report skipped {words}"))
        titles = _titles(text)
        ends = [title.start() for title in titles[1:]] + [len(text)]
        for title, end in zip(titles, ends if titles else [], strict=True):
            self._take_part(title, text[title.end() + 1 : end])

    def _take_part(self, title: re.Match[str], body: str) -> None:
        if title["file"]:
            self._take_file(posixpath.normpath(title["file"]), body)
        elif self._held_bytes < _MAX_HELD_BYTES and body.strip():
            command = _spelled(title["command"]) if title["command"] else "dmesg"
            if not command.startswith(("nvidia-debugdump", "nvidia-bug-report")) and "--unit" not in command:
                self._held_bytes += len(body)
                self._texts.append((command, body))

    def _take_file(self, path: str, body: str) -> None:
        """A file; a path that appears twice (`*bus:dev.fn` matches several domains) keeps its first content."""
        lines = body[:_MAX_FILE_CHARS]
        if lines.startswith("*** ls:"):
            lines = lines.partition("\n")[2]
        if self._files.count < _MAX_FILES and path.startswith(("/sys/", "/proc/", "/etc/")):
            try:
                self._files.add(path, lines.strip().encode())
            except OSError:  # a file where a folder is
                return

    def _host(self) -> str | None:
        words = next((text.split() for command, text in self._texts if command == "uname -a"), [])
        return words[1] if len(words) > 2 else None


def _titles(text: str) -> list[re.Match[str]]:
    """The lines that begin the output of a command or a file; found by their first letters, as sections may be long."""
    starts = {len(text) - len(text.lstrip())}
    for beginning in _TITLES_BEGIN:
        at = text.find(f"\n{beginning}")
        while at >= 0 and len(starts) < _MAX_TITLES:
            starts.add(at + 1)
            at = text.find(f"\n{beginning}", at + 1)
    matches = (_TITLE.match(text, start) for start in sorted(starts))
    return [match for match in matches if match and _stands_alone(text, match.start())]


def _stands_alone(text: str, start: int) -> bool:
    """Whether a title stands at the section's beginning or behind a blank line."""
    before = text[max(0, start - 80) : start]
    return not before.strip() or before.endswith("\n\n") or not before.rpartition("\n")[0].rpartition("\n")[2].strip()


def _spelled(line: str) -> str:
    """The command as we call it: its base name, long options short, quotes away."""
    program, _, rest = line.partition(" ")
    words = [_SHORT.get(word, word) for word in rest.replace('"', "").replace("'", "").split()]
    return " ".join([posixpath.basename(program), *words])


def _sections(stream: Reader) -> Iterator[bytes]:
    """What stands between two rules, at most 64 MB of it; what is base64 keeps only its beginning."""
    held, beginning, looked = bytearray(), b"", 0  # `beginning`: of a section too long to be held
    while chunk := stream.read(_CHUNK_BYTES):
        held += chunk
        start = 0
        for rule in _rules(held, max(0, looked - _RULE_BYTES)):
            yield beginning or bytes(held[start : min(rule.start(), start + MAX_TEXT_BYTES)])
            start, beginning = rule.end(), b""
        del held[:start]
        keep = HEAD_BYTES if _BASE64.search(held, 0, HEAD_BYTES) else MAX_TEXT_BYTES
        if beginning or len(held) > keep:
            beginning = beginning or bytes(held[:keep])
            del held[: -_RULE_BYTES * 2]  # a rule may have begun
        looked = len(held)
    yield beginning or bytes(held[:MAX_TEXT_BYTES])


def _rules(held: bytearray, start: int) -> Iterator[re.Match[bytes]]:
    """The rules from a place on: 44 underscores alone on their line."""
    while (start := held.find(b"_" * 44, start)) >= 0 and (run := _RUN.match(held, start)):
        rule = _RULE.match(held, start)
        if rule is not None and bytes(held[start - 1 : start]) in (b"", b"\n"):
            yield rule
        start = run.end()
