"""A real Chromium, without a window."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

_T = TypeVar("_T")

#: In CI, where the Makefile brings a browser, a missing one is a failure.
REQUIRED = "ANYSHAPE_REQUIRE_BROWSER"

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1366,850",
)


#: width and height of a phone, a laptop and a wide screen
SIZES = {"phone": (390, 844), "laptop": (1366, 768), "wide": (1920, 1080)}


class Browser:
    """What the tests do with it: go somewhere, press, click, look."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path | str, address: str = "") -> None:
        """A file, or what a server has at an address."""
        # Another hash alone would be the same document.
        self.driver.get("about:blank")
        place = page if isinstance(page, str) else page.as_uri()
        self.driver.get(place + (f"#{address}" if address else ""))

    def go(self, address: str) -> None:
        self.run("location.hash = arguments[0]", f"#{address}")
        self.until(lambda: self.run("return location.hash") == f"#{address}")
        # The event that draws the view comes after the change of the address.
        self.driver.execute_async_script("setTimeout(arguments[0], 0)")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "main") -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def click(self, selector: str) -> None:
        element = self.one(selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    @property
    def address(self) -> str:
        return self.run("return location.hash")

    def until(self, holds: Callable[[], _T], seconds: float = 10.0) -> _T:
        end = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.02)
        return found

    def complaints(self) -> list[str]:
        """What the console has had to say since it was asked last."""
        told: Any = self.driver.get_log("browser")
        return [f"{each['level']}: {each['message']}" for each in told]

    def resize(self, width: int, height: int) -> None:
        """Not the window, which cannot be as narrow as a phone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@contextmanager
def served(folder: Path) -> Generator[str, None, None]:
    """The address of a server of this machine that has the files of a folder."""
    handler = partial(_Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def start_browser(folder: Path) -> Generator[Browser, None, None]:
    programs = [shutil.which("chromium"), shutil.which("chromedriver")]
    if None in programs:
        reason = "needs chromium and chromedriver (Debian: chromium, chromium-driver)"
        if os.environ.get(REQUIRED):
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = str(programs[0])
    for flag in (*_FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(programs[1])))
    driver.set_page_load_timeout(60)
    driver.set_script_timeout(60)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
