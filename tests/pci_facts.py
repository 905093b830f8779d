"""What the tests of the PCI probes share: fixtures, and facts by kind."""

import dataclasses
from pathlib import Path

from topocheck.facts import Gap, PciFunction, PciListing

FIXTURES = Path(__file__).parent.parent / "fixtures" / "probes"
LSPCI_VV = "lspci/nnvv-pciutils-3.9.txt"


def fixture(path):
    return (FIXTURES / path).read_text("utf-8")


def functions(facts):
    return {fact.bdf: fact for fact in facts if isinstance(fact, PciFunction)}


def listing(facts):
    (found,) = (fact for fact in facts if isinstance(fact, PciListing))
    return found


def gaps(facts):
    return [fact.reason for fact in facts if isinstance(fact, Gap)]


def without_lines(facts):
    return [dataclasses.replace(fact, lines={}) if isinstance(fact, PciFunction) else fact for fact in facts]
