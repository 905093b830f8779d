"""The tree from `lspci -tv` and from `ls -l /sys/bus/pci/devices`, and what all PCI text probes share."""

import re
import time

import pytest
from pci_facts import LSPCI_VV, fixture, functions, gaps, listing, without_lines

from topocheck.facts import PciListing
from topocheck.hardware.pci_ids import is_gpu, is_rdma_nic
from topocheck.probes import lspci, lspci_tree, pci_ls

# --- lspci -tv ---


def test_tree_of_several_roots():
    facts = list(lspci_tree.parse(fixture("lspci_tree/tv.txt")))
    by_bdf = functions(facts)
    parents = {bdf: fact.parent for bdf, fact in by_bdf.items()}
    assert parents == {
        "0000:c0:00.0": "",
        "0000:c0:01.1": "",
        "0000:c1:00.0": "0000:c0:01.1",
        "0000:c2:00.0": "0000:c1:00.0",
        "0000:c3:00.0": "0000:c2:00.0",
        "0000:c2:01.0": "0000:c1:00.0",
        "0000:c4:00.0": "0000:c2:01.0",
        "0000:c4:00.1": "0000:c2:01.0",
        "0000:c2:02.0": "0000:c1:00.0",
        "0000:c2:03.0": "0000:c1:00.0",
        "0000:c7:00.0": "0000:c2:03.0",
        "0000:c0:14.0": "",
        "0000:80:01.1": "",
        "0000:81:00.0": "0000:80:01.1",
        "0000:81:00.1": "0000:80:01.1",
        "0001:00:00.0": "",
        "0001:01:00.0": "0001:00:00.0",
    }
    assert {fact.root for fact in by_bdf.values()} == {"0000:c0", "0000:80", "0001:00"}
    assert by_bdf["0000:c1:00.0"].secondary_bus == 0xC2
    assert listing(facts) == PciListing("lspci -tv", whole=True)
    assert sorted(bdf for bdf, fact in by_bdf.items() if is_gpu(fact)) == [
        "0000:81:00.0",
        "0000:c3:00.0",
        "0000:c7:00.0",  # "Device 2330": no name, but the id of an H100
    ]
    assert sorted(bdf for bdf, fact in by_bdf.items() if is_rdma_nic(fact)) == ["0000:c4:00.0", "0000:c4:00.1"]


def test_tree_from_a_mail_cut_wrapped_and_shifted():
    facts = list(lspci_tree.parse(fixture("lspci_tree/mail-cut-wrapped.txt")))
    by_bdf = functions(facts)
    gpu, nic, loop = by_bdf["0000:18:00.0"], by_bdf["0000:19:00.0"], by_bdf["0000:17:02.0"]
    assert (gpu.parent, gpu.vendor_id, gpu.device_id) == ("0000:17:00.0", "10de", "2324")
    assert (nic.parent, nic.name) == ("0000:17:01.0", "Mellanox Technologies MT2910 Family [ConnectX-7]")
    assert (by_bdf["0000:17:01.0"].parent, loop.parent) == ("0000:16:00.0", "0000:16:00.0")
    assert (loop.is_bridge, loop.secondary_bus) == (True, 0)
    assert not listing(facts).whole


def test_tree_without_names():
    by_bdf = functions(lspci_tree.parse(fixture("lspci_tree/t-no-names.txt")))
    assert {bdf: fact.parent for bdf, fact in by_bdf.items()} == {
        "0000:00:00.0": "",
        "0000:00:01.0": "",
        "0000:01:00.0": "0000:00:01.0",
        "0000:01:00.1": "0000:00:01.0",
        "0000:00:1c.0": "",
        "0000:02:00.0": "0000:00:1c.0",
        "0000:03:04.0": "0000:02:00.0",
    }
    assert {fact.name for fact in by_bdf.values()} == {None}


def test_tree_without_its_bars():
    tree = fixture("lspci_tree/tv.txt")
    whole = without_lines(lspci_tree.parse(tree))
    assert without_lines(lspci_tree.parse(tree.replace("|", " "))) == whole


def test_grep_of_a_tree_hangs_nothing_under_a_stranger():
    lines = fixture("lspci_tree/tv.txt").split("\n")
    facts = list(lspci_tree.parse("\n".join((lines[7], lines[1]))))
    assert set(functions(facts)) == {"0000:80:01.1", "0000:81:00.0"}  # bus c1 is none of those below 80:01.1
    assert gaps(facts) == ["1 lines of the tree without the branch they belong to"]


