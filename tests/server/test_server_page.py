"""The page at the level of HTML: words, marks, links, escaping; no outside address anywhere."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from service_helpers import Running

from server import listing, picture, trees

STATIC = Path(trees.__file__).parent / "static"
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Balanced(HTMLParser):
    """Fails on an element that is closed wrongly; keeps ids and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("href", "src", "action"):
                self.links.append(str(value))
            assert name not in ("style", "onclick"), "the content policy forbids it"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        return

    def handle_endtag(self, tag: str) -> None:
        if tag in ("p", "li") and self.open[-1] != tag:
            return
        assert self.open.pop() == tag, f"</{tag}> out of place"


def parsed(html: str) -> Balanced:
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids), "an id twice"
    assert not [x for x in parser.links if re.match(r"[a-z]+:|//", x)], "an outside address"
    return parser


def compare(running: Running, a: str, b: str, **more: str) -> Any:
    data = {"text_a": a, "text_b": b, **more}
    return running.client.post(
        "/page/compare", files={k: (None, v) for k, v in data.items()}, follow_redirects=True)


def test_form(shared: Running) -> None:
    page = parsed(shared.client.get("/").text)
    assert {"text_a", "text_b", "files", "folder", "main"} <= set(page.ids)


def test_static_files_load_nothing_from_outside(shared: Running) -> None:
    for path in STATIC.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//cdn|@import", text), path
        assert shared.client.get(f"/static/{path.name}").status_code == 200


def test_equal_and_unproved(shared: Running) -> None:
    answer = compare(shared, "x = a b\r\n", "// other\r\nx = a b\r\n")
    assert "return the same bits for every" in answer.text
    assert "first difference" not in answer.text
    assert answer.url.path.startswith("/r/")
    page = parsed(answer.text)
    assert "a-L1" in page.ids
    answer = compare(shared, "x = a b\n", "x = a c\n")
    page = parsed(answer.text)
    assert "Neither proved nor refuted" in answer.text
    assert answer.text.count("first difference</strong>") == 2
    assert {"diff-a", "diff-b", "b-L1"} <= set(page.ids)
    assert "#diff-a" in page.links
    assert "do not overlap" in answer.text, "premises are explained"
    again = shared.client.get(answer.url.path)
    assert again.text == answer.text, "the link shows the same result"


def test_errors_keep_what_was_typed(shared: Running) -> None:
    answer = compare(shared, "x = 1\n!error 3 9\n", "x = <script>\n")
    assert answer.status_code == 422
    parsed(answer.text)
    assert "&lt;text&gt;:2:3: no such thing" in answer.text
    assert "x = &lt;script&gt;" in answer.text
    assert "<script>\n" not in answer.text
    for b, more, told in [
        ("x = 1\n", {"launch_a": "{"}, "launch facts are not JSON"), ("", {}, "missing"),
        ("x = 1\n", {"launch_a": "3"}, "launch"),
    ]:
        answer = compare(shared, "x = 1\n", b, **more)
        assert answer.status_code == 422, told
        assert told in answer.text


def test_markup_in_texts_is_shown_not_run(shared: Running) -> None:
    evil = "x = <img/src=x> \"'><b>\n!opaque <i>\n"
    answer = compare(shared, evil, evil + "y = 1\n")
    parsed(answer.text)
    assert "<img/src" not in answer.text
    assert "<i>" not in answer.text


def test_sweep(shared: Running) -> None:
    files = []
    for n in range(8):
        files.append(("files", (f"s/k{n}.ptx", f"// {n}\nx = page {n % 2}\n".encode())))
        config = f'{{"config": {{"num_warps": {n % 2 + 1}, "BLOCK": {n}}}}}'
        files.append(("files", (f"s/k{n}.json", config.encode())))
    files.append(("files", ("s/bad.ptx", b"!error 1 1\n")))
    files.append(("files", ("s/wild.ptx", b"x = wild\n!opaque <thing>\n")))
    answer = shared.client.post("/page/partition", files=files)
    assert answer.status_code == 303
    place = answer.headers["location"]
    job = place.rpartition("/")[2]
    with shared.client.stream("GET", f"/v1/jobs/{job}/events") as stream:
        stream.read()
    html = shared.client.get(place).text
    page = parsed(html)
    assert {"filter", "basis-filter", "classes-table"} <= set(page.ids)
    assert "num_warps" in html
    assert html.count("<circle") >= 10
    assert "wild" in html
    assert "&lt;thing&gt;" in html
    assert "no such thing" in html
    signature = next(x for x in page.links if x.startswith("/s/"))
    known = shared.client.get(signature)
    assert known.status_code == 200
    parsed(known.text)


