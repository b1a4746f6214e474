"""What the kinds of jobs ask about each kernel, and what they make of the answers.

`Partition`: examine each kernel, classify the lot. `Check`: compare each kernel with the baseline's
text of the same name. In: items. Out: a `Question` for each, and the job's result.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from checker.build import build
from server.engine import Outcome, provisional_class
from server.jobstore import Item, Job
from server.service import BULK, Service, compare_options
from server.store import Answer, answer_key, digest_of

__all__ = ["Plan", "Question", "paired_launches", "plan_of"]

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """An engine call about an item; `texts` names the digests whose texts the payload needs."""

    kind: str
    digest: str
    options: dict[str, Any]
    texts: tuple[str, ...]

    @property
    def key(self) -> str:
        """Key of the memoised answer."""
        return answer_key(self.kind, self.digest, build(), self.options)


class Plan(Protocol):
    """One kind of job."""

    def question(self, item: Item) -> Question | None:
        """What to ask about an item; None when there is nothing to ask."""
        ...

    def payload(self, item: Item, texts: Mapping[str, str]) -> dict[str, Any]:
        """The call's payload."""
        ...

    def class_key(self, answer: Answer) -> str:
        """The provisional class that events report."""
        ...

    async def result(self, service: Service, job: Job, items: Sequence[Item]) -> Outcome:
        """The job's result."""
        ...


class Partition:
    """Bitwise-equality classes of a sweep."""

    def question(self, item: Item) -> Question:
        """See `Plan.question`."""
        options = {key: item.details[key] for key in ("isa", "kernel", "launches")}
        return Question("examine", item.digest, options, (item.digest,))

    def payload(self, item: Item, texts: Mapping[str, str]) -> dict[str, Any]:
        """See `Plan.payload`; name and knobs stay out, so that equal texts share one answer."""
        return {**item.details, "name": item.digest[:12], "text": texts[item.digest], "config": {}}

    def class_key(self, answer: Answer) -> str:
        """See `Plan.class_key`."""
        return provisional_class(answer.outcome.value)

    async def result(self, service: Service, job: Job, items: Sequence[Item]) -> Outcome:
        """See `Plan.result`."""
        errors = _errors(items)
        parts = [[item.name, item.answer, item.details] for item in items]
        text = await service.on_thread(json.dumps, [parts, errors], sort_keys=True)
        key = answer_key("classify", digest_of(text), build(), {})
        known = (await service.known([key])).get(key)
        if known is not None:
            return known.outcome
        answers = await _answers(service, items)
        found = [(item, answers[item.answer].outcome.value)
                 for item in items if item.answer is not None]
        again, whole = await self._second_looks(service, found)
        pairs = [({**item.details, "name": item.name, "text": ""}, value) for item, value in found]
        limit = max(service.settings.time_limit_s, 60 + 0.05 * len(items))
        outcome = await service.run(
            "classify", {"items": pairs, "errors": errors, "again": again}, time_limit_s=limit)
        if outcome.lasting and whole:
            await service.on_thread(service.store.put_answer, Answer(
                key, "classify", digest_of(text), build(), {}, None, outcome, time.time()))
        return outcome

    async def _second_looks(
        self, service: Service, found: Sequence[tuple[Item, Mapping[str, Any]]],
    ) -> tuple[dict[int, Any], bool]:
        """What a second look says of the kernels that are worth one, by index; whether of all.

        One that a limit ends, or whose text is gone, stays in the class that it has without.
        """
        if not any(value["shows"] for _, value in found):
            return {}, True
        chosen = await service.run("looks", {"found": [value for _, value in found]})
        few = asyncio.Semaphore(service.scheduler.capacity * 2)

        async def look(item: Item, sizes: Sequence[str]) -> Outcome | None:
            async with few:
                text = await service.on_thread(service.store.text, item.digest)
                if text is None:
                    return None
                options = {**self.question(item).options, "divisible": sizes}
                payload = {**self.payload(item, {item.digest: text}), "divisible": sizes}
                return (await service.answer(
                    "look", item.digest, options, payload, {}, priority=BULK))[0].outcome

        asked = list(chosen.value or ())
        seen = await asyncio.gather(*(look(found[number][0], sizes) for number, sizes in asked))
        again = {number: outcome.value for (number, _), outcome in zip(asked, seen, strict=True)
                 if outcome is not None and outcome.error is None}
        return again, chosen.lasting and all(o is not None and o.lasting for o in seen)