def test_tree_with_a_bus_range_that_ends_before_it_begins():
    by_bdf = functions(lspci_tree.parse("-[0000:00]---01.0-[09-02]--+-00.0\n                              \\-00.1\n"))
    assert {bdf: fact.parent for bdf, fact in by_bdf.items()} == {
        "0000:00:01.0": "",
        "0000:09:00.0": "0000:00:01.0",
        "0000:09:00.1": "0000:00:01.0",
    }


def test_tree_lines_without_their_root_are_a_gap():
    tree = fixture("lspci_tree/tv.txt").split("\n")
    facts = list(lspci_tree.parse("\n".join(tree[4:6] + tree[7:9])))
    assert set(functions(facts)) == {"0000:80:01.1", "0000:81:00.0", "0000:81:00.1"}
    assert gaps(facts) == ["2 lines of the tree without the branch they belong to"]
    assert not listing(facts).whole


# --- ls -l /sys/bus/pci/devices, and what all of them share ---


def test_device_links():
    facts = list(pci_ls.parse(fixture("pci_ls/devices.txt")))
    places = {bdf: (fact.parent, fact.root) for bdf, fact in functions(facts).items()}
    assert places == {
        "0000:15:01.0": ("", "pci0000:15"),
        "0000:16:00.0": ("0000:15:01.0", "pci0000:15"),
        "0000:80:05.5": ("", "pci0000:80"),
        "10000:e0:01.0": ("", "pci10000:e0"),  # behind Intel VMD
        "10000:e1:00.0": ("10000:e0:01.0", "pci10000:e0"),
    }
    assert listing(facts).whole
    cut = fixture("pci_ls/devices.txt").split("\n")
    assert not listing(list(pci_ls.parse("\n".join(cut[:2] + cut[3:])))).whole


PROBES = (lspci, lspci_tree, pci_ls)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__.rsplit(".", 1)[1])
def test_the_sample_in_the_docstring_parses(probe):
    sample = "\n".join(line[4:] for line in probe.__doc__.split("\n") if line.startswith("    "))
    assert probe.sniff(sample)
    assert functions(probe.parse(sample))


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        *((f"lspci_-{options}", lspci) for options in ("vv", "vvv", "nnvv", "nvv", "nnvvv", "vvxxxx", "nn", "v", "n")),
        *((name, lspci) for name in ("lspci", "lspci.txt", "lspci_-D_-nn_-vv", "lspci_-vvv_grep_ACSCtl")),
        *((f"lspci_-{options}", lspci_tree) for options in ("tv", "t", "nntv", "vt", "tvnn")),
        ("ls_-l_sys_bus_pci_devices", pci_ls),
        ("ls_-l_.sys.bus.pci.devices", pci_ls),
        ("lspci_notes", None),
        ("ls_-l_sys_bus_pci_drivers", None),
    ],
)
def test_file_names_have_one_owner(name, owner):
    assert [probe for probe in PROBES if re.match(probe.NAME, name)] == ([owner] if owner else [])


def test_each_takes_its_part_of_a_joint_text():
    parts = [fixture(LSPCI_VV), fixture("lspci_tree/tv.txt"), fixture("pci_ls/devices.txt")]
    joint = "\n".join(parts)
    for probe, part in zip(PROBES, parts, strict=True):
        assert [probe.sniff(text) for text in (*parts, joint)] == [*(text is part for text in parts), True]
        assert without_lines(probe.parse(joint)) == without_lines(probe.parse(part))


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__.rsplit(".", 1)[1])
@pytest.mark.parametrize(
    "unit", ["x", " ", "> ", "|", "+-", "0", "00:00.0 ", "-[0000:00]-", "/pci0000:00", "lspci -s ", "LnkSta: Speed "]
)
def test_one_endless_line_costs_no_time(probe, unit):
    text = unit * (8_000_000 // len(unit))
    started_s = time.process_time()
    probe.sniff(text)
    list(probe.parse(text))
    assert time.process_time() - started_s < 1.0  # 0.1 s in practice; quadratic would be minutes


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__.rsplit(".", 1)[1])
def test_cut_anywhere_or_binary_never_raises(probe):
    source = {lspci: LSPCI_VV, lspci_tree: "lspci_tree/tv.txt", pci_ls: "pci_ls/devices.txt"}[probe]
    text = fixture(source)
    for end in range(0, len(text), 37):
        list(probe.parse(text[end // 2 : end]))
        list(probe.parse(text[:end] + "\0\ufffd\u2028:" + text[end + 5 :]))


def test_a_large_listing_is_read_quickly():
    text = fixture(LSPCI_VV)
    big = text * (1_000_000 // len(text))
    started_s = time.process_time()
    list(lspci.parse(big))
    assert time.process_time() - started_s < 0.4  # 0.04 s on an idle core, the budget of a node run is 0.3 s
