"""Writes what the documentation takes from the program, so that it cannot say anything else.

`make docs` runs it: docs/rules.md and docs/cli.md whole, and in other pages what stands between `<!-- NAME -->` and
`<!-- end NAME -->`. tests/test_docs.py fails where a page is not what this would write.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import cleandoc, getsource
from pathlib import Path
from types import ModuleType
from typing import cast

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "docs")]

import attached  # noqa: E402 (beside this file)
import collective_rows  # noqa: E402 (published runs, beside the tests)
import fleet_example  # noqa: E402 (beside this file)
import measurements  # noqa: E402 (published figures, beside the tests)
import nodes  # noqa: E402 (our fixtures, beside the tests)

from topocheck.exits import FAIL_ON, STYLES, exit_code, failure_code  # noqa: E402
from topocheck.hardware import collectives, gpus, network, pcie  # noqa: E402

DEMO_NODE, DEMO_FAULT = "hgx-h100", "mlx5_3-x8"  # the Makefile's
_WRITTEN_BY = "<!-- Written by docs/generate.py (make docs) from the program: edit that instead. -->\n"
_PRICE_KIND = re.compile(r'price_kind="(\w+)"')
_LEAD_IN = re.compile(r"^(Why it costs|Usual cause|Repair|Silent when):", re.MULTILINE)


def pages() -> dict[Path, str]:
    """Every page with generated parts, as it should be now."""
    model_parts = {"pcie": pcie_table, "nvlink": nvlink_table, "other": other_table, "prices": prices_table}
    fleet_parts = {
        "kit": fleet_example.kit_table,
        "fleet": fleet_example.screen_block,
        "asked": fleet_example.asked_block,
    }
    measured_parts = {
        "classes": classes_table,
        "rows": rows_table,
        "losses": losses_table,
        "listed": listed_table,
    }
    return {
        ROOT / "docs/rules.md": rules_page(),
        ROOT / "docs/cli.md": cli_page(),
        ROOT / "docs/model.md": filled(ROOT / "docs/model.md", model_parts),
        ROOT / "docs/predict.md": filled(
            ROOT / "docs/predict.md", {"large": collective_rows.large_table, "small": collective_rows.small_table}
        ),
        ROOT / "docs/fleet.md": filled(ROOT / "docs/fleet.md", fleet_parts),
        ROOT / "docs/measured.md": filled(ROOT / "docs/measured.md", measured_parts),
        ROOT / "docs/sources.md": filled(
            ROOT / "docs/sources.md", {"decides": attached.table, "open": attached.reasons}
        ),
        ROOT / "README.md": filled(ROOT / "README.md", {"screen": screen_block, "exits": exits_table}),
    }


def filled(page: Path, parts: dict[str, Callable[[], str]]) -> str:
    """A page with its marked parts replaced."""
    text = page.read_text("utf-8")
    for name, part in parts.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise LookupError(f"{page.name}: {start.strip()} and {end} must stand there once each")
        before, rest = text.split(start)
        text = f"{before}{start}{part()}{end}{rest.split(end)[1]}"
    return text


def rules_page() -> str:
    """The catalogue: a line a rule, then the page `topocheck rules ID` prints."""
    from topocheck.rules import ALL

    described = [(rule.ID, rule.NAME, cleandoc(rule.__doc__ or "")) for rule in ALL]
    table = [f"| [{id_}](#{id_.lower()}-{name}) | {name} | {about.splitlines()[0]} |" for id_, name, about in described]
    bold = [(id_, name, _LEAD_IN.sub(r"**\1:**", about)) for id_, name, about in described]
    sections = [f"## {id_} {name}\n\n{about}\n" for id_, name, about in bold]
    head = f"# Rules\n\n{_WRITTEN_BY}\n`topocheck rules ID` prints the same.\n\n| id | name | what is wrong |\n"
    return head + "|---|---|---|\n" + "\n".join(table) + "\n\n" + "\n".join(sections)


def cli_page() -> str:
    """The help of every command."""
    from click.testing import CliRunner

    from topocheck.cli import MODULES, cli

    def help_of(*words: str) -> str:
        shown = CliRunner().invoke(cli, [*words, "--help"], prog_name="topocheck", terminal_width=100)
        return f"## {' '.join(['topocheck', *words])}\n\n```\n{shown.output}```\n"

    sections = [help_of(), *(help_of(name) for name in sorted(MODULES))]
    return f"# Command line\n\n{_WRITTEN_BY}\n" + "\n".join(sections)


def screen_block() -> str:
    """What `make demo` prints, as of the day the node was captured."""
    from topocheck.check import check
    from topocheck.formats import text
    from topocheck.report import SourceLabel

    with tempfile.TemporaryDirectory() as folder:
        capture = nodes.apply(DEMO_NODE, nodes.edit(DEMO_NODE, DEMO_FAULT), Path(folder))
        report = check(str(capture)).report
    report = replace(report, source=SourceLabel("folder", ".venv/demo/capture"), time="2026-11-15T03:04:05Z")
    return f"```\n{text.render(report, verbose=False, width=80, color=False, ascii=False)}```\n"


def exits_table() -> str:
    """Exit codes by style, from the function that answers them."""
    rows = ["| style | healthy | warning | error | unknown, or our own failure |", "|---|---|---|---|---|"]
    for style in STYLES:
        codes = [exit_code(style, worst=worst, unknown=False) for worst in (None, "warning", "error")]
        blind, closed = failure_code(style), failure_code(style, fail_closed=True)
        last = f"{blind} ({closed} with `--fail-closed`)" if blind != closed else f"{blind}"
        rows.append(f"| {style} | {' | '.join(map(str, codes))} | {last} |")
    return "\n".join(rows) + "\n" + f"\n`--fail-on` is one of {', '.join(FAIL_ON)}; slurm and nhc ignore it.\n"


def pcie_table() -> str:
    """Line rate and achievable bandwidth of a PCIe link by generation; k is what is left of line rate × U(256)."""
    rows = ["| generation | GT/s | line rate x16 | U(256) | k | achievable x16 | x8 | x4 |", "|---" * 8 + "|"]
    for gen, speed_gts in pcie.GTS_OF_GEN.items():
        line = pcie.line_rate_gb_per_s(speed_gts, 16)
        share = pcie.payload_share(256, gen)
        x16, x8, x4 = (pcie.achievable_gb_per_s(speed_gts, lanes) for lanes in (16, 8, 4))
        rows.append(
            f"| {gen} | {speed_gts:g} | {line:.1f} | {share:.3f} | {x16 / line / share:.3f} "
            f"| {x16:.1f} | {x8:.1f} | {x4:.1f} |"
        )
    return "\n".join(rows) + "\n"


def nvlink_table() -> str:
    """NVLink copies by part."""
    rows = ["| part | links | GB/s a link | line rate | k | achievable |", "|---" * 6 + "|"]
    for model_name in (
        "P100-SXM2",
        "V100-SXM2",
        "A100-SXM4",
        "A100-PCIE",
        "H100 80GB HBM3",
        "H100 NVL",
        "B200",
        "GB200",
    ):
        part = gpus.part_of(f"NVIDIA {model_name}")
        if part is None or not part.nvlinks:
            raise LookupError(f"{model_name} has no NVLink in the table")
        line = gpus.nvlink_line_rate_gb_per_s(part.nvlinks, part)
        best = gpus.nvlink_achievable_gb_per_s(part.nvlinks, part)
        rate = part.nvlink_gb_per_s
        rows.append(f"| {model_name} | {part.nvlinks} | {rate:g} | {line:.0f} | {best / line:.3f} | {best:.0f} |")
    return "\n".join(rows) + "\n"


def other_table() -> str:
    """What is no link: NICs, and the classes where only a range is honest."""
    rows = [
        "| constant | value |",
        "|---|---|",
        f"| NIC: achievable over rate | {network.achievable_gb_per_s(400) / network.line_rate_gb_per_s(400):.2f} |",
        f"| NIC beyond the switch, GPUDirect RDMA lost: what remains, for sums of flows | {collectives.FAR_NIC:.2f} |",
        f"| the same as a price: nearest NIC on another socket (AFF001) | {_percent(network.FAR_SOCKET_LOSS)} lost |",
        f"| the same as a price: only beyond a host bridge (AFF002) | {_percent(network.FAR_BRIDGE_LOSS)} lost |",
        f"| peer-to-peer off, staged through host memory, Gen5 x16 | {pcie.staged_gb_per_s(32.0, 16):.1f} GB/s |",
        f"| NVLink pair staged over Gen5: what remains of NV18 | {gpus.NVLINK_PAIR_STAGED_REMAINS:.2f} |",
        f"| MaxPayload where it was not read | {pcie.ASSUMED_PAYLOAD_BYTES} bytes |",
    ]
    return "\n".join(rows) + "\n"


def prices_table() -> str:
    """Which rules price how: what their modules ask for."""
    from topocheck.rules import ALL

    asked = {rule.ID: set(_PRICE_KIND.findall(getsource(cast("ModuleType", rule)))) for rule in ALL}
    rows = ["| confidence | what is printed | rules |", "|---|---|---|"]
    for kind, printed in (("computed", "found, repaired and loss"), ("typical", "a range of loss, no single figure")):
        rows.append(f"| {kind} | {printed} | {', '.join(id_ for id_, kinds in asked.items() if kind in kinds)} |")
    rest = ", ".join(id_ for id_, kinds in asked.items() if not kinds & {"computed", "typical"})
    rows.append(f"| unknown | no figure; `effect` says what it does: stops, corrupts, risks, none | {rest} |")
    return "\n".join(rows) + "\n"


def classes_table() -> str:
    """Errors by class, then over the computed and over all classes."""
    rows = [row for row in measurements.rows() if row.class_]
    lines = ["| class | rows | sources | median | 90th percentile | own source left out: rows | median | 90th |"]
    lines.append("|---" * 8 + "|")
    sets = {c: [r for r in rows if r.class_ == c] for c in sorted({r.class_ for r in rows})}
    sets["**computed classes**"] = [r for r in rows if r.class_ not in measurements.TYPICAL]
    sets["all classes"] = rows
    for name, of_class in sets.items():
        ours, refitted = measurements.errors(of_class, rows)
        spans = [f"{len(v)} | {_middle_and_most(v)}" if v else "0 | | " for v in (ours, refitted)]
        head, tail = spans[0].split(" | ", 1)
        sources = len({row.source for row in of_class})
        mark = " (typical)" if name in measurements.TYPICAL else ""
        lines.append(f"| {name}{mark} | {head} | {sources} | {tail} | {spans[1]} |")
    return "\n".join(lines) + "\n"


def _middle_and_most(values: list[float]) -> str:
    return f"{measurements.median(values) * 100:.1f} % | {measurements.percentile(values, 0.9) * 100:.1f} %"


def rows_table() -> str:
    """Every predicted row."""
    rows = [row for row in measurements.rows() if row.class_]
    lines = ["| row | system | path | class | GB/s | ours | error | own source left out |", "|---" * 8 + "|"]
    for row in rows:
        refitted = measurements.without_own_source(row, rows)
        left_out = "only source" if refitted is None else _signed(measurements.error(refitted, row))
        lines.append(
            f"| [{row.id}]({row.source}) | {row.system} | {row.path} | {row.class_} | {row.measured:g} "
            f"| {row.predicted:.1f} | {_signed(measurements.error(row.predicted, row))} | {left_out} |"
        )
    return "\n".join(lines) + "\n"


def losses_table() -> str:
    """Pairs with and without a fault: what remains, measured and ours."""
    lines = ["| row | fault | GB/s with it | without | remains | ours | |", "|---" * 7 + "|"]
    losses = measurements.losses()
    for loss in losses:
        low, high = (0.0, 0.0) if loss.found else loss.range
        ours = f"{loss.found} / {loss.repaired}: {loss.predicted:.3f}" if loss.found else f"{low:.2f}–{high:.2f}"
        lines.append(
            f"| [{loss.id}]({loss.source}) | {loss.fault} | {loss.before:g} | {loss.after:g} | {loss.remains:.3f} "
            f"| {ours}{f' ({loss.rule})' if loss.rule else ''} | {'' if loss.hit else 'missed'} |"
        )
    return "\n".join(lines) + f"\n\n{sum(loss.hit for loss in losses)} of {len(losses)} hold.\n"


def listed_table() -> str:
    """Rows without a class, and why."""
    lines = ["| row | system | measured | why nothing is predicted |", "|---" * 4 + "|"]
    lines += [
        f"| [{row.id}]({row.source}) | {row.system} | {row.measured:g} {row.unit} | {row.why_not} |"
        for row in measurements.rows()
        if not row.class_
    ]
    return "\n".join(lines) + "\n"


def _signed(share: float) -> str:
    return f"{share * 100:+.1f} %".replace("-", "−")


def _percent(span: tuple[float, float]) -> str:
    return f"{span[0] * 100:.0f}–{span[1] * 100:.0f} %"


def stale() -> Iterator[Path]:
    """The pages that are not what they should be; how click wraps its help does not count, releases of it differ."""
    for page, text in pages().items():
        now = page.read_text("utf-8") if page.exists() else ""
        if now.split() != text.split() or (page.name != "cli.md" and now != text):
            yield page


def main() -> None:
    """Write every page that is not as it should be."""
    os.environ.setdefault("NO_COLOR", "1")
    for page in list(stale()):
        page.write_text(pages()[page], "utf-8")
        print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
