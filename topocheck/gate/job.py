"""The job as its prolog's environment describes it. Nothing here asks Slurm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_UUID = re.compile(r"(?:GPU|MIG)-\S+", re.IGNORECASE)


class Job(NamedTuple):
    """What a prolog is told. `gpus` are minor numbers of /dev/nvidiaN and UUIDs, as Slurm names them: never
    nvidia-smi's indices; None: this is no job (a health check, a call by hand), so the whole node is meant."""

    id: str | None
    gpus: tuple[str, ...] | None
    nodes: int
    comment: str = ""

    @property
    def without_gpus(self) -> bool:
        """A job that was given none."""
        return self.gpus == ()

    @property
    def leaves_node(self) -> bool:
        """Whether its traffic leaves the node; what is no job stands for any that may come."""
        return self.gpus is None or self.nodes > 1


def job_of(environ: Mapping[str, str]) -> Job:
    """The job of an environment."""
    id_ = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or None
    gpus = _gpus(environ.get("SLURM_JOB_GPUS", ""))
    if id_ and not gpus:
        gpus = _gpus(environ.get("CUDA_VISIBLE_DEVICES", ""))
    nodes = environ.get("SLURM_JOB_NUM_NODES", "")
    return Job(
        id_,
        gpus if id_ or gpus else None,
        int(nodes) if nodes.isdecimal() else 1,
        environ.get("SLURM_JOB_COMMENT", ""),
    )


def _gpus(text: str) -> tuple[str, ...]:
    """Numbers and UUIDs, each once; () where it names none ("NoDevFiles").

    >>> _gpus("0-2,7"), _gpus("NoDevFiles")
    (('0', '1', '2', '7'), ())
    """
    found: dict[str, None] = {}
    for word in (word.strip() for word in text.split(",")):
        if match := _RANGE.fullmatch(word):
            numbers = range(int(match[1]), int(match[2] or match[1]) + 1)
            found.update(dict.fromkeys(str(number) for number in numbers))
        elif _UUID.fullmatch(word):
            found[word] = None
    return tuple(found)
