"""Inputs that no tool prints: the environment and this process's CPUs, made text."""

from __future__ import annotations

import json
import os


def environ() -> str:
    """`environ.json`: the NCCL_* variables and no other."""
    own = {name: value for name, value in sorted(os.environ.items()) if name.startswith("NCCL_")}
    return json.dumps(own, indent=1) + "\n"


def cpus() -> str:
    """`psutil.json`: CPUs of the machine and of this process, memory in bytes."""
    import psutil

    made = {
        "cpu_count": psutil.cpu_count(),
        "cores": psutil.cpu_count(logical=False),
        "affinity": psutil.Process().cpu_affinity(),
        "memory_bytes": psutil.virtual_memory().total,
    }
    return json.dumps(made) + "\n"
