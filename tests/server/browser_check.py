"""The page in headless Chromium, as a person uses it. Not part of the normal run:

    pip install "samebits[browser]" && apt-get install chromium chromium-driver
    python -m pytest tests/server/browser_check.py

Screenshots go to the folder that $SAMEBITS_SHOTS names, if it is set.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_helpers import Running

selenium = pytest.importorskip("selenium", reason='pip install "samebits[browser]"')
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

A = "x = a b\ny = c\nz = deep\n"
B = "// moved\nx = a b\ny = c d\nz = deep\n"


@pytest.fixture(params=["light", "dark"])
def browser(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
                 "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-sync", "--window-size=1280,1000",
                 "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
                 f"--user-data-dir={tmp_path}/profile"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
        {"name": "prefers-color-scheme", "value": request.param}]})
    driver.scheme = request.param
    yield driver
    complaints = [e for e in driver.get_log("browser") if e["level"] == "SEVERE"
                  and "422" not in e["message"]]
    driver.quit()
    assert complaints == [], "the browser's console has errors"


def shot(browser: Any, name: str) -> None:
    folder = os.environ.get("SAMEBITS_SHOTS")
    if folder:
        height = browser.execute_script("return document.documentElement.scrollHeight")
        browser.set_window_size(1280, min(3000, height + 100))
        browser.save_screenshot(f"{folder}/{name}-{browser.scheme}.png")
        browser.set_window_size(1280, 1000)


def find(browser: Any, css: str) -> Any:
    return WebDriverWait(browser, 45).until(lambda b: b.find_element(By.CSS_SELECTOR, css))


def paste(browser: Any, css: str, text: str) -> None:
    browser.execute_script("arguments[0].value = arguments[1]", find(browser, css), text)


def drop(browser: Any, css: str, paths: list[str]) -> None:
    """A real drop, as from the desktop."""
    element = find(browser, css)
    at_once = "{block: 'center', behavior: 'instant'}"
    browser.execute_script(f"arguments[0].scrollIntoView({at_once})", element)
    box = browser.execute_script(
        "const r = arguments[0].getBoundingClientRect(); return [r.x + r.width / 2, r.y + 20]",
        element)
    data = {"items": [], "files": paths, "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        browser.execute_cdp_cmd(
            "Input.dispatchDragEvent", {"type": kind, "x": box[0], "y": box[1], "data": data})


def test_compare(browser: Any, shared: Running) -> None:
    browser.get(shared.url)
    shot(browser, "form")
    paste(browser, "#text_a", A)
    paste(browser, "#text_b", B)
    find(browser, "#compare button[type=submit]").click()
    assert find(browser, "#verdict").text == "unproved"
    assert "Not proved" in find(browser, "h1").text
    assert "do not overlap" in find(browser, ".premises").text
    shot(browser, "verdict")
    find(browser, "#to-difference").click()
    marked = find(browser, "#diff-a")
    assert marked.is_displayed()
    assert "first difference" in marked.text
    assert find(browser, "#diff-b").is_displayed()
    line = find(browser, "#diff-b a.place")
    number = line.text.split()[-1]
    line.click()
    assert find(browser, f"#b-L{number}:target").text.startswith("y = c d")
    link = find(browser, "#share").get_attribute("href")
    browser.get(link)
    assert find(browser, "#verdict").text == "unproved"


def test_equal_by_keyboard_alone(browser: Any, shared: Running) -> None:
    browser.get(shared.url)
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert browser.switch_to.active_element.text == "Skip to content"
    paste(browser, "#text_a", A)
    find(browser, "#text_b").send_keys("// typed" + Keys.ENTER + A)
    for _ in range(8):
        active = browser.switch_to.active_element
        if active.get_attribute("type") == "submit":
            break
        ActionChains(browser).send_keys(Keys.TAB).perform()
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    assert find(browser, "#verdict").text == "equal"
    assert find(browser, "#basis").text == "static"
    summary = find(browser, "#tree-a details details summary, #tree-a summary")
    details = summary.find_element(By.XPATH, "..")
    before = details.get_attribute("open")
    summary.send_keys(Keys.ENTER)
    assert details.get_attribute("open") != before
    shot(browser, "equal")


def test_mistake_shows_its_place(browser: Any, shared: Running) -> None:
    browser.get(shared.url)
    paste(browser, "#text_a", "x = 1\n!error 3 9\n")
    paste(browser, "#text_b", A)
    find(browser, "#compare button[type=submit]").click()
    assert ":2:3: no such thing" in find(browser, "[role=alert]").text
    assert "!error" in find(browser, "#text_a").get_attribute("value")
    shot(browser, "mistake")


def test_drop_two_files(browser: Any, shared: Running, tmp_path: Path) -> None:
    (tmp_path / "one.ptx").write_text(A)
    (tmp_path / "two.ptx").write_text("// two\n" + A)
    browser.get(shared.url)
    drop(browser, "[data-drop=a]", [str(tmp_path / "one.ptx"), str(tmp_path / "two.ptx")])
    WebDriverWait(browser, 10).until(
        lambda b: b.find_element(By.ID, "text_b").get_attribute("value").startswith("// two"))
    find(browser, "#compare button[type=submit]").click()
    assert find(browser, "#verdict").text == "equal"


def test_sweep(browser: Any, shared: Running, tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    for n in range(12):
        (folder / f"k{n}.ptx").write_text(f"// {n}\nx = browser {n % 3}\n")
        (folder / f"k{n}.json").write_text(
            f'{{"config": {{"num_warps": {2 ** (n % 3)}, "BLOCK": {32 * (1 + n // 3)}}}}}')
    (folder / "wild.ptx").write_text("x = wild\n!opaque tcgen05.mma\n")
    browser.get(shared.url)
    drop(browser, "#dropzone", [str(folder)])
    find(browser, "#classes-table")
    rows = browser.find_elements(By.CSS_SELECTOR, "#classes-table tbody tr")
    assert len(rows) == 4
    shot(browser, "sweep")
    find(browser, "#filter").send_keys("num_warps=2")
    shown = [r for r in rows if r.is_displayed()]
    assert len(shown) == 1
    assert "1 of 4 classes" in find(browser, "#filter-count").text
    shown[0].find_element(By.TAG_NAME, "summary").click()
    assert "k1" in shown[0].text
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg.picture circle")) >= 12
    assert "wild" in find(browser, "#opaque-title").find_element(By.XPATH, "..").text
    browser.get(find(browser, "#share").get_attribute("href"))
    assert len(browser.find_elements(By.CSS_SELECTOR, "#classes-table tbody tr")) == 4


def test_progress_then_result(browser: Any, shared: Running) -> None:
    slow = {"kernels": [{"name": f"s{n}", "text": f"!sleep 0.3\nx = {n} {browser.scheme}\n"}
                        for n in range(10)]}
    job = shared.client.post("/v1/partition", json=slow).json()["id"]
    browser.get(f"{shared.url}/j/{job}")
    assert find(browser, "#bar").is_displayed()
    shot(browser, "progress")
    find(browser, "#classes-table")


def test_api_page(browser: Any, shared: Running) -> None:
    browser.get(f"{shared.url}/docs")
    assert "/v1/compare" in find(browser, "main").text
    shot(browser, "docs")


def test_a_class_at_launches_leads_to_its_signature(browser: Any, shared: Running) -> None:
    body = {"kernels": [{"name": "a", "text": "x = seen at\n"},
                        {"name": "b", "text": "x = at seen\n"}],
            "launches": [{"grid": [7, 1, 1]}]}
    answer = shared.client.post("/v1/partition", json=body, headers={"Prefer": "wait=20"})
    browser.get(f"{shared.url}/j/{answer.json()['id']}")
    link = find(browser, "#classes-table tbody a")
    assert link.text.startswith("sb1l-")
    link.click()
    assert "sb1l-" in find(browser, "h1").text
    assert "The same output maps at this launch" in find(browser, "main").text
    find(browser, "main details summary").click()
    assert "7" in find(browser, "main details pre").text
    shot(browser, "signature")