def test_progress_page_and_missing_pages(shared: Running) -> None:
    slow = {"kernels": [{"name": "s", "text": "!sleep 1.5\nx = progress page\n"}]}
    job = shared.client.post("/v1/partition", json=slow).json()["id"]
    page = shared.client.get(f"/j/{job}")
    parsed(page.text)
    assert 'id="bar"' in page.text
    shared.client.delete(f"/v1/jobs/{job}")
    assert "cancelled" in shared.client.get(f"/j/{job}").text
    for path in (f"/r/{'0' * 64}", f"/j/{'0' * 24}", "/s/sb1-none"):
        answer = shared.client.get(path)
        assert answer.status_code == 404
        parsed(answer.text)


def test_api_page(shared: Running) -> None:
    html = shared.client.get("/docs").text
    page = parsed(html)
    for path in shared.client.get("/openapi.json").json()["paths"]:
        assert path in html.replace("&#39;", "'")
    broken = [x for x in page.links if x.startswith("#") and x[1:] not in page.ids]
    assert broken == []


def test_login_sets_a_cookie_that_opens_the_api(start: Callable[..., Running]) -> None:
    running = start(tokens={hashlib.sha256(b"hush").hexdigest(): frozenset({"read", "write"})})
    answer = running.client.get(f"/r/{'0' * 64}", headers={"Accept": "text/html"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login"
    answer = running.client.post("/login", files={"token": (None, "hush")})
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert running.client.get(f"/r/{'0' * 64}").status_code == 404


def node(label: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"label": label, "line": None, "loc": None, "children": list(children)}


@pytest.mark.parametrize(("a", "b", "expected"), [
    ([node("+", node("1"), node("2"))], [node("+", node("1"), node("2"))], (None, None)),
    ([node("+", node("1"), node("2"))], [node("+", node("1"), node("3"))], ((0, 1), (0, 1))),
    ([node("+", node("1", node("x")), node("2"))], [node("+", node("1", node("y")), node("3"))],
     ((0, 0, 0), (0, 0, 0))),
    ([node("+", node("1"))], [node("+", node("1"), node("2"))], ((0,), (0, 1))),
    ([], [node("+")], (None, (0,))),
])
def test_first_difference(a: Any, b: Any, expected: Any) -> None:
    assert trees.first_difference(a, b) == expected


def test_names_of_kernels_are_no_difference() -> None:
    a, b = [node("load [one_param_0]")], [node("load [two_param_0]")]
    assert trees.first_difference(a, b) == ((0,), (0,))
    assert trees.first_difference(a, b, ("one", "two")) == (None, None)


def test_deep_and_wide_trees_stay_bounded() -> None:
    deep = node("leaf")
    for _ in range(50_000):
        deep = node("op", deep)
    html = str(trees.render([deep], "a"))
    assert "deeper levels" in html
    parsed(html)
    wide = str(trees.render([node("op", *[node(str(n)) for n in range(50_000)])], "a"))
    assert "further nodes" in wide
    assert len(wide) < 400_000
    parsed(wide)


def test_long_listings_show_windows() -> None:
    text = "\n".join(f"line {n}" for n in range(1, 100_001))
    runs = listing.listing(text, [5_000, 5_010, 90_000])
    assert [run[0][0] for run in runs] == [1, 4_985, 89_985]
    assert runs[1][-1] == (5_025, "line 5025")


def test_picture_counts() -> None:
    classes = [{"members": ["a", "b"]}, {"members": ["c"]}]
    configs = {"a": {"w": 1, "s": 3}, "b": {"w": 1, "s": 4}, "c": {"w": 2, "s": 4}}
    html = str(picture.picture(classes, configs, ["w"]))
    assert "w = 1: 2 in class 1" in html
    assert html.index("w = 1") < html.index("s = 3")
    assert str(picture.picture([], {}, [])) == ""
