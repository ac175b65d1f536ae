"""pass@1 on HumanEval infilling, of the whole completion path: python -m bench.humaneval_infill

Each task is a Python function with a hole of random place and length. The hole is filled twice by greedy
decoding: by the completion policy over the engine in this process, asked as an editor asks for an invoked
completion ("processed": stop rules, trimming and range included), and by the same model on the same prompt
with nothing done to its text ("raw"). Either passes if the whole program then passes the task's tests.

The data is HumanEval-RandomSpanInfillingLight.jsonl.gz of OpenAI's human-eval-infilling (MIT). The prompt
budget is fixed, since the engine's own choice follows the speed of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import fim_order
from bench.programs import runs_to_its_end
from engine.client import EngineClient, models, open_in_process
from engine.prompts.families import FimOrder
from engine.types import EngineStatus, FinishReason, InfillRequest, TextDelta
from lsp_server.inline_completion.policy import CompletionPolicy, Question
from lsp_server.inline_completion.policy.silence import MIN_MEAN_LOGPROB

VARIANTS = ("raw", "processed")
# About the tokens that a replayed text comes in.
PIECE = re.compile(r"\s?\w+|\s+|[^\w\s]")
# Mean log-probabilities a token below which a suggestion could be held back; the policy's own is among them.
THRESHOLDS = (-0.1, -0.2, -0.3, -0.5, -0.8, MIN_MEAN_LOGPROB, -2.0)


@dataclass(frozen=True, slots=True)
class Task:
    """A hole between prefix and suffix; tests is the program that judges what fills it."""

    id: str
    prefix: str
    suffix: str
    solution: str
    tests: str

    def program(self, before: str, middle: str, after: str) -> str:
        return f"{before}{middle}{after}\n{self.tests}"

    @property
    def kind(self) -> str:
        """Where the hole ends and how long it is: the two decide what a policy may do."""
        tail = self.suffix.partition("\n")[0].strip()
        lines = "one line" if "\n" not in self.solution.strip("\n") else "several lines"
        return f"{lines}, {'text right of the cursor' if tail else 'to the end of a line'}"


def read_tasks(path: Path) -> list[Task]:
    """Every task of the file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Task(
            row["task_id"],
            row["prompt"],
            row["suffix"],
            row["canonical_solution"],
            f"{row['test']}\ncheck({row['entry_point']})\n",
        )
        for row in rows
    ]


class FixedBudget:
    """An engine whose prompts may have so many tokens, whatever the machine's speed."""

    def __init__(self, engine: EngineClient, prompt_budget: int) -> None:
        self._engine = engine
        self._budget = prompt_budget

    def infill(self, request: InfillRequest) -> AsyncGenerator[TextDelta, None]:
        return self._engine.infill(replace(request, prompt_budget=self._budget))

    async def warm(self, request: InfillRequest) -> None:
        await self._engine.warm(replace(request, prompt_budget=self._budget))

    async def status(self) -> EngineStatus:
        return await self._engine.status()


class Replayed:
    """An engine that writes again what the model wrote in an earlier run, piece by piece."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._raw = raw

    async def infill(self, _: InfillRequest) -> AsyncGenerator[TextDelta, None]:
        for piece in PIECE.findall(self._raw["text"]):
            yield TextDelta(piece)
        yield TextDelta("", tokens=0, finish=FinishReason(self._raw["finish"]))


async def fill_raw(engine: FixedBudget, task: Task, max_tokens: int) -> dict[str, Any]:
    """The model's text as it is."""
    request = InfillRequest(task.prefix, task.suffix, session=task.id, max_tokens=max_tokens)
    pieces = []
    finish = ""
    async with aclosing(engine.infill(request)) as stream:
        async for delta in stream:
            pieces.append(delta.text)
            finish = str(delta.finish or "")
    text = "".join(pieces)
    program = task.program(task.prefix, text, task.suffix)
    return {"text": text, "finish": finish, "passed": await asyncio.to_thread(runs_to_its_end, program)}


async def fill_processed(engine: EngineClient, task: Task, max_tokens: int) -> dict[str, Any]:
    """What an editor would have after the user asked for a completion and took it."""
    text = task.prefix + task.suffix
    question = Question(
        text=text,
        offset=len(task.prefix),
        language_id="python",
        uri=f"file:///{task.id}.py",
        invoked=True,
        mode="auto",
        count=1,
        max_tokens=max_tokens,
    )
    answer = await CompletionPolicy(engine).answer(question)
    trace = answer.trace
    result: dict[str, Any] = {"reason": answer.reason, "mode": trace.get("mode"), "text": "", "covered": ""}
    for sample in trace.get("samples", [])[:1]:
        result |= {key: sample[key] for key in ("cut", "steps", "raw", "mean_logprob")}
    before, after = task.prefix, task.suffix
    if answer.suggestions:
        chosen = answer.suggestions[0]
        before, after = text[: chosen.start], text[chosen.end :]
        result |= {"text": chosen.insert_text, "covered": text[chosen.start : chosen.end]}
    program = task.program(before, result["text"], after)
    return result | {"passed": await asyncio.to_thread(runs_to_its_end, program)}


