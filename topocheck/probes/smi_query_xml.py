"""`nvidia-smi -q -x`: the same list as XML. The DTD it names is never fetched, and one of its own is refused.

<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
        <driver_version>570.86.15</driver_version>
        <attached_gpus>1</attached_gpus>
        <gpu id="00000000:1B:00.0">
                <product_name>NVIDIA H100 80GB HBM3</product_name>
                <uuid>GPU-11111111-2222-3333-4444-555555555555</uuid>
                <pci>
                        <pci_device_id>233010DE</pci_device_id>
                        <pci_gpu_link_info>
                                <link_widths>
                                        <current_link_width>8x</current_link_width>
                                </link_widths>
                        </pci_gpu_link_info>
                </pci>
        </gpu>
</nvidia_smi_log>
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from topocheck.facts import Evidence, Fact, Gap, GpuState, Host
from topocheck.probes.lines import sniffed
from topocheck.probes.smi_errors import errors
from topocheck.probes.smi_gpu import MAX_GPUS, Value, state, time_s

INPUT = "nvidia-smi -q -x"
COMMANDS = ("nvidia-smi -q -x",)
PATHS = ()
NAME = r"nvidia[-_]?smi[\W_]*(?:q(?:uery)?[\W_]+(?:x(?![a-z])|xml)|x[\W_]+q(?![a-z])|xml)"

_MAX_CHARS = 4 << 20  # sixteen GPUs with hundreds of processes each stay below one MiB
_MAX_DEPTH = 32

_START = re.compile(r"<\?xml[^>]{0,200}\?>\s*(?:<!DOCTYPE nvidia_smi_log|<nvidia_smi_log)|<nvidia_smi_log")
_END = "</nvidia_smi_log>"


class _RefusedError(Exception):
    """A document nvidia-smi does not write."""


@dataclass
class _Document:
    """The document being read: the open elements, and the values of each GPU."""

    first_line: int
    path: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    host: list[Host] = field(default_factory=list)
    attached: int | None = None
    read_at_s: float | None = None
    gpus: list[tuple[str, Evidence, list[Value]]] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str], line: int) -> None:
        """An element opens."""
        if len(self.path) >= _MAX_DEPTH:
            raise _RefusedError("elements nested deeper than nvidia-smi nests them")
        self.path.append(name)
        self.text.clear()
        if self.path[1:] == ["gpu"]:
            if len(self.gpus) >= MAX_GPUS:
                raise _RefusedError(f"it lists more than {MAX_GPUS} GPUs")
            bdf = attributes.get("id", "")
            self.gpus.append((bdf, Evidence(INPUT, self.first_line + line, f'<gpu id="{bdf}">'), []))

    def end(self, line: int) -> None:
        """An element closes: what it held is a value, if it held only text."""
        name, text = self.path[-1], "".join(self.text).strip()
        evidence = Evidence(INPUT, self.first_line + line, f"<{name}>{text}</{name}>")
        if self.path[1:] in (["driver_version"], ["kmd_version"]):
            self.host.append(Host(INPUT, driver=text, line=evidence))
        elif self.path[1:] == ["attached_gpus"]:
            self.attached = int(text) if text.isdecimal() else None
        elif self.path[1:] == ["timestamp"]:
            self.read_at_s = time_s(text)
        elif self.path[1:2] == ["gpu"] and self.path[2:] and text:
            self.gpus[-1][2].append(Value(tuple(self.path[2:]), text, evidence))
        self.path.pop()
        self.text.clear()


def sniff(text: str) -> bool:
    """Whether the text opens nvidia-smi's document."""
    return sniffed(_START, text)


def parse(text: str) -> Iterable[Fact]:
    """The driver's version and one state a GPU; a document cut short yields what stands before the cut."""
    facts: list[Fact] = []
    if match := _START.search(text):
        end = text.find(_END, match.start(), match.start() + _MAX_CHARS)
        stop = end + len(_END) if end >= 0 else match.start() + _MAX_CHARS
        document = _Document(text.count("\n", 0, match.start()))
        gaps = list(_read(text[match.start() : stop], document))
        facts = [*document.host, *_states(document), *gaps]
    return facts or [*errors(text, INPUT)] or [Gap(INPUT, "no GPU in it")]


def _read(text: str, document: _Document) -> Iterator[Gap]:
    from xml.parsers import expat

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = lambda name, attributes: document.start(name, attributes, parser.CurrentLineNumber)
    parser.EndElementHandler = lambda _name: document.end(parser.CurrentLineNumber)
    parser.CharacterDataHandler = document.text.append
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(text.encode(errors="replace"), True)
    except _RefusedError as error:
        document.gpus.clear()
        yield Gap(INPUT, f"not read: {error}")
    except expat.ExpatError as error:
        yield Gap(INPUT, f"the document is cut or damaged: {error}")


def _refuse(*_declaration: object) -> None:
    raise _RefusedError("it declares entities, which nvidia-smi never does")


def _states(document: _Document) -> Iterator[GpuState]:
    alone = len(document.gpus) == 1 and (document.attached or 1) > 1
    for position, (bdf, line, values) in enumerate(document.gpus):
        found = state(INPUT, None if alone else position, bdf, line, values)
        yield replace(found, read_at_s=document.read_at_s)
