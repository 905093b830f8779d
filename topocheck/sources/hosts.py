"""Two nodes in one text: only the first is read, since what two nodes say is never joined."""

from __future__ import annotations

import re
from collections import Counter

from topocheck.sources.pasted import first_lines, unpasted, without

_LOOKED_AT_CHARS = 1 << 22
_SHARE = 0.9  # of the lines must have a label
_LINES_EACH = 3  # at least, of a host or file whose name labels its lines
# "[root@gpu017 ~]# nvidia-smi topo -m": whose output follows.
_PROMPT = re.compile(
    r"^[^\n@]{0,40}@([\w-]{1,60})[^\n#$]{0,80}[#$] ?(?:sudo )?"
    r"(?:nvidia-smi|lspci|ibstat(?:us)?|ibv_devinfo|ibdev2netdev|show_gids|rdma|fi_info|numactl|lscpu|dmesg)\b",
    re.MULTILINE,
)
# "gpu017 | CHANGED | rc=0 >>" of Ansible, and the name between two rules of dshbak and clush.
_BANNER = re.compile(
    r"^(?:([\w.-]{1,80}) \| [A-Z!]{2,20} (?:\| rc=\d{1,3} )?(?:>>|=> \{)"
    r"|-{10,20}\n([\w.,\[\]-]{1,80})(?: \(\d{1,6}\))?\n-{10,20})$",
    re.MULTILINE,
)
# "gpu017: " of pdsh and clush, "gpu017 collect[4711]: " of syslog, "0: " of srun, "worker-1  | ", "a.txt:" of grep.
_LABEL = re.compile(
    r"([a-z][a-z0-9.-]{0,60}\d[a-z0-9.-]{0,60}(?: [\w./-]{1,40}(?:\[\d{1,9}\])?)?: "
    r"|\d{1,5}: |[a-z][\w.-]{0,60} *\| |[\w./-]{1,200}\.(?:txt|log|out):)"
)


def of_one_host(text: str) -> tuple[str, str | None]:
    """The text as far as one host printed it, and what to say of the rest."""
    text, other = _of_one_label(text)
    for marks, what in ((_PROMPT, "prompts"), (_BANNER, "outputs")):
        found = [(m.start(), m[1] or m[m.lastindex or 1]) for m in marks.finditer(text, 0, _LOOKED_AT_CHARS)]
        second = next((mark for mark in found if mark[1] != found[0][1]), None)
        if second is not None:
            return text[: second[0]], _reason(what, found[0][1], second[1])
    return text, other


def _of_one_label(text: str) -> tuple[str, str | None]:
    """The lines that the first label marks, without it; those of another are left blank."""
    lines = first_lines(text)
    labels = Counter(match[1] for line in lines if (match := _LABEL.match(line)))
    if not labels or min(labels.values()) < _LINES_EACH or labels.total() < _SHARE * len(lines):
        return text, None
    first, *others = labels
    if others:
        text = without(re.compile(rf"^(?!{re.escape(first)})(?:{_LABEL.pattern}).*$", re.MULTILINE), text)
    text = without(re.compile("^" + re.escape(first), re.MULTILINE), text)
    words = _reason("lines", first.split()[0].rstrip(":"), others[0].split()[0].rstrip(":")) if others else None
    return unpasted(text), words


def _reason(what: str, first: str, second: str) -> str:
    return f"{what} of two hosts: only what {first} printed is read; give {second}'s output by itself"
