"""What SARIF 2.1.0 and JUnit XML allow, for the parts that samebits writes.

SARIF: the properties, types and enumerations of the OASIS schema for the objects used, with
nothing else allowed in them. JUnit: elements, attributes and order of the common XSD that Jenkins
and GitLab read.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any


def _object(required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object", "additionalProperties": False, "required": required,
        "properties": properties,
    }


_TEXT = {"type": "string"}
_MESSAGE = _object(["text"], {"text": _TEXT, "markdown": _TEXT})
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_ARTIFACT = _object(["uri"], {
    "uri": {"type": "string", "format": "uri-reference"}, "uriBaseId": _TEXT,
})
_REGION = _object(["startLine"], {
    "startLine": {"type": "integer", "minimum": 1},
    "startColumn": {"type": "integer", "minimum": 1},
})
_LOCATION = _object([], {
    "physicalLocation": _object(
        ["artifactLocation"], {"artifactLocation": _ARTIFACT, "region": _REGION}
    ),
})
_RULE = _object(["id"], {
    "id": _TEXT, "name": _TEXT, "shortDescription": _MESSAGE, "fullDescription": _MESSAGE,
    "helpUri": {"type": "string", "format": "uri"},
    "defaultConfiguration": _object([], {"level": _LEVEL}),
})
_SUPPRESSION = _object(["kind"], {
    "kind": {"enum": ["inSource", "external"]},
    "status": {"enum": ["accepted", "underReview", "rejected"]}, "justification": _TEXT,
})
_RESULT = _object(["message"], {
    "ruleId": _TEXT, "ruleIndex": {"type": "integer", "minimum": -1}, "level": _LEVEL,
    "kind": {"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
    "message": _MESSAGE, "locations": {"type": "array", "items": _LOCATION},
    "partialFingerprints": {"type": "object", "additionalProperties": _TEXT},
    "suppressions": {"type": "array", "uniqueItems": True, "items": _SUPPRESSION},
})
_RUN = _object(["tool"], {
    "tool": _object(["driver"], {
        "driver": _object(["name"], {
            "name": _TEXT, "version": _TEXT, "semanticVersion": _TEXT,
            "informationUri": {"type": "string", "format": "uri"},
            "rules": {"type": "array", "uniqueItems": True, "items": _RULE},
        }),
    }),
    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    "invocations": {"type": "array", "items": _object(["executionSuccessful"], {
        "executionSuccessful": {"type": "boolean"}, "exitCode": {"type": "integer"},
    })},
    "results": {"type": "array", "items": _RESULT},
})
SARIF: dict[str, Any] = _object(["version", "runs"], {
    "$schema": {"type": "string", "format": "uri"}, "version": {"enum": ["2.1.0"]},
    "runs": {"type": "array", "items": _RUN},
})

_COUNTS = {"tests", "failures", "errors", "skipped", "time"}
_JUNIT: dict[str, tuple[set[str], set[str], set[str]]] = {
    # element: required attributes, allowed attributes, allowed children
    "testsuites": (set(), {"name", *_COUNTS}, {"testsuite"}),
    "testsuite": ({"name", "tests"}, {"name", "timestamp", "hostname", *_COUNTS}, {"testcase"}),
    "testcase": (
        {"name", "classname"}, {"name", "classname", "time", "file", "line"},
        {"failure", "error", "skipped", "system-out", "system-err"},
    ),
    "failure": ({"type"}, {"type", "message"}, set()),
    "error": ({"type"}, {"type", "message"}, set()),
    "skipped": (set(), {"message"}, set()),
}


def check_junit(text: str) -> ET.Element:
    """Assert that a text is JUnit XML whose counts are right; returns its root."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    todo = [root]
    while todo:
        node = todo.pop()
        required, allowed, children = _JUNIT[node.tag]
        assert required <= node.attrib.keys() <= allowed, node.tag
        assert {child.tag for child in node} <= children
        todo.extend(node)
    for suite in [root, *root.findall("testsuite")]:
        cases = suite.findall(".//testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        for tag, attribute in (("failure", "failures"), ("error", "errors"), ("skipped",) * 2):
            assert int(suite.attrib[attribute]) == len(suite.findall(f".//{tag}"))
    return root
