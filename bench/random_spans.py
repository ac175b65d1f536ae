"""Fresh holes for `bench.humaneval_infill`: python -m bench.random_spans --data HumanEval.jsonl.gz --out FILE

The published infilling sets are small, and rules get mended by looking at what fails in them. This cuts one
hole into each solution of OpenAI's HumanEval (MIT): from a place drawn uniformly, in characters, to the end
of a line drawn uniformly from there on, as when somebody deletes the rest and has it completed. Another
seed gives holes that no rule has seen.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from pathlib import Path
from typing import Any


def cut(task: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """One HumanEval row as a row of the infilling sets."""
    solution = task["canonical_solution"]
    body = solution.rstrip()
    begin = draw.randrange(len(body))
    ends = [place for place in range(begin + 1, len(solution)) if solution[place] == "\n"]
    end = draw.choice([place for place in ends if place <= len(body)] or [len(body)])
    return task | {
        "task_id": f"RandomSpan/{task['task_id']}",
        "prompt": task["prompt"] + solution[:begin],
        "suffix": solution[end:],
        "canonical_solution": solution[begin:end],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="HumanEval.jsonl.gz, as published")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="the new .jsonl.gz")
    args = parser.parse_args()
    draw = random.Random(args.seed)
    with gzip.open(args.data, "rt", encoding="utf-8") as lines:
        rows = [cut(json.loads(line), draw) for line in lines]
    with gzip.open(args.out, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)
    print(f"{args.out}: {len(rows)} holes")


if __name__ == "__main__":
    main()
