"""Compare a score with the last one that was committed (.ci/score.json): exit code 1 if anything fell.

With --raise the committed figures become those of this score.
"""

import json
import sys
from pathlib import Path

FLOOR = Path(__file__).with_name("score.json")


def figures(score: dict) -> dict:
    """The figures that may not fall."""
    by_check = {name: check["passed"] for name, check in score["by_check"].items()}
    return {"cases_right": score["cases_right"], "must": by_check.get("must", 0), "by_check": by_check}


def fallen(now: dict, floor: dict) -> list[str]:
    """One line for each figure below the committed one."""
    pairs = [("cases_right", now, floor), ("must", now, floor)]
    pairs += [(name, now["by_check"], floor["by_check"]) for name in floor["by_check"]]
    return [f"{name}: {new.get(name, 0)}, was {old[name]}" for name, new, old in pairs if new.get(name, 0) < old[name]]


def main() -> int:
    """The command line: the score's JSON file, and perhaps --raise."""
    now = figures(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    if "--raise" in sys.argv[2:]:
        FLOOR.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    floor = (
        json.loads(FLOOR.read_text(encoding="utf-8"))
        if FLOOR.exists()
        else {"cases_right": 0, "must": 0, "by_check": {}}
    )
    lines = fallen(now, floor)
    print("\n".join(["the score fell:", *lines]) if lines else f"the score holds: {now['cases_right']} cases right")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
