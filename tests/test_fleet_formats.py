"""The formats of `topocheck fleet`, by fleets built by hand: what each says, how long it gets, and that no report can
speak to the terminal, run in the page or become an option of sbatch."""

import json
import re
import subprocess
from dataclasses import replace
from importlib.resources import files

import fleets
import pytest
from fleets import ALL, EVIL, FAULTY, FIRMWARE, HEALTHY, HGX, ORDERING, PCIE, RAILS, SWAPPED, TOLD, WIDTH, hosts
from fleetsim import FAMILIES, Fleet, faults_of

from topocheck.cli import run
from topocheck.fleet import document, exclude, metrics, screen
from topocheck.fleet.report import Job

SCHEMA = json.loads((files("topocheck.fleet") / "fleet-1.schema.json").read_text("utf-8"))
FLEETS = fleets.by_name()
BAD = FLEETS["bad day"]
TOP_LEVEL = [
    "schema", "version", "time", "verdict", "reason", "nodes", "verdicts", "hosts", "kinds", "groups", "unlike",
    "rails", "exclude", "missing", "unexpected", "unread", "unread_examples", "comparisons", "job", "versions",
    "skipped", "newest", "old",
]  # fmt: skip
FAULTY_SCREEN = """\
128 nodes · HGX H100 8-GPU, 8 GPUs, 10 NICs   2026-11-20
FAILED  2 failed, 1 degraded, 125 healthy, 1 cabling fault, unlike in 1 field, 2
        missing, 1 torn

 x PCI001 mlx5_3 (0000:5e:00.0) on 2 nodes, gpu[017,044]
          PCIe 5.0 x8 of x16: gpu3 -> mlx5_3 GPUDirect RDMA 26.9 of 49.0 GB/s
          (−45 %)
 ! PCI009 mlx5_6 (0000:9c:00.0) gpu090
          relaxed ordering off, 7 peers on

 x RAIL002 gpu003 mlx5_3 and mlx5_4 are swapped
           gpu003 mlx5_3 (0000:5e:00.0): leaf-4 port 3, belongs at leaf-3
           gpu003 mlx5_4 (0000:5e:00.0): leaf-3 port 3, belongs at leaf-4
           Swap the cables of gpu003 at leaf-3 port 3 and leaf-4 port 3
 rails  by lldp, 128 nodes in 1 pod, 2 leaves, oversubscription at most 2.00
        (leaf-0), bisection 25,600 Gb/s

 i unlike  mlx5_3 firmware: 28.39.2048 on gpu044; 127 of 128 have 28.43.1014
 - differs driver: 570.1 on gpu[001-064]; 64 of 128 have 580.95.05

 i NUM003 on 128 nodes, gpu[001-128]: NUMA balancing is on

 missing  2 nodes: gpu[129-130]
 not expected  1 node: login1
 sbatch --exclude=gpu[003,017,044]

 job of 64 nodes  gpu[051-114]
   slowest  gpu090 has 196.0 of 392.0 GB/s (−50 %): a collective runs at its
            pace
   left out  gpu[017,044]: PCI001

 against yesterday.jsonl  127 nodes in both; no report now: gpu130; none then:
                          gpu001
 x new PCI001 mlx5_3: gpu[017,044]

 not read  1 torn, 1 foreign, 2 older of a host seen twice (nodes.jsonl:17: cut
           off after 4096 bytes)
 not looked  NET003 on all · P2P003 on 12 of 128
"""


def shown(fleet, *, verbose=False, width=80, color=False, ascii=False):  # noqa: A002
    return screen.render(fleet, verbose=verbose, width=width, color=color, ascii=ascii)


def words(fleet, **options):
    return " ".join(shown(fleet, **options).split())


def errors(value):
    from jsonschema import Draft202012Validator

    return [f"{list(error.path)}: {error.message[:200]}" for error in Draft202012Validator(SCHEMA).iter_errors(value)]


def told(fleet):
    return json.loads(document.render(fleet))


# The screen


def test_everything_at_once_on_one_screen():
    assert shown(FAULTY) == FAULTY_SCREEN