async def run(tasks: list[Task], model: Path, log: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Every task's row; rows that the log has are not made again."""
    done = {row["task"]: row for row in read_log(log)}
    missing = [task for task in tasks if task.id not in done]
    if missing:
        inner = open_in_process(model, threads=args.threads or None)
        await inner.wait_loaded()  # type: ignore[attr-defined]
        engine = FixedBudget(inner, args.prompt_budget)
        free = asyncio.Semaphore(args.jobs)

        async def fill(task: Task) -> None:
            async with free:
                raw, processed = await asyncio.gather(
                    fill_raw(engine, task, args.max_tokens), fill_processed(engine, task, args.max_tokens)
                )
            row = {"task": task.id, "kind": task.kind, "raw": raw, "processed": processed}
            done[task.id] = row
            with log.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row) + "\n")
            passed = " ".join(f"{name} {'pass' if row[name]['passed'] else 'fail'}" for name in VARIANTS)
            print(f"{len(done)}/{len(tasks)} {task.id} {passed}", flush=True)

        try:
            await asyncio.gather(*map(fill, missing))
        finally:
            await inner.close()
    return [done[task.id] for task in tasks]


async def replay(tasks: list[Task], log: Path, max_tokens: int) -> list[dict[str, Any]]:
    """The rows of a log, with what today's rules make of the model's text."""
    rows = {row["task"]: row for row in read_log(log)}
    for task in tasks:
        if row := rows.get(task.id):
            sure = {"mean_logprob": row["processed"].get("mean_logprob", 0.0)}
            row["processed"] = await fill_processed(Replayed(row["raw"]), task, max_tokens) | sure
    return [rows[task.id] for task in tasks if task.id in rows]


def read_log(path: Path) -> list[dict[str, Any]]:
    """The rows that earlier runs made; a last line that was cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    if lines[-1]:
        path.write_text("\n".join([*lines[:-1], ""]), encoding="utf-8")
    return [json.loads(line) for line in lines[:-1]]


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of passes in all and for each kind of hole, and how often processing changed the verdict."""

    def passes(some: list[dict[str, Any]]) -> dict[str, Any]:
        counts = {name: sum(row[name]["passed"] for row in some) for name in VARIANTS}
        return {"tasks": len(some)} | counts

    kinds = sorted({row["kind"] for row in rows})
    verdicts = Counter((row["raw"]["passed"], row["processed"]["passed"]) for row in rows)
    return {
        **passes(rows),
        "pass@1": {name: sum(row[name]["passed"] for row in rows) / max(1, len(rows)) for name in VARIANTS},
        "only_raw": verdicts[True, False],
        "only_processed": verdicts[False, True],
        "kinds": {kind: passes([row for row in rows if row["kind"] == kind]) for kind in kinds},
        "confidence": {str(threshold): held_back(rows, threshold) for threshold in THRESHOLDS},
        "lost": [row["task"] for row in rows if row["raw"]["passed"] and not row["processed"]["passed"]],
    }


def held_back(rows: list[dict[str, Any]], threshold: float) -> dict[str, Any]:
    """What a threshold on the model's confidence would hold back: how many, and how many of them pass."""
    below = [row["processed"] for row in rows if row["processed"].get("mean_logprob", 0.0) < threshold]
    return {"held_back": len(below), "of_them_pass": sum(one["passed"] for one in below)}


def show(result: dict[str, Any]) -> None:
    """The tables."""
    print(f"{'holes':<48} {'tasks':>5} {'raw':>13} {'processed':>13}")
    for name, part in [*result["kinds"].items(), ("all", result)]:
        cells = [f"{part[one]:>4} ({part[one] / max(1, part['tasks']):.1%})" for one in VARIANTS]
        print(f"{name:<48} {part['tasks']:>5} {cells[0]:>13} {cells[1]:>13}")
    print(f"passes only raw: {result['only_raw']}, only processed: {result['only_processed']}")
    for threshold, counts in result["confidence"].items():
        held, good = counts["held_back"], counts["of_them_pass"]
        print(f"below {threshold:>5}: {held:>4} held back, {good:>4} of them would pass")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the tasks, as published (.jsonl.gz)")
    parser.add_argument("--model", default=models.DEFAULT_MODEL, help="GGUF file or name of the catalogue")
    parser.add_argument("--order", type=FimOrder, choices=list(FimOrder), help="default: the model family's")
    parser.add_argument("--limit", type=int, help="only the first so many tasks")
    parser.add_argument(
        "--max-tokens", type=int, default=128, help="of one completion (the setting's default)"
    )
    parser.add_argument("--prompt-budget", type=int, default=1024, help="tokens of one prompt")
    # More rows a step read the weights once; the kernels give a row the same bits beside any others.
    parser.add_argument("--jobs", type=int, default=4, help="tasks at a time; does not change the result")
    parser.add_argument("--threads", type=int, default=0, help="0: one for each core")
    parser.add_argument("--log", type=Path, help="file of finished tasks, by which a stopped run goes on")
    parser.add_argument(
        "--replay", type=Path, metavar="LOG", help="judge today's rules on the raw texts of a log; no model"
    )
    parser.add_argument("--json", type=Path, help="file to record the result in")
    args = parser.parse_args()
    if not args.data.is_file():
        raise SystemExit(f"{args.data} is not there; name the file with --data.")
    if args.replay:
        show(summarise(asyncio.run(replay(read_tasks(args.data), args.replay, args.max_tokens))))
        return
    if args.order:
        fim_order.use(args.order)
    model = models.resolve(args.model)
    settings = {
        "model": model.name,
        "order": args.order or "the family's own",
        "max_tokens": args.max_tokens,
        "prompt_budget": args.prompt_budget,
    }
    name = "-".join(str(value).replace(" ", "_") for value in settings.values())
    log = args.log or Path("artefacts") / f"humaneval_infill-{name}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    rows = asyncio.run(run(read_tasks(args.data)[: args.limit], model, log, args))
    result = summarise(rows)
    show(result)
    if args.json:
        from bench import machine

        record = {
            "benchmark": "humaneval_infill",
            "machine": machine.describe(),
            "settings": settings,
            "result": result,
        }
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
