"""`predict --format json`: the published schema holds for every prediction, and refuses what is none."""

import json
from importlib.resources import files

import nodes
import pytest

from topocheck.cli import run

SCHEMA = json.loads((files("topocheck.predict") / "predict-1.schema.json").read_text("utf-8"))
TOP_LEVEL = [
    "schema", "version", "nodes", "gpus_per_node", "model", "ladder", "healthy_ladder", "network_alpha_us", "rows",
    "winners", "textbook", "fabric", "step", "decode", "assumptions", "refused",
]  # fmt: skip
JOB = """
[model]
parameters = 7e9
layers = 32
hidden = 4096
sequence = 4096
[parallel]
tp = {}
zero = {}
"""


@pytest.fixture
def document(capsys):
    """What a run prints, as JSON."""

    def answer(source, *words):
        assert run(["predict", "--from", str(source), "--format", "json", *map(str, words)]) == 0
        out = capsys.readouterr().out
        assert out.count("\n") == 1
        return json.loads(out)

    return answer


def errors(value):
    from jsonschema import Draft202012Validator

    return [f"{list(error.path)}: {error.message[:200]}" for error in Draft202012Validator(SCHEMA).iter_errors(value)]


def test_the_schema_is_one_itself():
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", nodes.names())
@pytest.mark.parametrize("words", [(), ("--op", "all"), ("--op", "all", "--nodes", 3), ("--nodes", 2, "--repaired")])
def test_our_nodes_hold_the_schema(document, name, words):
    value = document(nodes.healthy(name), *words)
    assert errors(value) == []
    assert list(value) == TOP_LEVEL


@pytest.mark.parametrize(("tp", "zero"), [(1, 3), (8, 1), (4, 0)])
def test_jobs_hold_the_schema(document, faulty, tmp_path, tp, zero):
    (tmp_path / "job.toml").write_text(JOB.format(tp, zero))
    value = document(faulty("mlx5_3-x8"), "--job", tmp_path / "job.toml", "--nodes", 4, "--op", "allreduce")
    assert value["step"]["found"]["traffic"]
    assert errors(value) == []


def test_what_is_hidden_holds_the_schema(document, tmp_path):
    uuid = "GPU-0000000{}-0000-0000-0000-000000000000"
    (tmp_path / "nvidia-smi_-L").write_text(
        "".join(f"GPU {i}: NVIDIA L40S (UUID: {uuid.format(i)})\n" for i in range(4))
    )
    value = document(tmp_path, "--op", "all", "--nodes", 2)
    assert errors(value) == []
    assert (value["rows"], value["textbook"], value["fabric"], value["network_alpha_us"]) == ([], None, None, None)
    assert len(value["refused"]) == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.pop("textbook"),
        lambda d: d.update(extra=1),
        lambda d: d["rows"][0].update(busbw_gb_per_s=-1),
        lambda d: d["rows"][0].pop("protocol"),
        lambda d: d["rows"][0].update(op="shuffle"),
        lambda d: d["ladder"][0].update(kind="guessed"),
        lambda d: d["fabric"].update(rails=0),
        lambda d: d["winners"]["allreduce"][0].update(from_bytes=-1),
        lambda d: d["textbook"]["rows"][0].update(chunks=0),
        lambda d: d.update(refused=None),
    ],
)
def test_the_schema_refuses_what_is_not_promised(document, spoil):
    value = document(nodes.healthy("hgx-h100"), "--op", "allreduce", "--bytes", "1M", "--nodes", 2)
    spoil(value)
    assert errors(value) != []