def test_a_healthy_fleet_is_five_lines():
    assert shown(HEALTHY).splitlines() == [
        "128 nodes · HGX H100 8-GPU, 8 GPUs, 10 NICs   2026-11-20",
        "HEALTHY  128 healthy",
        "",
        " not seen  rails: no leaf is known of any port",
        " not looked  NET003 on all · P2P003 on 12 of 128",
    ]


def test_an_unknown_fleet_says_why():
    assert shown(fleets.EMPTY).splitlines()[1] == "UNKNOWN  no report was read"


@pytest.mark.parametrize("width", [40, 61, 80, 200])
@pytest.mark.parametrize("name", FLEETS)
def test_no_line_is_wider_than_the_terminal(name, width):
    from rich.cells import cell_len

    page_ = shown(FLEETS[name], width=width)
    assert max(cell_len(line) for line in page_.splitlines()) <= width


def test_the_worst_day_is_cut_and_says_by_how_much():
    lines = shown(BAD).splitlines()
    assert len(lines) <= 112
    # 120 groups, 8 of them shown; 300 cabling faults, 8 shown; 30 accused fields, 8 shown
    assert "   and 112 more positions with a fault (-v)" in lines
    assert "   and 292 more cabling faults (-v)" in lines
    assert "   and 22 more fields (-v)" in lines
    assert " sbatch --exclude: 834 nodes, more than a line; --format exclude prints them" in lines


def test_verbose_shows_all():
    few = replace(BAD, job=None, missing=(), unexpected=(), exclude=(), comparisons=())
    page_ = shown(few, verbose=True)
    assert page_.count(" x PCI0") == 120 and page_.count(" x RAIL002") == 300 and "(-v)" not in page_
    assert "told by PCI001" in words(FAULTY, verbose=True) and "told by" not in words(FAULTY)


def test_who_is_only_unlike_where_a_finding_says_so_is_not_named_twice():
    assert "unlike" not in shown(replace(FAULTY, unlike=(TOLD,)))


def test_who_is_unknown_is_named():
    verdicts = {"unknown": hosts(90, 91), "healthy": ALL[:89]}
    assert " unknown  2 nodes: gpu[090-091]\n" in shown(replace(HEALTHY, verdict="unknown", verdicts=verdicts))


def test_sisters_of_several_kinds_are_told_apart():
    page_ = shown(replace(FAULTY, kinds=((HGX, 100), (PCIE, 28)))).splitlines()
    assert page_[0].startswith("128 nodes of 2 kinds")
    assert "100 HGX H100 8-GPU, 8 GPUs, 10 NICs · 28 NVIDIA L40S, 4 GPUs, 2 NICs" in page_
    assert "127 of 128 of HGX H100 8-GPU, 8 GPUs, 10 NICs have 28.43.1014" in words(
        replace(FAULTY, kinds=((HGX, 100), (PCIE, 28)))
    )


def test_of_many_places_the_host_is_what_is_kept():
    places = ", ".join(f"nic 0000:{bus}:00.0 port 1" for bus in ("1a", "3c", "4d", "5e"))
    entry = FIRMWARE._replace(field=f"link layer of 4 places: {places}", severity="warning")
    short, whole = (words(replace(FAULTY, unlike=(entry,)), verbose=verbose) for verbose in (False, True))
    assert "link layer of 4 places, nic 0000:1a:00.0 port 1 …: 28.39.2048 on gpu044; 127 of 128 have" in short
    assert places in whole


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (WIDTH, "26.9 of 49.0 GB/s (−45 %)"),
        (WIDTH._replace(message="mlx5_3 x8 of x16"), "x8 of x16 (−45 %)"),  # a price that the message lacks
        (WIDTH._replace(message="mlx5_9 x8 of x16", worst_loss=None), "mlx5_9 x8 of x16"),  # the worst has another name
    ],
)
def test_a_group_says_what_it_costs_once(group, text):
    page_ = words(replace(HEALTHY, groups=(group,)))
    assert text in page_ and page_.count("−45 %") == text.count("−45 %")


