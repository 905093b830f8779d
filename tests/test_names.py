"""Sets of names: folded ranges as ClusterShell writes them, and globs."""

import pytest

from topocheck.names import NameSet


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("gpu[001-016,020]", "gpu001 gpu016 gpu020 GPU002", "gpu017 gpu1 gpu0001 gpu001.x xgpu001"),
        ("gpu[8-12]", "gpu8 gpu12", "gpu08 gpu13"),
        ("gpu[08-100]", "gpu08 gpu99 gpu100", "gpu8 gpu0100"),
        ("r[1-2]n[0-4/2]", "r1n0 r2n4", "r1n1 r3n0"),
        ("a, b*, c?", "a b bb cx", "c x"),
        ("node[ab][!0-9]", "nodeax", "nodea1 nodec"),
        ("0000:5e:00.0", "0000:5E:00.0", "0000x5e:00.0"),
    ],
)
def test_folded_sets_and_globs(pattern, inside, outside):
    names = NameSet.parsed(pattern)
    assert [name for name in inside.split() if name not in names] == []
    assert [name for name in outside.split() if name in names] == []


@pytest.mark.parametrize("pattern", ["", " , ", "gpu[1-", "gpu1]", "gpu[5-1]", "gpu[z-a]", "gpu[1-9/0]", "[[a]]"])
def test_a_pattern_that_is_none(pattern):
    with pytest.raises(ValueError, match=r"."):
        NameSet.parsed(pattern)
