"""The colours of the drawing, light and dark; every rule is for what lies within `.tc` only."""

STYLE = """
.tc{font:11px "DejaVu Sans","Segoe UI",Helvetica,Arial,sans-serif}
.tc text{fill:#1b1f24}
.tc .dim{fill:#57606a}
.tc .name{font-weight:bold;font-size:12px}
.tc .top{font-weight:bold;font-size:15px}
.tc .small{font-size:10px}
.tc rect{stroke:#8c959f;rx:4px}
.tc .host{fill:#fff;stroke:none}
.tc .socket{fill:#f3f4f6}
.tc .numa{fill:#eaedf1}
.tc .root,.tc .card{fill:#f7f3e8}
.tc .switch{fill:#fdf3d8}
.tc .gpu{fill:#d9f0dc}
.tc .nic{fill:#d8e8fb}
.tc .nvlink{fill:#efe4fb}
.tc line{stroke:#57606a}
.tc .bar{stroke:#8c959f;stroke-width:3;stroke-linecap:square}
.tc .unread{stroke-dasharray:3 3}
.tc .nv{stroke:#7d4fc4}
.tc circle{fill:#7d4fc4}
.tc .none{fill:none;stroke:#8c959f}
.tc rect.error{stroke:#cf222e;stroke-width:3}
.tc rect.warning{stroke:#bf6a02;stroke-width:3}
.tc line.error{stroke:#cf222e}
.tc line.warning{stroke:#bf6a02}
.tc text.error{fill:#b3202b;font-weight:bold}
.tc text.warning{fill:#9a5700;font-weight:bold}
@media screen and (prefers-color-scheme:dark){
.tc text{fill:#e6edf3}
.tc .dim{fill:#aab4bf}
.tc rect{stroke:#6e7681}
.tc .host{fill:#0d1117}
.tc .socket{fill:#161b22}
.tc .numa{fill:#1f262e}
.tc .root,.tc .card{fill:#2b2820}
.tc .switch{fill:#3a3218}
.tc .gpu{fill:#173a1f}
.tc .nic{fill:#14304f}
.tc .nvlink{fill:#2d1f45}
.tc line{stroke:#aab4bf}
.tc .bar{stroke:#6e7681}
.tc .nv{stroke:#b48cf2}
.tc circle{fill:#b48cf2}
.tc text.error{fill:#ff7b72}
.tc text.warning{fill:#f0b060}
.tc rect.error,.tc line.error{stroke:#ff7b72}
.tc rect.warning,.tc line.warning{stroke:#f0b060}
}
"""