def test_a_job_that_is_too_large_says_how_many_fit():
    job = Job(128, ALL[:120], (), None, None, 392.0, False)
    assert "job of 128 nodes only 120 fit: gpu[001-120]" in words(replace(HEALTHY, job=job))
    alike = Job(2, ALL[:2], (), "gpu001", 392.0, 392.0, True)
    assert "slowest 392.0 GB/s a node, one direction, all NICs together: none is slower" in words(
        replace(HEALTHY, job=alike)
    )


def test_a_port_at_no_leaf_and_the_second_port_of_a_card():
    ends = (SWAPPED.ends[0]._replace(leaf=None, leaf_port=None), SWAPPED.ends[1]._replace(port=2, leaf_port=None))
    page_ = words(replace(HEALTHY, rails=replace(RAILS, faults=(SWAPPED._replace(ends=ends),))))
    assert "gpu003 mlx5_3 (0000:5e:00.0): at no leaf, belongs at leaf-3" in page_
    assert "gpu003 mlx5_4 (0000:5e:00.0) port 2: leaf-3, belongs at leaf-4" in page_


def test_ends_that_the_message_has_are_not_said_twice():
    message = "gpu003 mlx5_3 reaches leaf-4 instead of leaf-3, mlx5_4 reaches leaf-3 instead of leaf-4"
    fleet = replace(HEALTHY, rails=replace(RAILS, faults=(SWAPPED._replace(message=message),)))
    assert "belongs at" not in words(fleet) and message in words(fleet)
    assert words(fleet, verbose=True).count("(0000:5e:00.0): leaf-") == 2


@pytest.mark.parametrize("verbose", [False, True])
def test_no_report_can_speak_to_the_terminal(verbose):
    page_ = shown(fleets.hostile(), verbose=verbose)
    assert not {char for char in page_ if not char.isprintable()} - {"\n"}
    assert "\\x1b]0;owned\\x07\\x1b[2J[bold red]" in page_
    assert shown(fleets.hostile(), verbose=verbose, ascii=True).isascii()


def test_color_is_only_the_styles_of_rich():
    escapes = {part[: part.index("m")] for part in shown(fleets.hostile(), color=True).split("\x1b[")[1:]}
    assert escapes and all(set(escape) <= set("0123456789;") for escape in escapes)


# The document


def test_the_schema_is_one_itself():
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", FLEETS)
def test_every_fleet_holds_the_schema(name):
    text = document.render(FLEETS[name])
    assert errors(json.loads(text)) == []
    assert list(json.loads(text)) == TOP_LEVEL
    assert text.isascii() and text.count("\n") == 1 and text.endswith("}\n")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.pop("job"),
        lambda d: d.update(extra=1),
        lambda d: d.update(verdict="ok"),
        lambda d: d["unread"].update(examples=[]),
        lambda d: d["groups"][0].update(worst_loss=45.1),
        lambda d: d["groups"][0].pop("count"),
        lambda d: d["unlike"][0].update(share=1.5),
        lambda d: d["rails"]["faults"][0]["ends"][0].pop("guid"),
        lambda d: d["verdicts"].update(lost=1),
    ],
)
def test_the_schema_refuses_what_is_not_in_it(spoil):
    value = told(FAULTY)
    spoil(value)
    assert errors(value) != []


def test_the_document_as_the_issue_has_it():
    value = told(FAULTY)
    assert (value["schema"], value["nodes"]) == ("topocheck.fleet/1", 128)
    assert value["verdicts"] == {"failed": 2, "degraded": 1, "unknown": 0, "healthy": 125}
    assert value["hosts"]["failed"] == "gpu[017,044]" and value["hosts"]["unknown"] == ""
    assert value["groups"][0] == {
        "rule": "PCI001", "name": "pcie-width-degraded", "severity": "error", "device": "mlx5_3",
        "bdf": "0000:5e:00.0", "hosts": "gpu[017,044]", "count": 2, "worst_loss": 0.451,
        "message": "mlx5_3 PCIe 5.0 x8 of x16: gpu3 -> mlx5_3 GPUDirect RDMA 26.9 of 49.0 GB/s (−45 %)",
        "effect": "slows",
    }  # fmt: skip
    assert value["unlike"][1]["others"] == [{"value": "x8", "hosts": "gpu[017,044]", "count": 2, "follows": ["PCI001"]}]
    assert value["unlike"][0]["share"] == 0.992  # 127 of 128
    assert (value["exclude"], value["missing"], value["unexpected"]) == ("gpu[003,017,044]", "gpu[129-130]", "login1")
    assert value["unread"] == {"torn": 1, "duplicate": 2, "schema": 0, "foreign": 1}
    assert value["unread_examples"] == ["nodes.jsonl:17: cut off after 4096 bytes"]


