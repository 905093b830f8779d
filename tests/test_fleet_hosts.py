"""Nodes that go by several names: with a domain and without, in capitals."""

import json
from copy import deepcopy

import pytest
import sisters

from topocheck.fleet import exclude
from topocheck.fleet.assess import Asked, assess, read

NOW = "2026-11-20T12:00:00Z"


def report_of(number, host, *, fault=None, hour=3, guids=True):
    document = deepcopy(sisters.report(fault=fault))
    document |= {"host": host, "time": f"2026-11-20T{hour:02}:00:00Z"}
    for place, port in enumerate(p for d in document["devices"] for p in d.get("ports", ())):
        port["guid"] = f"b83f:d203:{number:04x}:{place:04x}" if guids else None
    return document


@pytest.fixture
def ask(tmp_path):
    """The fleet of these reports."""

    def asked(*documents, expected=()):
        file = tmp_path / "nodes.jsonl"
        file.write_text("\n".join(map(json.dumps, documents)))
        return assess(*read([str(file)]), NOW, Asked(expected))

    return asked


@pytest.mark.parametrize("other", ["gpu001.cluster.example", "GPU001", "gpu001.local"])
def test_two_names_of_a_node_are_one_node(ask, other):
    before, after = report_of(1, "gpu001", hour=3), report_of(1, other, hour=4)
    for both in ([before, after], [after, before]):
        answer = ask(*both, report_of(2, "gpu002"))
        assert (set(answer.hosts), answer.unread.duplicate) == ({other, "gpu002"}, 1)
    assert "by another name" in answer.unread.examples[0]


@pytest.mark.parametrize("guids", [True, False])
def test_two_nodes_of_one_name_in_two_domains_are_two(ask, guids):
    answer = ask(report_of(1, "gpu001.a.example", guids=guids), report_of(2, "gpu001.b.example", guids=guids))
    assert (len(answer.hosts), answer.unread.duplicate) == (2, 0)


@pytest.mark.parametrize(
    ("hosts", "expected", "option"),
    [
        (("gpu001", "gpu002"), (), "gpu[001-002]"),
        (("gpu001.c.example", "gpu002"), (), "gpu[001-002]"),
        (("gpu001.c.example", "gpu002.c.example"), (), "gpu[001-002]"),
        (("gpu001.c.example", "gpu002.c.example"), ("gpu001.c.example", "gpu002"), "gpu002,gpu001.c.example"),
        (("gpu001.c.example", "gpu001.d.example"), (), "gpu001.c.example,gpu001.d.example"),
        (("rack1.node1", "rack2.node2"), (), "rack1.node1,rack2.node2"),
        (("10.1.0.1", "10.1.0.2"), (), "10.1.0.[1-2]"),
    ],
)
def test_the_option_has_the_names_that_slurm_knows(ask, hosts, expected, option):
    failed = [report_of(number, host, fault="mlx5_3-x8") for number, host in enumerate(hosts)]
    assert exclude.option(ask(*failed, expected=expected)) == option


@pytest.mark.parametrize(
    ("hosts", "expected", "missing", "unexpected"),
    [
        (("gpu001", "gpu002"), ("gpu001", "gpu003"), ("gpu003",), ("gpu002",)),
        (("gpu001.c.example",), ("gpu001",), (), ()),
        (("gpu001",), ("gpu001.c.example", "gpu002.c.example"), ("gpu002.c.example",), ()),
        (("gpu001.c.example",), ("gpu001.d.example",), ("gpu001.d.example",), ("gpu001.c.example",)),
        (("10.1.0.1",), ("10.1.0.1", "10.1.0.2"), ("10.1.0.2",), ()),
    ],
)
def test_who_is_expected_may_have_a_domain_or_not(ask, hosts, expected, missing, unexpected):
    answer = ask(*(report_of(number, host) for number, host in enumerate(hosts)), expected=expected)
    assert (answer.missing, answer.unexpected) == (missing, unexpected)
