"""What chats, mails and log collectors put around a text, taken away again; the number of its lines stays."""

from __future__ import annotations

import re

_HEAD_CHARS = 1 << 16
_PIECE_CHARS = 1 << 20
_LOOKED_AT = 400  # lines
_SHARE = 0.9  # of the lines must have it
_MAX_QUOTES = 6
_XML = re.compile(r"<\?xml|<!DOCTYPE|<(?:topology|system|nvidia_smi_log)[\s>]")
_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,40}[A-Za-z]|\x1b\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)|\^\[\[[0-9;]{0,20}m")
_QUOTE = re.compile(r"^[ \t]{0,8}> ?", re.MULTILINE)
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|nbsp|#39|#160);")
_CHARACTERS = {
    "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&nbsp;": " ", "&#39;": "'", "&#160;": " ",
}  # fmt: skip
# "[pod/worker-0] 2026-11-15T03:04:05.123Z ", "[1,3]<stdout>:", "(worker pid=4711) "; not the kernel's own times.
_PREFIX = re.compile(
    r"^(?:\[[\w.-]{1,60}/[^\]\n]{1,80}\] ?|\[\d{1,5},\d{1,5}\](?:<std\w{2,4}>)?:? ?"
    r"|\([\w-]{1,40} pid=\d{1,9}[^)\n]{0,80}\) ?)?"
    r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? ?)?(?:std(?:out|err) [FP] )?",
    re.MULTILINE,
)


def unpasted(text: str) -> str:
    """The text as the tool printed it, as far as its beginning shows what was added to every line."""
    if "\x1b" in text or "^[[" in text:
        text = _without(_COLOUR, text)
    for _ in range(_MAX_QUOTES):
        if not _on_most_lines(_QUOTE, text):
            break
        text = _without(_QUOTE, text)
    head = text[:_HEAD_CHARS]
    if " kernel: " not in head and "NCCL INFO" not in head and _on_most_lines(_PREFIX, text):
        text = _without(_PREFIX, text)
    if _ENTITY.search(text, 0, _HEAD_CHARS) and not _XML.search(text, 0, _HEAD_CHARS):
        text = _ENTITY.sub(lambda match: _CHARACTERS[match[0]], text)
    return text


def _without(pattern: re.Pattern[str], text: str) -> str:
    """The text without what the pattern finds in its lines. Piece by piece: sub() holds a string for each one found."""
    pieces, start = [], 0
    while start < len(text):
        end = text.find("\n", start + _PIECE_CHARS) + 1 or len(text)
        pieces.append(pattern.sub("", text[start:end]))
        start = end
    return "".join(pieces)


def _on_most_lines(pattern: re.Pattern[str], text: str) -> bool:
    """Whether the pattern takes something from nearly all of the first lines; two alone prove nothing."""
    lines = [line for line in text[:_HEAD_CHARS].split("\n", _LOOKED_AT)[:_LOOKED_AT] if line.strip()]
    taken = sum(1 for line in lines if (match := pattern.match(line)) and match[0])
    return taken > 2 and taken >= _SHARE * len(lines)
