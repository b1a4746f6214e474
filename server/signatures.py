"""What the store knows of a signature, static (`sb1-...`) or at given launches (`sb1l-...`).

In: a signature. Out: the kernels seen with it, their premises, and the trees of the first.
"""

from __future__ import annotations

from typing import Any

from server.service import Service

__all__ = ["known_signature"]


async def known_signature(service: Service, signature: str) -> dict[str, Any] | None:
    """The document that `server.models.SignatureInfo` describes, or None if it was never seen."""
    answers = await service.on_thread(service.store.answers_with_signature, signature)
    if not answers:
        return None
    first, at_launch = answers[0], answers[0].launch_signature == signature
    records = [_record(answer.kind, answer.outcome.value, at_launch) for answer in answers]
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    for answer, record in zip(answers, records, strict=True):
        seen.setdefault((answer.text_digest, record["kernel"]), {
            "digest": answer.text_digest,
            **{key: record[key] for key in ("kernel", "isa", "target")}})
    trees = await service.outline(
        first.text_digest, first.options.get("isa"), first.options.get("kernel"))
    return {
        "signature": signature, "basis": "launch" if at_launch else "static",
        "modelled": all(record["modelled"] for record in records),
        "launches": first.options["launches"] if at_launch else [],
        "premises": sorted({code for record in records for code in record["premises"]}),
        "kernels": list(seen.values()), "summary": records[0]["summary"],
        "outline": None if trees is None else trees.outcome.value,
    }


def _record(kind: str, value: dict[str, Any], at_launch: bool) -> dict[str, Any]:
    """The static signature's record; at launches the premises are those of the replays, too."""
    if kind != "examine":
        return value
    signed: dict[str, Any] = value["signature"]
    return {**signed, "premises": value["premises"]} if at_launch else signed
