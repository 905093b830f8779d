"""A source → facts: which probe reads which text, and what no probe could read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

from topocheck.facts import Cabling, Fact, Gap, Host, PciFunction, PortCounters
from topocheck.probes import TEXT_PROBES, TREE_PROBES, TextEntry, asked, nccl_files
from topocheck.probes.lines import MAX_LINES, MOST_FUNCTIONS, SNIFF_CHARS, first_lines
from topocheck.probes.silence import silence
from topocheck.sources.base import Missing, Raw, Source, mangle

# A text is looked at in pieces of what a sniff looks at; of a very long one the beginning and the end.
_OVERLAP_CHARS = 4096
_PIECES = 3
_LARGE_LINES = 20_000  # lspci -vv of an 8-GPU node has 10,000

# sosreport keeps lspci's list and tree in one file; -xxx prints config space below each function.
_OFTEN_IN_ONE_FILE = {"lspci": ("lspci_tree", "lspci_hex")}


def gather(source: Source) -> list[Fact]:
    """Everything a source's texts and tree state, and a gap for everything that could not be read."""
    commands, paths = asked()
    texts = source.texts(commands, paths)  # a live source's commands run while its tree is read
    of_tree: list[Fact] = []
    if any(source.glob(top) for top in ("/sys", "/proc", "/etc")):
        for module in TREE_PROBES:
            of_tree += _guarded(module, lambda probe: probe.read(source))
    order = {name: place for place, name in enumerate((*commands, *paths))}  # not that in which a source has them
    budget = Budget()
    found = [
        ((order.get(item.input, len(order)), isinstance(item, Missing) and item.input in order), _facts_of(item))
        for item in map(budget.checked, texts)
    ]
    found.sort(key=lambda pair: pair[0])
    stated = [fact for _, facts in found for fact in facts] + of_tree
    return [*stated, *nccl_files.topology(source, stated)]


class Budget:
    """How many lines of all texts together are read: the large texts cannot use up what is for the small ones."""

    def __init__(self) -> None:
        self._lines: Counter[bool] = Counter()

    def checked(self, item: Raw | Missing) -> Raw | Missing:
        """The text, or a gap in its place if as much was read already."""
        if isinstance(item, Missing):
            return item
        lines = item.text.count("\n") + 1
        is_large = lines > _LARGE_LINES
        if self._lines[is_large] > MAX_LINES:
            return Missing(item.name, f"not read: the texts before it have more than {MAX_LINES:,} lines")
        self._lines[is_large] += lines
        return item


def _facts_of(item: Raw | Missing) -> list[Fact]:
    return [Gap(item.input, item.reason), *silence(item)] if isinstance(item, Missing) else read_text(item)


def recognised(facts: Iterable[Fact]) -> bool:
    """Whether anything in the input was an output that a probe reads."""
    return any(not isinstance(fact, Gap) for fact in facts)


def read_text(raw: Raw) -> list[Fact]:
    """The facts of one text: by the probe its name calls for, else by all whose output it looks like."""
    whole, raw = raw, raw._replace(text=first_lines(raw.text))
    named = named_probe(raw)
    facts = [] if named is None else _parse(named, raw, whole)
    is_log = named is not None and named.any_length and recognised(facts)
    if len(raw.text) < len(whole.text) and not is_log:
        return [*_read(named, facts, raw, whole), Gap(raw.name, f"only its first {MAX_LINES:,} lines were read")]
    return _read(named, facts, raw, whole)


def _read(named: TextEntry | None, facts: list[Fact], raw: Raw, whole: Raw) -> list[Fact]:
    """`facts` are what the probe found that the text's name calls for, if its name calls for one."""
    if named is not None and recognised(facts):
        return facts + _also_there(named, facts, raw)
    found: list[Fact] = []
    asked_for = named is not None and raw.input in (*named.commands, *named.paths)  # what else could it be
    pieces = [] if asked_for else _pieces(whole.text)
    for entry in TEXT_PROBES:
        if entry is not named and any(_sniff(entry, piece) for piece in pieces):
            found += _parse(entry, raw, whole)
    if facts or found:
        return facts + found
    reason = "not recognised as the output of any tool topocheck reads"
    return [
        Gap(
            raw.input if asked_for else raw.name,
            reason if named is None else "its name is known, but nothing in it could be read",
        )
    ]


def _also_there(named: TextEntry, facts: list[Fact], raw: Raw) -> list[Fact]:
    """What a tree below a list adds to the functions listed; it lists none of its own: it may be of another machine."""
    also = [entry for entry in TEXT_PROBES if entry.module in _OFTEN_IN_ONE_FILE.get(named.module, ())]
    listed = {fact.bdf for fact in facts if isinstance(fact, PciFunction)}
    found = [fact for entry in also if _sniff(entry, raw.text) for fact in _parse(entry, raw, raw)]
    return [fact for fact in found if isinstance(fact, PciFunction) and fact.bdf in listed]


def named_probe(raw: Raw) -> TextEntry | None:
    """The probe that the input's command, path or file name calls for."""
    for entry in TEXT_PROBES:
        if raw.input in entry.commands or any(fnmatchcase(raw.input, path) for path in entry.paths):
            return entry
    names = (raw.name.rpartition("/")[2], mangle(raw.input))
    matches = [
        (len(match[0]), entry) for name in names for entry in TEXT_PROBES if (match := re.match(entry.name, name))
    ]
    return max(matches, key=lambda match: match[0])[1] if matches else None


def _parse(entry: TextEntry, raw: Raw, whole: Raw) -> list[Fact]:
    """`raw` has the first lines of the text, `whole` all of them."""
    raw = whole if entry.any_length else raw
    if entry.takes_command:
        command = raw.input.replace("_", " ")
        return list(_of_one_node(_guarded(entry.module, lambda probe: probe.parse(raw.text, command=command)), raw))
    return list(_of_one_node(_guarded(entry.module, lambda probe: probe.parse(raw.text)), raw))


def _of_one_node(facts: Iterable[Fact], raw: Raw) -> Iterator[Fact]:
    """The facts, up to more of one kind than a node has; a fabric has more cables and ports."""
    counts: Counter[type] = Counter()
    for fact in facts:
        counts[type(fact)] += 1
        if counts[type(fact)] > MOST_FUNCTIONS and not isinstance(fact, Host | Cabling | PortCounters):
            yield Gap(raw.name, f"more than {MOST_FUNCTIONS:,} devices or functions: the rest was not read")
            return
        yield fact


def _pieces(text: str) -> list[str]:
    step = SNIFF_CHARS - _OVERLAP_CHARS
    starts = list(range(0, max(1, len(text) - _OVERLAP_CHARS), step))
    return [text[start : start + SNIFF_CHARS] for start in (*starts[:_PIECES], *starts[_PIECES:][-1:])]


def _sniff(entry: TextEntry, text: str) -> bool:
    try:
        return bool(_load(entry.module).sniff(text))
    except Exception:  # a probe that cannot tell does not know the text
        return False


def _guarded(module: str, facts_of: Callable[[Any], Iterable[Fact]]) -> Iterator[Fact]:
    """What a probe yields; a bug in it costs what it had not yet yielded, and is named."""
    try:
        yield from facts_of(_load(module))
    except Exception as error:
        yield Gap(module, f"internal error in this probe, please report it: {type(error).__name__}: {error}"[:300])


def _load(module: str) -> Any:  # noqa: ANN401 (a module that is a probe by its functions)
    return import_module(f"topocheck.probes.{module}")
