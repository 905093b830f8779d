"""What chats, mails, terminals and log collectors put around a text, taken away again; its lines stay as many."""

from __future__ import annotations

import json
import re

HEAD_CHARS = 1 << 16
_PIECE_CHARS = 1 << 20
_JSON_CHARS = 1 << 22  # a larger text is no answer of a tool in JSON
_LOOKED_AT = 400  # lines
_AHEAD = 6  # lines before the first that is numbered, the command and its prompt
_SAMPLE = 12  # of them, before all are asked
_SHARE = 0.9  # of the lines must have it
_LINES_OF_TEXT = 3  # fewer are a name or a remark
_SHARE_OF_STRINGS = 0.6  # a list of JSON strings stands in other JSON
_MAX_LAYERS = 8  # one around the other
_XML = re.compile(r"<\?xml|<!DOCTYPE|<(?:topology|system|nvidia_smi_log)[\s>]")
_COLOUR = re.compile(
    r"(?:\x1b|\ufffd|\u241b|\^\[|ESC|\\x1[bB]|\\u001[bB]|\\e|\\033)\[[0-9;?]{0,40}[A-Za-z]"
    r"|\x1b\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)|\x1b[=>]|\[(?:\d{1,3}(?:;\d{1,3}){0,5})?m"
)
_COLOUR_SIGNS = ("\x1b", "\u241b", "^[[", "ESC[", "\\x1b[", "\\x1B[", "\\u001b[", "\\u001B[", "\\e[", "\\033[", "[0m")
_TAG = re.compile(
    r"</?(?:html|body|pre|code|p|div|br|span|font|tt|b|details|summary|blockquote)(?:\s[^<>\n]{0,200})?/?>",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#39|#x27|#34|#160|#xa0);", re.IGNORECASE)
_CHARACTERS = {
    "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&nbsp;": " ", "&#39;": "'", "&#160;": " ",
    "&apos;": "'", "&#x27;": "'", "&#34;": '"', "&#xa0;": " ",
}  # fmt: skip
_TYPOGRAPHY = {  # what editors and chats make of blanks and dashes
    "\u00c2\u00a0": " ", **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " "),
    **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad", ""),
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
}  # fmt: skip
_SOFT_BREAK = re.compile(r"^[^\n]{60,75}=$", re.MULTILINE)  # what is left of it says that the text is as it was sent
_QUOTED_PRINTABLE = re.compile(r"^Content-Transfer-Encoding: quoted-printable", re.IGNORECASE | re.MULTILINE)
_GOES_ON = re.compile(r"^(?:[^\n]*=\n)+[^\n]*", re.MULTILINE)
_ENCODED = re.compile(r"(?:=[0-9A-F]{2})+")
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|[+-]\d\d:?\d\d))?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR)"
_QUOTE = re.compile(r"^[ \t]{0,8}> ?", re.MULTILINE)
_LOGGED = tuple(
    re.compile(rf"^[ \t]{{0,8}}(?:{layer})", re.MULTILINE)
    for layer in (
        # "[pod/worker-0] ", "[1,3]<stdout>:", "[default0]:", "(worker pid=4711) "; not the kernel's own times
        r"\[[\w.-]{1,60}/[^\]\n]{1,80}\] ?",
        r"\[(?:[\w.@-]{1,80}@)?\d{1,5},\d{1,5}\](?:<std\w{2,4}>)?:? ?",
        r"\[default\d{1,3}\]:",
        r"\([\w-]{1,40} pid=\d{1,9}[^)\n]{0,80}\) ?",
        rf"\[(?:{_TIME})\] ?|(?:{_TIME}|{_MONTH}|\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?) ?",
        r"std(?:out|err) [FP] ",
        rf"[-|:]? ?(?:[\w.]{{1,60}} [-|:] )?(?:\[{_LEVEL}\] ?|{_LEVEL}(?::[\w.]{{1,60}}:| ?[-|:] ?| ))",
    )
)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[\w+-]{0,20}[ \t]*$", re.MULTILINE)
_BORDERS = tuple(
    re.compile(layer, re.MULTILINE)
    for layer in (
        r"^[\u2502\u2503\u2551] ?",
        r"[ \t]*(?:\\|[\u2502\u2503\u2551])$",
        r"^(?:>?\|(?: |$)(?![ |]*[+\\]-|[^\n]*\|[ \t]*$))",  # how some mails cite; no row of a table, no tree
    )
)
# Of cat -n, its tab or the blanks of one, and of grep -n; the columns of lscpu -e begin with a number too, and lspci's
# buses may be 01, 02, 03.
_NUMBER = re.compile(
    r"^(?:(?=[ \d]{6}  ) {0,5}(\d{1,6})  | {0,9}(\d{1,7})(?:\t|:(?![\da-fA-F]{2}\.[0-7](?!\S))|$))", re.MULTILINE
)
_DISTANCES = re.compile(r"[ \d:]+$")  # of NUMA nodes, whose rows have numbers too
_STRING = r'("(?:[^"\\\n]|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})){0,8192}")'
_JSON_LOG = re.compile(rf'^\{{"log": ?{_STRING},[^\n]{{0,300}}\}}$', re.MULTILINE)
_JSON_STRING = re.compile(rf"^[ \t]*{_STRING},?$", re.MULTILINE)


