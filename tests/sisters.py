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
