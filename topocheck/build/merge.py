"""Several inputs speak of one thing: the first that states a field wins, in the order of trust given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

T = TypeVar("T")

_EMPTY: tuple[object, ...] = (None, False, (), {}, frozenset())


def merged(parts: Iterable[T]) -> T:
    """One record of several: each field from the first part that states it; `lines` are united the same way."""
    first, *others = parts
    for other in others:
        changes: dict[str, Any] = {}
        for name in (f.name for f in fields(first)):  # type: ignore[arg-type]
            mine, theirs = getattr(first, name), getattr(other, name)
            if name == "lines":
                if theirs:
                    changes[name] = {**theirs, **mine}
            elif _states_nothing(mine) and not _states_nothing(theirs):
                changes[name] = theirs
        if changes:
            first = replace(first, **changes)  # type: ignore[type-var]
    return first


def _states_nothing(value: object) -> bool:
    return any(value is empty or (type(value) is type(empty) and value == empty) for empty in _EMPTY)
