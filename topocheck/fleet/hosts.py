"""Node names folded and unfolded, gpu[001-128], by ClusterShell's NodeSet: what Slurm and clush read and write."""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.errors import UsageError

_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,255}")
_MOST_HOSTS = 100_000


def short_name(host: str) -> str:
    """A host without its domain; an address is whole."""
    return host if re.fullmatch(r"[\d.]+", host) else host.partition(".")[0]


def fold(hosts: Iterable[str]) -> str:
    """The names in the shortest form that clush and sbatch read; a name that no host can have stands as it is.

    >>> fold(["gpu017", "gpu044", "gpu018"])
    'gpu[017-018,044]'
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    names = set(hosts)
    plain = sorted(name for name in names if _PLAIN.fullmatch(name))
    odd = sorted(names.difference(plain))
    if len(plain) < 2:
        return ",".join([*plain, *odd])
    folded = NodeSet.fromlist(plain, resolver=RESOLVER_NOGROUP)
    folded.fold_axis = (-1,)  # rack1-gpu[01-08],rack2-gpu[01-08]: Slurm knows no brackets in two places
    return ",".join([str(folded), *odd])


def expand(text: str) -> tuple[str, ...]:
    """The names that an operator means by `text`, in its order; UsageError for what is no set of names.

    >>> expand("gpu[008-010],login1")
    ('gpu008', 'gpu009', 'gpu010', 'login1')
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    if "@" in text:
        raise UsageError(f"{text}: groups (@) are not known here: give names, gpu[001-128]")
    if any(int(last) - int(first) >= _MOST_HOSTS for first, last in re.findall(r"(\d{1,15})-(\d{1,15})", text)):
        raise UsageError(f"{text}: more than {_MOST_HOSTS} names")
    try:
        names = NodeSet(text, resolver=RESOLVER_NOGROUP)
        if len(names) > _MOST_HOSTS:
            raise UsageError(f"{text}: more than {_MOST_HOSTS} names")
        found = tuple(names)
    except (NodeSetException, ValueError, OverflowError) as error:
        raise UsageError(f"{text}: no set of names like gpu[001-128]: {error}") from None
    if not found:
        raise UsageError("an empty set of names: give some like gpu[001-128]")
    return found
