"""A prediction for other programs: JSON (topocheck.predict/1, schema: `predict-1.schema.json` beside this) and CSV, one
line a row."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from topocheck import __version__
from topocheck.predict.alpha_beta import parts_of
from topocheck.predict.prediction import Prediction, Row
from topocheck.predict.step import Step
from topocheck.predict.textbook import Textbook

SCHEMA = "topocheck.predict/1"


def as_json(p: Prediction) -> str:
    """One line; every key is always there, null means not known."""
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "nodes": p.nodes,
        "gpus_per_node": p.gpus_per_node,
        "model": p.model,
        "ladder": [_rounded(rung._asdict()) for rung in p.ladder],
        "healthy_ladder": [_rounded(rung._asdict()) for rung in p.healthy_ladder],
        "network_alpha_us": _rounded(parts_of(p.found.alpha_network_us)._asdict()) if p.found.nics else None,
        "rows": [_rounded(row._asdict()) for row in p.rows],
        "winners": {
            op: [
                {"from_bytes": round(s.from_bytes), "algorithm": s.way.algorithm, "protocol": s.way.protocol}
                for s in spans
            ]
            for op, spans in p.winners.items()
        },
        "textbook": _textbook(p.textbook),
        "fabric": _rounded(p.fabric._asdict()) if p.fabric else None,
        "step": {
            "found": _step(p.step),
            "healthy": _step(p.healthy_step),
            "costs": [_rounded(c._asdict()) for c in p.costs],
        }
        if p.step and p.healthy_step
        else None,
        "decode": {**_rounded(p.decode._asdict()), "total_us": round(p.decode.total_us, 1)} if p.decode else None,
        "assumptions": list(p.assumptions),
        "refused": list(p.refused),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def as_csv(p: Prediction) -> str:
    """The table; sizes in bytes, times in µs, bandwidths in GB/s."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(_rounded(row._asdict()).values() for row in p.rows)
    return out.getvalue()


def _textbook(book: Textbook | None) -> dict[str, Any] | None:
    if book is None:
        return None
    return {**_rounded(book._asdict()), "rows": [_rounded(row._asdict()) for row in book.rows]}


def _step(step: Step | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return {
        "total_us": round(step.total_us, 1),
        "compute_us": round(step.compute_us, 1),
        "bubble_us": round(step.bubble_us, 1),
        "exposed_us": round(step.exposed_us, 1),
        "overlap_us": round(step.overlap_us, 1),
        "cover_us": round(step.cover_us, 1),
        "best_bucket_mb": step.best_bucket_mb,
        "bound_buckets": step.bound_buckets and round(step.bound_buckets, 1),
        "hide_gb_per_s": step.hide_gb_per_s and round(step.hide_gb_per_s, 1),
        "traffic": [_rounded(t._asdict()) for t in step.traffic],
    }


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Figures as exact as they are meant: six digits."""
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in values.items()}
