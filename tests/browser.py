"""A real browser for tests: Chromium without a window, driven through a pipe, so without a server or a further package.

Speaks the Chrome DevTools Protocol: JSON messages, each ended by a zero byte, written to the browser's file descriptor
3 and read from its 4.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MISSING = f"no browser is installed, none of {', '.join(NAMES)}; on Debian: apt-get install chromium-headless-shell"

_OPTIONS = (
    "--headless",
    "--no-sandbox",  # the tests may run as root, who can have none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_PATIENCE = 120.0

# Puts the pipes where the browser looks for them, and becomes the browser; no shell knows descriptors beyond 9.
_LAUNCH = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for place, pipe in zip((3, 4), pipes):
    os.dup2(pipe, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


def executable() -> str | None:
    """Return the path of the first browser that is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page, with all that it asked for and complained about since it was opened."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self._browser, self._session = browser, session
        self.requests: list[str] = []
        self.problems: list[str] = []
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._send(f"{domain}.enable")

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.send(method, parameters, self._session, self._note)

    def _note(self, method: str, event: Mapping[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(event["exceptionDetails"]["text"])
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.problems.append(event["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(f"console.{event['type']}")

    def open(self, url: str, width: int, height: int = 900, dark: bool = False) -> None:
        """Open a page in a window of that size, for a reader who wants it light or dark."""
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._send("Emulation.setDeviceMetricsOverride", **sizes)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])
        failure = self._send("Page.navigate", url=url).get("errorText")
        assert not failure, failure
        while self.evaluate("document.readyState") != "complete":
            time.sleep(0.01)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self._send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        codes = {"ArrowRight": 39, "ArrowLeft": 37, "Tab": 9}
        for kind in ("keyDown", "keyUp"):
            self._send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key])

    def screenshot(self, path: Path) -> None:
        """Write a PNG of the whole page, with what lies below the window."""
        size = self._send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self._send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))


class Browser:
    """A running browser."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._number = 0

    def page(self) -> Page:
        """Return a new page, still empty."""
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})
        return Page(self, attached["sessionId"])

    def send(self, method: str, parameters: Mapping[str, Any], session: str | None = None, note: Any = None) -> Any:
        """Send a command and return its result; what happens in the page meanwhile is noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": session} if session else {}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            if note is not None and answer.get("sessionId") == session and "method" in answer:
                note(answer["method"], answer["params"])

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"the browser said nothing for {_PATIENCE} s"
            received = os.read(self._answers, 1 << 20)
            assert received, "the browser ended"
            self._buffer += received
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


@contextmanager
def running(folder: Path) -> Iterator[Browser]:
    """Run a browser whose profile lies in `folder`, and end it with the block."""
    path = executable()
    assert path is not None, MISSING
    theirs, commands = os.pipe()
    answers, back = os.pipe()
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(theirs), str(back)]
    command = [*launch, path, *_OPTIONS, f"--user-data-dir={folder}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, pass_fds=(theirs, back), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    os.close(theirs)
    os.close(back)
    try:
        browser = Browser(commands, answers)
        yield browser
        browser.send("Browser.close", {})
    finally:
        os.close(commands)
        os.close(answers)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
