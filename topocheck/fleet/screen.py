"""The fleet on the screen: verdict first, what is wrong worst first, then what to do with it.

Nothing scrolls on an ordinary day: long lists end in how many more there are, `verbose` shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from topocheck.fleet.exclude import option
from topocheck.fleet.report import Change, Fleet, Group, RailEnd, RailFault, Unlike
from topocheck.fleet.words import (
    brief,
    comparison_words,
    counts_of,
    end_words,
    job_words,
    kinds_of,
    left_out_of,
    message_of,
    nodes,
    pace_words,
    parts_of,
    rails_words,
    skipped_words,
    unlike_words,
    unread_words,
    where,
)
from topocheck.formats.screen import MARKS, SEPARATOR, STYLES, VERDICT_STYLES, Screen, counted

_T = TypeVar("_T")
_FULL, _HEADS, _NOTES = 4, 8, 3  # entries with all they say, entries at all, lines of info
_ENDS, _REASONS, _CHANGES = 2, 3, 4
_LINES, _MESSAGE_LINES = 2, 3  # of one text; more is for -v
_NAMES = 44  # characters of folded names


def render(fleet: Fleet, *, verbose: bool, width: int, color: bool, ascii: bool) -> str:  # noqa: A002
    """The fleet as a page of `width` columns; pure ASCII where the terminal has no more."""
    page = _Page(Screen(width=width, color=color, ascii=ascii), fleet, verbose=verbose)
    page.head()
    page.groups()
    page.cabling()
    page.unlike()
    page.notes()
    page.lists()
    page.job()
    page.comparisons()
    page.limits()
    return page.screen.text()


class _Page:
    """The parts of the page, each silent where it has nothing to say."""

    def __init__(self, screen: Screen, fleet: Fleet, *, verbose: bool) -> None:
        self.screen = screen
        self.fleet = fleet
        self.verbose = verbose
        self.lines = None if verbose else _LINES
        self.names = None if verbose else _NAMES

    def head(self) -> None:
        """Nodes and kinds, then the word and what it counts."""
        fleet, screen = self.fleet, self.screen
        left, right = SEPARATOR.join(parts_of(fleet)), fleet.time[:10]
        if fleet.newest and fleet.newest[:10] != right:
            right += f", reports {fleet.newest[:10]}"
        screen.wrapped("", (left, "bold"), f"   {right}")
        counts = counts_of(fleet)
        why = fleet.reason if fleet.verdict == "unknown" or self.verbose or not counts else ""
        counts = "   ".join(part for part in (why, counts) if part)
        screen.wrapped((f"{fleet.verdict.upper()}  ", VERDICT_STYLES.get(fleet.verdict, "bold")), counts)
        if kinds := kinds_of(fleet):
            screen.listed("", kinds, most=len(kinds) if self.verbose else _LINES)

    def groups(self) -> None:
        """What nodes found that counts, one rule at one position each."""
        counting = [g for g in self.fleet.groups if g.severity != "info"]
        if counting:
            self.screen.blank()
        shown = self._first(counting, _HEADS)
        for place, group in enumerate(shown):
            self._group(group, full=self.verbose or place < _FULL)
        self._more(len(counting) - len(shown), "position with a fault", "positions with a fault")

    def notes(self) -> None:
        """What never changes a verdict, a line each."""
        notes = [g for g in self.fleet.groups if g.severity == "info"]
        if notes:
            self.screen.blank()
        shown = self._first(notes, _NOTES)
        for group in shown:
            self._group(group, full=self.verbose)
        self._more(len(notes) - len(shown), "position with a note", "positions with a note")

    def _group(self, group: Group, *, full: bool) -> None:
        head = f" {_mark(group.severity)} {group.rule} "
        place, message = where(group, self.names), message_of(group)
        if full:
            self.screen.wrapped((head, _style(group.severity)), place)
            self.screen.wrapped(" " * len(head), message, most=None if self.verbose else _MESSAGE_LINES)
        else:
            self.screen.line((head, _style(group.severity)), f"{place}: {message}")

    def cabling(self) -> None:
        """Cabling faults with both ends, then the rails and leaves as they are."""
        rails = self.fleet.rails
        if rails.faults or rails.pods or rails.leaves:
            self.screen.blank()
        shown = self._first(rails.faults, _HEADS)
        for place, fault in enumerate(shown):
            self._cable(fault, full=self.verbose or place < _FULL)
        self._more(len(rails.faults) - len(shown), "cabling fault", "cabling faults")
        if (rails.why_none is None or self.verbose) and (words := rails_words(rails)):
            self.screen.wrapped(" rails  ", words, most=self.lines)
        for note in self._first(rails.notes, _NOTES):
            self.screen.wrapped(" rails  ", note, most=self.lines)

    def _cable(self, fault: RailFault, *, full: bool) -> None:
        head = f" {_mark(fault.severity)} {fault.rule} "
        indent = " " * len(head)
        if not full:
            self.screen.line((head, _style(fault.severity)), fault.message)
            return
        self.screen.wrapped(
            (head, _style(fault.severity)), fault.message, most=None if self.verbose else _MESSAGE_LINES
        )
        ends = [end for end in fault.ends if self.verbose or not _told(end, fault.message)]
        for end in self._first(ends, _ENDS):
            self.screen.wrapped(indent, (end_words(end), "dim"), most=self.lines)
        if not self.verbose and len(ends) > _ENDS:
            self.screen.line(f"{indent}and {counted(len(ends) - _ENDS, 'more port')} (-v)")
        if fault.repair:
            self.screen.wrapped(indent, fault.repair, most=self.lines)

    def unlike(self) -> None:
        """The odd ones out: accused first; what a rule tells already only when asked."""
        entries = [e for e in self.fleet.unlike if self.verbose or e.unexplained or not e.others]
        accused, only_shown = [e for e in entries if e.accused], [e for e in entries if not e.accused]
        if entries:
            self.screen.blank()
        for entry in self._first(accused, _HEADS):
            self._unlike((f" {_mark(entry.severity)} unlike  ", _style(entry.severity)), entry)
        self._more(len(accused) - _HEADS, "field", "fields")
        for entry in self._first(only_shown, _NOTES):
            self._unlike((" - differs ", "dim"), entry)
        self._more(len(only_shown) - _NOTES, "field that differs", "fields that differ")

    def _unlike(self, head: tuple[str, str], entry: Unlike) -> None:
        others = entry.others if self.verbose else entry.unexplained
        words = unlike_words(entry, others, kind=len(self.fleet.kinds) > 1, most=self.names)
        self.screen.wrapped(head, words, most=self.lines)

    def lists(self) -> None:
        """Who is unknown, missing or uninvited, and the option that leaves the bad ones out, ready to paste."""
        fleet = self.fleet
        lists = {
            "unknown": fleet.verdicts.get("unknown", ()),
            "missing": fleet.missing,
            "old report": fleet.old,
            "not expected": fleet.unexpected,
        }
        if any(lists.values()) or fleet.exclude:
            self.screen.blank()
        for title, hosts in lists.items():
            if hosts:
                words = f"{nodes(len(hosts))}: {brief(hosts, self.names)}"
                self.screen.wrapped((f" {title}  ", "bold"), words, most=self.lines)
        if names := option(fleet):
            fits = len(f" sbatch --exclude={names}") <= self.screen.width
            long = f"--exclude: {nodes(len(fleet.exclude))}, more than a line; --format exclude prints them"
            self.screen.line((" sbatch ", "bold"), f"--exclude={names}" if fits else long)

    def job(self) -> None:
        """The nodes of a job, its pace, who stays out and why."""
        job = self.fleet.job
        if job is None:
            return
        self.screen.blank()
        title = f" job of {nodes(job.wanted)}  "
        self.screen.wrapped((title, "bold" if job.enough else "bold red"), job_words(job, self.names), most=self.lines)
        if pace := pace_words(job):
            self.screen.wrapped("   slowest  ", pace)
        reasons = left_out_of(job)
        for hosts, why in self._first(reasons, _REASONS):
            self.screen.wrapped("   left out  ", f"{brief(hosts, self.names)}: {why}", most=None if self.verbose else 1)
        self._more(len(reasons) - _REASONS, "reason", "reasons")

    def comparisons(self) -> None:
        """What changed against each of the earlier reports."""
        for entry in self.fleet.comparisons:
            self.screen.blank()
            words = comparison_words(entry, self.names)
            self.screen.wrapped((f" against {entry.name}  ", "bold"), words, most=self.lines)
            for change in self._first(entry.changes, _CHANGES):
                self._change(change)
            self._more(len(entry.changes) - _CHANGES, "change", "changes")

    def _change(self, change: Change) -> None:
        head = (f" {_mark(change.severity)} ", _style(change.severity))
        self.screen.wrapped(head, f"{change.what}: {brief(change.hosts, self.names)}", most=self.lines)

    def limits(self) -> None:
        """What could not be read or said."""
        fleet = self.fleet
        unread, why_none, skipped = unread_words(fleet.unread), fleet.rails.why_none, skipped_words(fleet)
        if unread or skipped or (why_none and not self.verbose):
            self.screen.blank()
        if unread:
            examples = self._first(fleet.unread.examples, 1)
            told = f" ({'; '.join(examples)})" if examples else ""
            self.screen.wrapped((" not read  ", "bold"), f"{unread}{told}", most=self.lines)
        if why_none and not self.verbose:
            self.screen.wrapped(" not seen  ", f"rails: {why_none}", most=self.lines)
        if skipped:
            self.screen.listed(" not looked  ", skipped, most=len(skipped) if self.verbose else _LINES)
        if self.verbose:
            self.screen.blank()
            told = ", ".join(fleet.versions) or "unknown"
            self.screen.wrapped(" topocheck  ", f"{fleet.version}; the reports were written by {told}")

    def _first(self, entries: Sequence[_T], most: int) -> Sequence[_T]:
        return entries if self.verbose else entries[:most]

    def _more(self, number: int, one: str, many: str) -> None:
        if number > 0 and not self.verbose:
            self.screen.line(f"   and {number} more {one if number == 1 else many} (-v)")


def _told(end: RailEnd, message: str) -> bool:
    """Whether the message has all of it but the PCI position."""
    return all(word in message for word in (end.host, end.nic, end.leaf or "", end.expected_leaf or ""))


def _mark(severity: str) -> str:
    return MARKS.get(severity, "?")


def _style(severity: str) -> str:
    return STYLES.get(severity, "")