def test_the_document_names_both_ends_of_a_cable():
    rails = told(FAULTY)["rails"]
    assert [(e["host"], e["nic"], e["guid"], e["leaf"], e["expected_leaf"]) for e in rails["faults"][0]["ends"]] == [
        ("gpu003", "mlx5_3", "b83f:d203:0001:0003", "leaf-4", "leaf-3"),
        ("gpu003", "mlx5_4", "b83f:d203:0001:0003", "leaf-3", "leaf-4"),
    ]
    # 51,200 down, 25,600 up; a leaf without uplinks has no ratio
    assert [leaf["oversubscription"] for leaf in rails["leaves"]] == [2.0, None]
    assert told(HEALTHY)["rails"]["why_none"] == "no leaf is known of any port"
    assert told(HEALTHY)["job"] is None


def test_the_job_in_the_document():
    assert told(FAULTY)["job"] == {
        "wanted": 64, "chosen": "gpu[051-114]", "left_out": [{"hosts": "gpu[017,044]", "why": "PCI001"}],
        "slowest": "gpu090", "slowest_gb_per_s": 196.0, "usual_gb_per_s": 392.0, "enough": True,
    }  # fmt: skip


# The list to leave out


def test_exclude_is_one_line_or_nothing():
    assert exclude.render(FAULTY) == "gpu[003,017,044]\n"
    assert exclude.render(HEALTHY) == ""


@pytest.mark.parametrize(
    "name", [EVIL, "-w", "a b", "a;reboot", "$(reboot)", "a\nb", "", "a,b", "@all", "gpu[1-9]", "n" * 256]
)
def test_no_name_becomes_an_option_or_a_second_word(name):
    assert exclude.render(replace(FAULTY, exclude=("gpu003", name))) == "gpu003\n"
    assert " sbatch --exclude=gpu003\n" in shown(replace(FAULTY, exclude=("gpu003", name)))


# Metrics


def samples(fleet):
    lines = [line for line in metrics.render(fleet).splitlines() if not line.startswith("#")]
    found = [re.fullmatch(r'([a-z_]+(?:\{[a-z]+="[^\n]*"\})?) (-?[0-9.e+-]+)', line) for line in lines]
    assert all(found)
    return {match[1]: float(match[2]) for match in found}


@pytest.mark.real("prometheus", program="promtool")
@pytest.mark.parametrize("name", FLEETS)
def test_promtool_accepts_the_metrics(name):
    subprocess.run(["promtool", "check", "metrics"], input=metrics.render(FLEETS[name]).encode(), check=True)


def test_metrics_count_nodes_once():
    twice = replace(
        FAULTY, groups=(WIDTH, WIDTH._replace(device="mlx5_4", bdf="0000:5f:00.0", worst_loss=0.5), ORDERING)
    )
    found = samples(twice)
    assert found['topocheck_fleet_check_nodes{check="PCI001",severity="error"}'] == 2
    assert found['topocheck_fleet_worst_loss_ratio{check="PCI001"}'] == 0.5
    assert found['topocheck_fleet_nodes{verdict="unknown"}'] == 0
    assert found['topocheck_fleet_nodes{verdict="healthy"}'] == 125
    assert found["topocheck_fleet_missing_nodes"] == 2
    assert found['topocheck_fleet_unread{cause="duplicate"}'] == 2
    assert found["topocheck_fleet_unlike_nodes"] == 1  # gpu044; TOLD follows a finding, SHOWN accuses nobody
    assert found['topocheck_fleet_rail_faults{check="RAIL002",severity="error"}'] == 1
    assert found["topocheck_fleet_bisection_bytes_per_second"] == 25600e9 / 8
    assert found["topocheck_fleet_last_run_timestamp_seconds"] == 1795143845  # 2026-11-20T03:04:05Z


