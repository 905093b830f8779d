"""What it takes to put the gate to work elsewhere, one file or more a caller: `topocheck gate --show NAME`."""

from __future__ import annotations

from pathlib import Path

_FILES = {
    "slurm": ("prolog.sh", "drain.sh", "healthcheck.sh"),
    "nhc": ("nhc.conf",),
    "npd": ("npd.json",),
    "nagios": ("nagios.cfg",),
    "node-exporter": ("textfile.service", "textfile.timer", "rules.yml", "dashboard.json"),
    "systemd": ("gate.service", "gate.timer"),
}
KIT = tuple(_FILES)


def text_of(name: str) -> str:
    """The files of one caller, each below a line with its name; one alone as it is."""
    folder = Path(__file__).parent
    texts = {file: (folder / file).read_text("utf-8") for file in _FILES[name]}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "".join(f"### {file}\n{text}\n" for file, text in texts.items()).removesuffix("\n")
