"""A TOML file whose mistakes can be told with their line: TOML libraries give none for a key."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from topocheck.errors import UsageError

_MOST_BYTES = 1_000_000
_HEADER = re.compile(r"\s*\[{1,2}\s*([^\[\]]{1,200}?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([\w.\"'-]{1,200})\s*=")
_PARSER_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


class TomlFile:
    """The file's text and its table. UsageError if it cannot be read or is no TOML."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lines = (text := self._read()).split("\n")
        self.table = self._parsed(text)

    def wrong(self, why: str, key: str, table: str = "", place: int = 0) -> UsageError:
        """The mistake at `key` of the `place`-th `table` ("" the top) in one line."""
        return UsageError(f"{self.name}:{self._line_of(key, table, place)}: {key}: {why}")

    def _read(self) -> str:
        path = Path(self.name)
        try:
            if not path.is_file():
                raise UsageError(f"{self.name}: {'is no plain file' if path.exists() else 'no such file'}")
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            raise UsageError(f"{self.name}: {getattr(error, 'strerror', None) or error}") from None
        if len(data) > _MOST_BYTES:
            raise UsageError(f"{self.name}: larger than {_MOST_BYTES // 1_000_000} MB")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise UsageError(f"{self.name}:{line}: a byte that is no UTF-8") from None

    def _parsed(self, text: str) -> dict[str, Any]:
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        try:
            return dict(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            said = str(error)
            at = _PARSER_LINE.search(said)
            line = at[1] if at and at[1] else len(self._lines)
            raise UsageError(f"{self.name}:{line}: no TOML: {_PARSER_LINE.sub('', said)}") from None

    def _line_of(self, key: str, table: str, place: int) -> int:
        """Where `key` stands, else where its table begins, else 1."""
        at, seen, begins = "", -1, 1
        for number, line in enumerate(self._lines, 1):
            header, assigned = _HEADER.match(line), _KEY.match(line)
            if header:
                at = _bare(header[1])
                seen += at == table
                if (at == table and seen == place) or (not table and at == key):
                    begins = number
            elif assigned and at == table and (not table or seen == place) and _bare(assigned[1]) == key:
                return number
            elif assigned and not at and _bare(assigned[1]) in (table, f"{table}.{key}"):
                begins = number
        return begins


def _bare(name: str) -> str:
    return name.replace('"', "").replace("'", "").strip()
