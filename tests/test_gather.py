"""Which probe reads which text, and that no text can break or stall any of them."""

import inspect
import random
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from topocheck.facts import Gap, Host, Matrix
from topocheck.probes import TEXT_PROBES, TREE_PROBES, gather
from topocheck.sources.base import Raw

FOLDER = Path(gather.__file__).parent
MODULES = {entry.module: import_module(f"topocheck.probes.{entry.module}") for entry in TEXT_PROBES}

MATRIX = """\
	GPU0	GPU1	NIC0	CPU Affinity	NUMA Affinity
GPU0	 X 	NV18	PIX	0-31	0
GPU1	NV18	 X 	SYS	0-31	0
NIC0	PIX	SYS	 X

NIC Legend:

  NIC0: mlx5_0
"""
LSCPU = "Architecture:        x86_64\nSocket(s):           2\nNUMA node(s):        1\nNUMA node0 CPU(s):   0-63\n"


def kinds(text, name="stdin", input_=None):
    return {type(fact) for fact in gather.read_text(Raw(input_ or name, text, name))}


@pytest.mark.parametrize("entry", TEXT_PROBES, ids=lambda entry: entry.module)
def test_the_table_says_what_the_module_says(entry):
    module = MODULES[entry.module]
    assert (entry.name, entry.commands, entry.paths) == (module.NAME, tuple(module.COMMANDS), tuple(module.PATHS))
    assert entry.takes_command == ("command" in inspect.signature(module.parse).parameters)


def test_every_probe_is_in_the_table():
    modules = {file.stem: import_module(f"topocheck.probes.{file.stem}") for file in FOLDER.glob("[!_]*.py")}
    own = {name: vars(module) for name, module in modules.items() if name != "base"}
    assert {name for name, members in own.items() if {"NAME", "sniff", "parse"} <= members.keys()} == set(MODULES)
    assert {name for name, members in own.items() if {"INPUT", "read"} <= members.keys()} == set(TREE_PROBES)


@pytest.mark.parametrize("name", ["nvidia-smi_topo_-m", "topo.txt", "stdin", "lscpu.txt"])
def test_a_text_is_recognised_by_its_name_or_else_by_its_content(name):
    assert Matrix in kinds(MATRIX, name)


def test_a_text_may_hold_several_outputs():
    assert {Matrix, Host} <= kinds(f"$ nvidia-smi topo -m\n{MATRIX}\n$ lscpu\n{LSCPU}")


def test_an_output_far_down_in_a_long_text_is_recognised():
    filler = "nothing of interest in this line\n" * 60_000  # 2 MB
    assert {Matrix, Host} <= kinds(f"{filler}{MATRIX}\n{filler}{LSCPU}")


def test_the_command_of_an_input_says_more_than_its_file():
    without_nvlink = Raw("nvidia-smi topo -mp", MATRIX.replace("NV18", "NODE"), "17.txt")
    (matrix,) = [fact for fact in gather.read_text(without_nvlink) if isinstance(fact, Matrix)]
    assert matrix.witness == "nvidia-smi topo -mp"


@pytest.mark.parametrize("name", ["stdin", "shopping.txt", "nvidia-smi_topo_-m"])
def test_what_no_probe_can_read_is_a_gap_that_names_the_file(name):
    facts = gather.read_text(Raw(name, "two pounds of sugar\n", name))
    assert {type(fact) for fact in facts} == {Gap}
    assert not gather.recognised(facts)


def test_a_bug_in_a_probe_is_a_gap_that_names_the_probe(monkeypatch):
    def broken(text):
        yield Host("lscpu")
        raise KeyError("socket")

    monkeypatch.setattr(MODULES["lscpu"], "parse", broken)
    host, gap = gather.read_text(Raw("lscpu", LSCPU, "lscpu"))
    assert (host, gap.input) == (Host("lscpu"), "lscpu")
    assert "KeyError" in gap.reason


def test_only_the_modules_whose_input_is_there_are_imported():
    code = (
        "import sys; from topocheck.probes.gather import read_text; from topocheck.sources.base import Raw;"
        f"read_text(Raw('lscpu', {LSCPU!r}, 'lscpu'));"
        "print(sorted(m for m in sys.modules if m.startswith('topocheck.probes.smi')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def words_of(entry):
    """The literal words of a probe's module: text that comes near to what it looks for."""
    return sorted({word for word in inspect.getsource(MODULES[entry.module]).split() if word.isascii()})


def hostile(entry):
    """Long lines of what a probe reads, garbage, and runs of the characters between fields."""
    chance = random.Random(entry.module)
    words = words_of(entry)
    yield "".join(chance.choice(words) + chance.choice(" \t\n:,") for _ in range(20_000))
    yield MODULES[entry.module].__doc__[:2000] * 50
    yield "\n".join(line[: chance.randrange(80)] for line in (MODULES[entry.module].__doc__ * 20).splitlines())
    for run in (
        " ",
        "\t",
        "0",
        "a",
        ":",
        ",",
        "-",
        "(",
        "[",
        "|",
        "0,",
        "a:",
        "0-",
        "x ",
        "\n ",
        "GPU0\t",
        "NUMA ",
        "CPU ",
    ):
        yield run * (200_000 // len(run))
        for word in words[:: max(1, len(words) // 3)]:
            yield f"{word}{run * 3000}\n" * 5


@pytest.mark.parametrize("entry", TEXT_PROBES, ids=lambda entry: entry.module)
def test_no_text_breaks_or_stalls_a_probe(entry):
    module = MODULES[entry.module]
    for text in hostile(entry):
        started = time.process_time()
        module.sniff(text)
        list(module.parse(text))
        assert time.process_time() - started < 1, repr(text[:60])
