"""What it takes to put the gate to work elsewhere (`topocheck gate --show NAME`) and to collect the reports of a fleet
(`topocheck fleet --show NAME`), printed as it is to be installed."""

from __future__ import annotations

import os
import sys

_FILES = {
    "slurm": ("prolog.sh",),
    "slurm-drain": ("drain.sh",),
    "slurm-healthcheck": ("healthcheck.sh",),
    "nhc": ("nhc.conf",),
    "npd": ("npd.json",),
    "nagios": ("nagios.cfg",),
    "node-exporter": ("topocheck-textfile.service", "topocheck-textfile.timer"),
    "prometheus": ("rules.yml",),
    "grafana": ("dashboard.json",),
    "systemd": ("topocheck-gate.service", "topocheck-gate.timer"),
}
KIT = tuple(_FILES)
_COLLECTING = {
    "slurm": "collect-slurm.sh",
    "clush": "collect-clush.sh",
    "kubernetes": "collect-kubernetes.yaml",
    "cron": "collect-cron",
}
COLLECTING = tuple(_COLLECTING)
_USUAL = "/usr/local/bin/topocheck"


def text_of(name: str) -> str:
    """What is installed for one caller, with the path of the topocheck that is asked; of two files each below its
    name."""
    texts = {file: _text(file) for file in _FILES[name]}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n".join(f"# /etc/systemd/system/{file}\n{text}" for file, text in texts.items())


def collecting(name: str) -> str:
    """What collects the reports of a fleet's nodes, one way of `COLLECTING`."""
    return _text(_COLLECTING[name])


def _text(file: str) -> str:
    from pathlib import Path

    return (Path(__file__).parent / file).read_text("utf-8").replace(_USUAL, _own_path())


def _own_path() -> str:
    """Where this program lies, where it is a program of that name."""
    path = os.path.abspath(sys.argv[0])
    return path if path.endswith("/topocheck") and os.access(path, os.X_OK) and " " not in path else _USUAL