class Check:
    """Drift against a baseline; an item's details carry `base`, the baseline's entry or None."""

    def question(self, item: Item) -> Question | None:
        """See `Plan.question`."""
        base = item.details["base"]
        if base is None:
            return None
        launches = paired_launches(base["launches"], item.details["launches"])
        options = compare_options(item.digest, base, item.details, launches)
        return Question("compare", base["digest"], options, (base["digest"], item.digest))

    def payload(self, item: Item, texts: Mapping[str, str]) -> dict[str, Any]:
        """See `Plan.payload`."""
        base, question = item.details["base"], self.question(item)
        assert question is not None
        sides = {"a": {**base, "text": texts[base["digest"]]},
                 "b": {**item.details, "text": texts[item.digest]}}
        return {**question.options, **sides}

    def class_key(self, answer: Answer) -> str:
        """See `Plan.class_key`."""
        return str(answer.outcome.value["verdict"])

    async def result(self, service: Service, job: Job, items: Sequence[Item]) -> Outcome:
        """See `Plan.result`."""
        equal, drifted = [], []
        answers = await _answers(service, items)
        for item in items:
            if item.answer is None:
                continue
            verdict = answers[item.answer].outcome.value
            if verdict["equal"]:
                equal.append(item.name)
            else:
                kept = {key: verdict[key] for key in ("verdict", "basis", "premises", "reasons")}
                drifted.append({"name": item.name, **kept, "id": item.answer})
        baseline = await service.on_thread(service.store.baseline, str(job.subject))
        named = {entry["name"] for entry in (baseline or {"entries": []})["entries"]}
        removed = sorted(named - {item.name for item in items})
        errors = _errors(items)
        return Outcome(value={
            "baseline": job.subject, "ok": not (drifted or removed or errors), "equal": equal,
            "drifted": drifted, "removed": removed, "errors": errors,
            "added": [i.name for i in items if i.details.get("base") is None and not i.error]})


def paired_launches(base: Sequence[Facts], now: Sequence[Facts]) -> list[list[Facts | None]]:
    """Launch facts of the baseline's kernel and of the one held against it, pair by pair.

    A kernel runs at its own facts, so that its grid and block may have changed; which of them
    belong together the arguments say, and the order where those agree. Where only one of the two
    has such facts, both use them.
    """
    pairs: list[list[Facts | None]] = []
    for number, facts in enumerate(now or base):
        args = facts.get("args")
        alike = [f for f in base if f.get("args") == args]
        rank = sum(f.get("args") == args for f in now[:number])
        own = facts in alike or rank >= len(alike)
        pairs.append([facts if own else alike[rank], facts])
    return pairs or [[None, None]]


async def _answers(service: Service, items: Sequence[Item]) -> dict[str, Answer]:
    keys = [item.answer for item in items if item.answer is not None]
    return await service.on_thread(service.store.answers, keys)


def _errors(items: Sequence[Item]) -> list[tuple[str, str]]:
    """Names and messages; the engine knew the kernel by its digest."""
    told = []
    for item in items:
        if item.error is not None:
            message = str(item.error["message"])
            known_as = item.digest[:12]
            told.append((item.name, message.replace(known_as, item.name) if known_as else message))
    return told


_PLANS: dict[str, Plan] = {"partition": Partition(), "check": Check()}


def plan_of(kind: str) -> Plan:
    """The plan for a kind of job."""
    return _PLANS[kind]
