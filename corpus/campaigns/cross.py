"""Cross-check: kernels that share a static signature must replay to the same map.

In: committed kernels with launch facts. Out: every pair of one signature and different maps, and
every equal signature whose kernel the replay finds fault with; any makes the exit status 1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from checker import Launch, api
from checker.errors import SamebitsError
from corpus.campaigns.common import Options, each, keep, kernels, say
from corpus.pool import Lost


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel."""

    name: str
    text: str
    isa: str
    launches: tuple[dict[str, Any], ...]


def judge(job: Job) -> tuple[str, bool, dict[str, str]]:
    """Return the signature, whether it is modelled, and launch digest -> map digest."""
    try:
        signature = api.sign(job.text, isa=job.isa)
        maps = {}
        for facts in job.launches:
            launch = Launch.from_json(facts).digest()
            result = api.replay_kernel(job.text, facts, isa=job.isa)
            if result.findings or result.nondeterministic:
                shown = result.findings[0].message if result.findings else "nondeterministic"
                maps[launch] = f"finding: {shown}"
            elif not result.unsupported:
                maps[launch] = result.digest
    except SamebitsError as error:
        return f"error: {error}", False, {}
    return signature.text, signature.modelled, maps


def campaign(options: Options) -> int:
    """Run the campaign over the committed kernels; return the exit status."""
    chosen = kernels(options.isa, only=options.only)[: options.count]
    jobs = [Job(k.name, k.text, k.isa, tuple(dict(x) for x in k.launches)) for k in chosen]
    seen: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    counts: Counter[str] = Counter()
    for job, answer in each("cross", judge, jobs, options):
        if isinstance(answer, Lost):
            counts["lost"] += 1
            say(f"lost: {job.name}: {answer.reason}")
            continue
        text, modelled, maps = answer
        counts["modelled" if modelled else "error" if text.startswith("error") else "opaque"] += 1
        for launch, digest in maps.items():
            if modelled:
                seen[text, launch].setdefault(digest, job.name)
                counts["replays"] += 1
    bad = 0
    for (text, launch), digests in sorted(seen.items()):
        if len(digests) > 1 or any(d.startswith("finding") for d in digests):
            bad += 1
            keep("cross", text, {"signature": text, "launch": launch, "maps": digests})
            print(f"{text}: {digests}")
    print(f"{len(jobs)} kernels; " + ", ".join(f"{n} {c}" for c, n in sorted(counts.items())))
    print(f"signatures with more than one map, or a finding: {bad}")
    return 1 if bad or not counts["replays"] else 0