def test_no_zero_for_cables_that_nobody_saw():
    assert not [name for name in samples(HEALTHY) if "rail" in name or "bisection" in name]


def test_metrics_do_not_grow_with_the_fleet():
    # 12 rules, each with one severity and a loss; 4 verdicts, 4 causes, 3 rail rules, 8 single figures
    assert len(samples(BAD)) == 12 + 12 + 4 + 4 + 3 + 8
    many = tuple(WIDTH._replace(rule=f"X{i}") for i in range(2000))
    assert len(samples(replace(FAULTY, groups=many))) == metrics.MOST_SERIES


# All of them through the command


@pytest.fixture(scope="module")
def run_fleet(tmp_path_factory):
    """Twenty nodes, of them a narrow card, another firmware, crossed cables, and one that is silent."""
    family, folder = FAMILIES[0], tmp_path_factory.mktemp("fleet")
    faults = {
        "gpu0003": "mlx5_3-x8", "gpu0005": "older-nic-firmware", "gpu0007": "cables-2-3-swapped", "gpu0009": "silent",
    }  # fmt: skip
    injected = tuple(faults_of(family)[fault]._replace(host=host) for host, fault in faults.items())
    fleet = Fleet({f"gpu{n + 1:04}": (family, n) for n in range(20)}, injected, frozenset({"gpu0007"}))
    names = [str(fleet.write(folder / "nodes.jsonl")), str(folder / "fabric.txt")]
    (folder / "fabric.txt").write_text(fleet.listing())

    def read(format_, *words):
        out = folder / f"out.{format_}"
        code = run(["fleet", *names, "--expect", "gpu[0001-0020]", "--format", format_, "--output", str(out), *words])
        return code, out.read_text("utf-8")

    return read


def test_every_format_names_the_four(run_fleet):
    code, page_ = run_fleet("text", "--job", "16")
    assert code == 1
    for text in (
        " x PCI001 mlx5_3 (0000:5e:00.0) gpu0003\n", " x RAIL001 gpu0007 mlx5_2 ", "28.39.1002 on gpu0005;",
        " missing  1 node: gpu0009\n", " sbatch --exclude=gpu[0003,0007]\n",
        " job of 16 nodes  gpu[0001-0002,0004-0006,0008,0010-0019]\n",
    ):  # fmt: skip
        assert text in page_
    assert len(page_.splitlines()) <= 36
    assert run_fleet("exclude") == (1, "gpu[0003,0007]\n")
    _, metrics_ = run_fleet("prometheus")
    for text in (
        'nodes{verdict="failed"} 1', 'check_nodes{check="PCI001",severity="error"} 1', "missing_nodes 1",
        "unlike_nodes 1", 'rail_faults{check="RAIL001",severity="error"} 1',
    ):  # fmt: skip
        assert f"topocheck_fleet_{text}\n" in metrics_


def test_the_document_and_the_grid_of_the_four(run_fleet):
    value = json.loads(run_fleet("json", "--job", "16")[1])
    assert errors(value) == []
    assert [(g["rule"], g["hosts"], g["bdf"], g["worst_loss"]) for g in value["groups"] if g["severity"] != "info"] == [
        ("PCI001", "gpu0003", "0000:5e:00.0", 0.451)  # 26.9 of 49.0 GB/s
    ]
    assert {other["hosts"] for entry in value["unlike"] for other in entry["others"] if not other["follows"]} == {
        "gpu0005"
    }
    assert {end["host"] for fault in value["rails"]["faults"] for end in fault["ends"]} == {"gpu0007"}
    assert (value["missing"], value["exclude"], value["nodes"]) == ("gpu0009", "gpu[0003,0007]", 19)
    page_ = run_fleet("html")[1]
    rows = re.findall(
        r'<th scope="row">(?:<details><summary>)?([^<]*)<', page_.split('id="grid"')[1].split("</table>")[0]
    )
    assert rows == ["gpu0003", "gpu0007", "gpu0005", "16 nodes"]
