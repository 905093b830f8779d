"""A training job as `--job FILE.toml` states it. Every mistake is one line with file, line and key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from topocheck.errors import UsageError
from topocheck.toml_file import TomlFile

BYTES_OF_DTYPE = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1}
_KEYS = {
    "model": {"parameters": 1e15, "layers": 1e5, "hidden": 1e7, "sequence": 1e9},
    "batch": {"sequences_per_gpu": 1e6, "accumulation": 1e6, "dtype": 0},
    "parallel": {"dp": 1e7, "tp": 1e5, "pp": 1e5, "cp": 1e5, "ep": 1e5, "zero": 3},
    "assume": {"mfu": 1, "bucket_mb": 1e6, "imbalance": 1e5},
}
_NEEDED = (("model", "parameters"), ("model", "layers"), ("model", "hidden"), ("model", "sequence"))


@dataclass(frozen=True)
class Job:
    """The keys by their own names. sequences_per_gpu: of one data-parallel rank in a micro-step, which all its tensor,
    pipeline and context ranks work on together; dp None: what the other degrees leave of the GPUs."""

    parameters: float
    layers: int
    hidden: int
    sequence: int
    sequences_per_gpu: float = 1
    accumulation: int = 1
    dtype: str = "bf16"
    dp: int | None = None
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    zero: int = 0
    mfu: float = 0.4
    bucket_mb: float = 25.0  # PyTorch DDP's default
    imbalance: float = 1.0  # tokens of the most loaded rank over the mean, in alltoalls of experts

    @property
    def bytes_each(self) -> int:
        """Of one number that is sent."""
        return BYTES_OF_DTYPE[self.dtype]

    @property
    def tokens(self) -> float:
        """Of one data-parallel rank in a micro-step."""
        return self.sequences_per_gpu * self.sequence

    def data_ranks(self, ranks: int) -> int:
        """dp, checked against the GPUs there are."""
        model_ranks = self.tp * self.pp * self.cp
        dp = self.dp or max(1, ranks // model_ranks)
        if dp * model_ranks != ranks:
            product = f"dp {dp} × tp {self.tp} × pp {self.pp} × cp {self.cp} = {dp * model_ranks}"
            raise UsageError(f"--job: {product}, but there are {ranks} GPUs: their product must be that (--nodes)")
        return dp


def load(name: str) -> Job:
    """The job a file states."""
    file = TomlFile(name)
    values: dict[str, Any] = {}
    for table, content in file.table.items():
        if table not in _KEYS or not isinstance(content, dict):
            raise file.wrong(f"no such table: {', '.join(_KEYS)}", table)
        for key, value in content.items():
            values[key] = _checked(file, table, key, value)
    missing = [f"[{table}] {key}" for table, key in _NEEDED if key not in values]
    if missing:
        raise UsageError(f"{name}: {', '.join(missing)} missing")
    return Job(**values)


def _checked(file: TomlFile, table: str, key: str, value: Any) -> Any:  # noqa: ANN401 (whatever TOML holds)
    if key not in _KEYS[table]:
        raise file.wrong(f"no such key: {', '.join(_KEYS[table])}", key, table)
    if key == "dtype":
        if not isinstance(value, str) or value not in BYTES_OF_DTYPE:
            raise file.wrong(f"{value!r}: one of {', '.join(BYTES_OF_DTYPE)}", key, table)
        return value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fraction = key in ("mfu", "bucket_mb", "imbalance", "parameters", "sequences_per_gpu")
    whole = number and (isinstance(value, int) or value.is_integer())
    if not number or not (fraction or whole):
        raise file.wrong(f"{value!r}: give a {'number' if fraction else 'whole number'}", key, table)
    least, most = 0, _KEYS[table][key]
    if not (least < value <= most or (key == "zero" and value == 0)):
        raise file.wrong(f"{value!r}: above {least} and up to {most:g}", key, table)
    if key == "imbalance" and value < 1:
        raise file.wrong(f"{value!r}: the most loaded rank has at least the mean: 1 or more", key, table)
    return float(value) if fraction else int(value)