def unpasted(text: str) -> str:
    """The text as the tool printed it, as far as its beginning shows what was added to every line."""
    text = _in_plain_characters(_from_mail(_from_json(text)))
    is_xml = _XML.search(text, 0, HEAD_CHARS) is not None
    text = text if is_xml else _without_tags(text)
    for strings, share in ((_JSON_LOG, _SHARE), (_JSON_STRING, _SHARE_OF_STRINGS)):
        if len(text) <= _JSON_CHARS and on_most_lines(strings, text, share):
            text = strings.sub(lambda match: json.loads(match[1], strict=False).replace("\n", " "), text)
    is_log = " kernel: " in text or "NCCL INFO" in text[:HEAD_CHARS]  # whose times and hosts are its own
    layers = (_QUOTE, *(() if is_log else _LOGGED), *_BORDERS)
    for _ in range(_MAX_LAYERS):
        layer = next((layer for layer in layers if on_most_lines(layer, text)), None)
        if layer is None:
            break
        text = without(layer, text)
    if _is_numbered(text):
        text = without(_NUMBER, text)
    if "\\_" in text and not is_xml:  # Markdown's source
        text = text.replace("\\_", "_")
    if "```" in text or "~~~" in text:
        text = without(_FENCE, text)
    if not is_xml and _ENTITY.search(text, 0, HEAD_CHARS):
        text = _ENTITY.sub(lambda match: _CHARACTERS[match[0].lower()], text)
    return text


def without(pattern: re.Pattern[str], text: str) -> str:
    """The text without what the pattern finds in its lines. Piece by piece: sub() holds a string for each one found."""
    pieces, start = [], 0
    while start < len(text):
        end = text.find("\n", start + _PIECE_CHARS) + 1 or len(text)
        pieces.append(pattern.sub("", text[start:end]))
        start = end
    return "".join(pieces)


def on_most_lines(pattern: re.Pattern[str], text: str, share: float = _SHARE) -> bool:
    """Whether the pattern takes something from nearly all of the first lines; where they are only two, from both."""
    lines = first_lines(text)
    sample = lines[:: max(1, len(lines) // _SAMPLE)]
    if 2 * sum(1 for line in sample if _takes(pattern, line)) < len(sample):
        return False
    taken = sum(1 for line in lines if _takes(pattern, line))
    return taken > 0 and (taken > 2 or taken == len(lines)) and taken >= share * len(lines)


def first_lines(text: str) -> list[str]:
    """The first lines of a text that are not blank."""
    return [line for line in text[:HEAD_CHARS].split("\n", _LOOKED_AT)[:_LOOKED_AT] if line.strip()]


def _takes(pattern: re.Pattern[str], line: str) -> bool:
    return (match := pattern.search(line)) is not None and match[0] != ""


def _from_json(text: str) -> str:
    """The texts of many lines that a JSON document is mostly made of: an issue as GitHub's API or `gh` gives it."""
    if text[:64].lstrip()[:1] not in ("{", "[", '"') or "\\n" not in text or len(text) > _JSON_CHARS:
        return text
    try:
        values = [json.loads(text, strict=False)]
    except (ValueError, RecursionError):
        return text
    texts: list[str] = []
    while values:
        value = values.pop()
        if isinstance(value, (dict, list)):
            values += reversed(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, str) and value.count("\n") >= _LINES_OF_TEXT:
            texts.append(value)
    joined = "\n".join(texts)
    return joined if 2 * len(joined) > len(text) else text


def _from_mail(text: str) -> str:
    """A mail's text without its transfer encoding: "=3D" is "=", and a line that ends in "=" goes on in the next."""
    if not _QUOTED_PRINTABLE.search(text, 0, HEAD_CHARS) or ("=3D" not in text and not _SOFT_BREAK.search(text)):
        return text
    text = _GOES_ON.sub(lambda match: match[0].replace("=\n", "") + "\n" * match[0].count("=\n"), text)
    return _ENCODED.sub(lambda match: bytes.fromhex(match[0].replace("=", "")).decode(errors="replace"), text)


def _in_plain_characters(text: str) -> str:
    """Without colours and cursor movements; blanks and dashes as a keyboard has them."""
    if any(sign in text for sign in _COLOUR_SIGNS):
        text = without(_COLOUR, text)
    if "\r" in text:
        text = text.replace("\n\r", "\n").lstrip("\r") if "\n" in text else text.replace("\r", "\n")
    if not text.isascii():
        for character, plain in _TYPOGRAPHY.items():
            text = text.replace(character, plain)
        if '"' not in text:
            text = text.replace("\u201c", '"').replace("\u201d", '"')
    return text


def _without_tags(text: str) -> str:
    """A document's text without the tags that keep it in shape."""
    return without(_TAG, text) if _TAG.search(text, 0, HEAD_CHARS) else text


def _is_numbered(text: str) -> bool:
    """Whether the lines are numbered from 1 on, as by `cat -n`, or those that are not blank, as by `nl`."""
    lines = text[:HEAD_CHARS].split("\n", _LOOKED_AT)[:_LOOKED_AT]
    ahead = enumerate(lines[:_AHEAD])
    start = next((at for at, line in ahead if _number(line, alone=at > 0) == 1), len(lines))
    lines = lines[start:]
    printed = [line for line in lines if line.strip()]
    if sum(1 for line in printed if _DISTANCES.match(line)) >= _SHARE * len(printed):
        return False
    for counted in (lines, printed):
        right = sum(1 for at, line in enumerate(counted, 1) if _number(line) == at)
        if right > 2 and right >= _SHARE * len(printed):
            return True
    return False


def _number(line: str, *, alone: bool = False) -> int | None:
    """The number before a line; `alone`: no blanks behind it but a tab or colon, as no table has them."""
    match = _NUMBER.match(line)
    return int(match[match.lastindex or 0]) if match and not (alone and match[1]) else None
