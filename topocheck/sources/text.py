"""One file, or standard input: the output of one tool, or of several one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath

from topocheck.sources.base import Manifest, Missing, Raw
from topocheck.sources.reading import archive_error, printable, text_or_gaps

_HEAD_CHARS = 1 << 16
_KINDS = (("nccl-xml", re.compile(r"<system\s[^>]{0,200}version=")), ("hwloc-xml", re.compile(r"<topology[\s>]")))


# "[root@gpu017 ~]# nvidia-smi topo -m": whose output follows.
_PROMPT = re.compile(
    r"^[^\n@]{0,40}@([\w-]{1,60})[^\n#$]{0,80}[#$] ?(?:sudo )?(?:nvidia-smi|lspci|ibstat|ibv_devinfo|numactl|lscpu)\b",
    re.MULTILINE,
)
_PROMPTS_CHARS = 1 << 22


class TextSource:
    """Hands out one text. It has no tree of the machine."""

    manifest = Manifest()

    def __init__(self, name: str, data: bytes, cut: bool, gaps: Sequence[Missing] = ()) -> None:
        archive_error(name, data)
        self.name = printable(name)
        text, more = text_or_gaps(self.name, data, cut)
        text, other = _of_one_host(text) if text is not None else (None, None)
        more += [Missing(self.name, other)] if other else []
        raw = [] if text is None else [Raw(PurePath(self.name).name, text, self.name)]
        self.kind = _kind(text or "")
        self._texts: list[Raw | Missing] = [*raw, *gaps, *more]

    def texts(self, commands: Sequence[str], paths: Sequence[str]) -> list[Raw | Missing]:
        """The one text, or why there is none."""
        return self._texts

    def read(self, path: str) -> str | None:
        """Nothing: one text is no tree."""
        return None

    def read_bytes(self, path: str) -> bytes | None:
        """Nothing: one text is no tree."""
        return None

    def glob(self, pattern: str) -> list[str]:
        """Nothing: one text is no tree."""
        return []

    def sampled(self, paths: Sequence[str], rank: Callable[[str], float]) -> dict[str, str]:
        """Nothing: one text is no tree."""
        return {}

    def realpath(self, path: str) -> str | None:
        """Nothing: one text is no tree."""
        return None


def _of_one_host(text: str) -> tuple[str, str | None]:
    """The text up to the first prompt of a second host, and what to say of the rest: two nodes are never joined."""
    prompts = list(_PROMPT.finditer(text, 0, _PROMPTS_CHARS))
    second = next((prompt for prompt in prompts if prompt[1] != prompts[0][1]), None)
    if second is None:
        return text, None
    words = f"prompts of two hosts: only what {prompts[0][1]} printed is read; give {second[1]}'s output by itself"
    return text[: second.start()], words


def _kind(text: str) -> str:
    """What a document calls itself; "text" for everything else."""
    return next((kind for kind, opening in _KINDS if opening.search(text, 0, _HEAD_CHARS)), "text")
