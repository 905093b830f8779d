"""Small fleets of one of our own nodes: a healthy report copied, and an edit of some copies. Through the same records
that `topocheck fleet` keeps."""

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import nodes

from topocheck.check import check
from topocheck.fleet.records import Records
from topocheck.formats import json as node_json


@cache
def _text(node, fault=None):
    with TemporaryDirectory() as folder:
        place = nodes.apply(node, nodes.edit(node, fault), Path(folder)) if fault else nodes.healthy(node)
        return node_json.render(check(str(place)).report)


def report(node="hgx-h100", fault=None):
    """The report of one of our nodes, healthy or with one of its faults."""
    return json.loads(_text(node, fault))


def report_of(capture):
    """The report of any capture."""
    return json.loads(node_json.render(check(str(capture)).report))


def fleet(*reports, records=None):
    """The records of reports, each a document or (number, document): hosts gpu001, gpu002, … in that order."""
    made = []
    records = records or Records()
    for entry in reports:
        count, document = entry if isinstance(entry, tuple) else (1, entry)
        for _ in range(count):
            document["host"] = f"gpu{len(made) + 1:03}"
            made.append(records.record(document, f"{document['host']}.json", ""))
    return made


def edited(edit, document=None):
    """A report with an edit: a function that changes the document."""
    document = deepcopy(document or report())
    edit(document)
    return document


def device(document, name):
    """The device of this id in a document."""
    return next(d for d in document["devices"] if d["id"] == name)


def link(document, bdf):
    """The PCIe link whose lower end this is."""
    return next(entry for entry in document["links"] if entry["b"] == bdf)


def drop(name):
    """A device and its links and pairs are not there."""

    def edit(document):
        gone = device(document, name)
        document["devices"].remove(gone)
        document["links"] = [x for x in document["links"] if gone["bdf"] not in (x["a"], x["b"])]
        document["links"] = [x for x in document["links"] if name not in (x["a"], x["b"])]
        document["pairs"] = [p for p in document["pairs"] if name not in (p["a"], p["b"])]
        for other in document["devices"]:
            if other["kind"] == "gpu":
                other["nearest_nics"] = [n for n in other["nearest_nics"] if n != name]

    return edit


def on(name, **fields):
    return lambda document: device(document, name).update(fields)


def port(name, **fields):
    return lambda document: device(document, name)["ports"][0].update(fields)


def lanes(bdf, **fields):
    return lambda document: link(document, bdf).update(fields)


def version(**fields):
    return lambda document: document["versions"].update(fields)


def renamed(a, b, kind):
    """Two devices have each other's name; their places are as before."""

    def edit(document):
        first, second = device(document, a), device(document, b)
        first["id"], second["id"] = b, a
        if kind == "nic":  # the GPUs beside them have the same cards as before, by other names
            other = {a: b, b: a}
            for gpu in (d for d in document["devices"] if d["kind"] == "gpu"):
                gpu["nearest_nics"] = [other.get(n, n) for n in gpu["nearest_nics"]]
            for pair in document["pairs"]:
                pair["b"] = other.get(pair["b"], pair["b"])

    return edit


def nodes_of_subnuma(document):
    """Two NUMA nodes a socket (SNC2): four nodes, GPUs 2 on each."""
    document["numa_nodes"] = [
        {"id": i, "cpus": f"{28 * i}-{28 * i + 27}", "socket": i // 2, "memory_gib": 503.0} for i in range(4)
    ]
    for place, gpu in enumerate(d for d in document["devices"] if d["kind"] == "gpu"):
        gpu["numa_node"] = place // 2


def swapped_map(document):
    """gpu2 and gpu3 have each other's NIC beside them."""
    a, b = device(document, "gpu2"), device(document, "gpu3")
    a["nearest_nics"], b["nearest_nics"] = b["nearest_nics"], a["nearest_nics"]
