"""What the tests of drawings and pages share: hostile captures, a big box, and the rectangles of an SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import nodes

SVG = "{http://www.w3.org/2000/svg}"
PAYLOADS = (
    "<script>window.owned=1</script>",
    "\"'><img src=x onerror=window.owned=1>",
    "</text></svg><script>window.owned=1</script>",
    "]]></script><script>window.owned=1</script>",
    "{{ 7 * 7 }}{% raw %}",
    '"]; owned [label="x',
    "\x1b[2J&amp;&#60;b&#62; |x| `[a](http://e.x)`",
)


class Rectangle(NamedTuple):
    """What lies where, in pixels."""

    name: str
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Rectangle) -> bool:
        """Whether they share an area."""
        apart_x = self.x + self.width <= other.x + 0.2 or other.x + other.width <= self.x + 0.2
        return not (apart_x or self.y + self.height <= other.y + 0.2 or other.y + other.height <= self.y + 0.2)

    def holds(self, other: Rectangle) -> bool:
        """Whether the other one lies within."""
        within_x = self.x <= other.x + 0.2 and other.x + other.width <= self.x + self.width + 0.2
        return within_x and self.y <= other.y + 0.2 and other.y + other.height <= self.y + self.height + 0.2


def rectangles(text: str, attribute: str) -> list[Rectangle]:
    """The boxes of an SVG: of its devices (data-device), or of what holds them (data-part)."""
    found = []
    for group in ET.fromstring(text).iter(f"{SVG}g"):
        if (name := group.get(attribute)) is not None:
            box = group.find(f"{SVG}rect")
            assert box is not None
            found.append(Rectangle(name, *(float(box.get(key, "nan")) for key in ("x", "y", "width", "height"))))
    return found


def clashes(boxes: list[Rectangle]) -> list[tuple[str, str]]:
    """The pairs that overlap."""
    return [(a.name, b.name) for a, b in combinations(boxes, 2) if a.overlaps(b)]


def hostile(folder: Path, payload: str) -> Path:
    """A node with a fault whose names, models, host and evidence lines hold the payload."""
    capture = nodes.apply("hgx-h100", nodes.edit("hgx-h100", "mlx5_3-x8"), folder)
    as_xml = payload.replace("&", "&amp;").replace("<", "&lt;").replace("\x1b", " ")
    as_json = payload.replace("\\", "\\\\").replace('"', '\\"').replace("\x1b", "\\u001b")
    for file, old, new in (
        ("lspci_-D_-nn_-vv", "[ConnectX-7]", payload),
        ("lspci_-D_-nn_-vv", "(downgraded)", f"(downgraded) {payload}"),
        ("nvidia-smi_-q_-x", "NVIDIA H100 80GB HBM3", as_xml),
        ("nvidia-smi_-L", "NVIDIA H100 80GB HBM3", payload),
        ("manifest.json", "gpu-a01", as_json),
    ):
        path = capture / file
        text = path.read_text()
        assert old in text, (file, old)
        path.write_text(text.replace(old, new))
    return capture


def big_box() -> str:
    """16 GPUs and 34 NICs as an NCCL topology file: four switches a socket, each with two GPUs and four NICs, and one
    NIC beside them."""
    lines = ['<system version="1">']
    gpu = nic = 0
    for socket in range(2):
        lines.append(
            f'<cpu numaid="{socket}" affinity="{"ffffffff,00000000" if socket else "ffffffff"}" arch="x86_64">'
        )
        for switch in range(4):
            bus = 0x10 + 0x70 * socket + 0x10 * switch
            lines.append(_pci(bus, "0x060400", "0x1000", "0xc030"))
            for place in range(2):
                lines.append(_pci(bus + 1 + place, "0x030200", "0x10de", "0x2330"))
                nvlink = '<nvlink target="0000:05:00.0" count="18" tclass="0x068000"/>'
                lines.append(f'<gpu dev="{gpu}" sm="90" rank="{gpu}" gdr="1">{nvlink}</gpu></pci>')
                gpu += 1
            for place in range(4):
                lines += _nic(bus + 4 + place, nic)
                nic += 1
            lines.append("</pci>")
        lines += _nic(0x60 + 0x70 * socket, nic)
        nic += 1
        lines.append("</cpu>")
    return "\n".join([*lines, "</system>"])


def _pci(bus: int, class_id: str, vendor: str, device: str) -> str:
    link = 'link_speed="32.0 GT/s PCIe" link_width="16"'
    return f'<pci busid="0000:{bus:02x}:00.0" class="{class_id}" vendor="{vendor}" device="{device}" {link}>'


def _nic(bus: int, number: int) -> list[str]:
    net = f'<net name="mlx5_{number}" dev="{number}" speed="400000" port="1" guid="0x{number + 1:x}" gdr="1"/>'
    return [_pci(bus, "0x020700", "0x15b3", "0x1021"), f"<nic>{net}</nic></pci>"]
