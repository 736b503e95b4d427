# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Chromium without a window, for tests of pages: opens them, clicks, presses keys, reads, and lists
what they request.

It is steered by Chrome's own protocol over a pipe, so that no package and no port is needed. A page
is looked at as people see
it: by the text of its elements, and by real key presses, clicks and touches.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.helpers import TIME_SCALE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WAIT_S = 60.0 * TIME_SCALE
FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check",
    "--disable-gpu", "--hide-scrollbars", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--mute-audio",
    "--disable-dev-shm-usage", "--password-store=basic", "--no-sandbox", "--disable-breakpad",
)  # fmt: skip
# The browser reads commands from descriptor 3 and writes to 4.
_AS_3_AND_4 = (
    "import os, sys; [os.dup2(int(sys.argv[i]), i + 2) for i in (1, 2)]; os.execv(sys.argv[3], "
    "sys.argv[3:])"
)
# Names of keys that are no letters, with the code that pages of old look at.
KEYS = {
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27,
    "Home": 36, "End": 35, " ": 32, "Tab": 9,
}  # fmt: skip


def find() -> str | None:
    """Return the path of a Chromium of this machine, None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


SESSIONS: set[int] = set()  # of the processes of the browsers that are open


class Browser:
    """A Chromium of its own, with an empty profile. Close it."""

    def __init__(self, path: str, profile: Path) -> None:
        """Args: path: of the program; profile: an empty folder."""
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        theirs = [
            fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_read, to_write)
        ]  # None of them is 3 or 4.
        command = [
            sys.executable,
            "-c",
            _AS_3_AND_4,
            *map(str, theirs),
            path,
            *FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        environment = {**os.environ, "HOME": str(profile)}
        # That of scripts/sanitize.py, with which the browser says nothing.
        environment.pop("LD_PRELOAD", None)
        self._process = subprocess.Popen(
            command, pass_fds=theirs, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        SESSIONS.add(self._process.pid)
        for fd in (to_read, to_write, *theirs):
            os.close(fd)
        self._number, self._buffer = 0, b""
        self._pages: dict[str, Page] = {}
        self.call("Browser.getVersion")

    def open(
        self,
        url: str,
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        touch: bool = False,
    ) -> Page:
        """Open a page in a window of its own (cookies too) and wait until it is loaded. Args: sizes
        in CSS pixels.
        """
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)[
            "targetId"
        ]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.look(width, height, dark, touch)
        page.go(url)
        return page

    def call(self, method: str, session: str | None = None, **params: Any) -> Any:
        """Call a method of the protocol and return its result. Raises: RuntimeError with what the
        browser says.
        """
        self._number += 1
        number, message = self._number, {"id": self._number, "method": method, "params": params}
        os.write(
            self._out,
            json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0",
        )
        until = time.monotonic() + WAIT_S
        while True:
            found = self._receive(until - time.monotonic())
            if found is None:
                raise RuntimeError(f"{method}: no answer within {WAIT_S:g} s")
            if found.get("id") == number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return found["result"]

    def listen(self, seconds: float) -> None:
        """Take in what happens, for at most so long, until something did."""
        self._receive(seconds)

    def _receive(self, seconds: float) -> dict[str, Any] | None:
        """Return the next message; events go to their page."""
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0.0, seconds))[0]:
                return None
            data = os.read(self._in, 1 << 20)
            if not data:
                raise RuntimeError("the browser is gone")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        page = self._pages.get(message.get("sessionId", ""))
        if page is not None and "method" in message:
            page.happened(message["method"], message["params"])
        return message

    def close(self) -> None:
        """End the browser and what it started."""
        with contextlib.suppress(RuntimeError, OSError):
            self.call("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        SESSIONS.discard(self._process.pid)
        os.close(self._in)
        os.close(self._out)


class Page:
    """A page in a window of its own.

    Attributes:
        requests: URLs of all that was requested, in order; that of the page is the first. sockets:
        of websockets.
        errors: what the page has said of errors: exceptions, what its policy has forbidden, failed
            requests.
    """

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        """Made by `Browser.open`."""
        self._browser, self._session, self._target = browser, session, target
        self.requests: list[str] = []
        self.sockets: list[str] = []
        self.errors: list[str] = []
        self._loaded = False

    def call(self, method: str, **params: Any) -> Any:
        """Call a method of the protocol for this page."""
        return self._browser.call(method, self._session, **params)

    def happened(self, method: str, params: dict[str, Any]) -> None:
        """Take in an event."""
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.sockets.append(params["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            found = params["exceptionDetails"]
            self.errors.append(str(found.get("exception", {}).get("description") or found["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.errors.append(
                " ".join(str(arg.get("value", arg.get("description"))) for arg in params["args"])
            )

    def go(self, url: str) -> None:
        """Load another page and wait for it."""
        self._loaded = False
        self.call("Page.navigate", url=url)
        until = time.monotonic() + WAIT_S
        while not self._loaded:
            assert time.monotonic() < until, (
                f"{url} is not loaded after {WAIT_S:g} s: {self.errors}"
            )
            self._browser.listen(0.2)

    def look(self, width: int, height: int, dark: bool = False, touch: bool = False) -> None:
        """Set the size of the window in CSS pixels, what the user prefers, and whether there are
        fingers.
        """
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=touch,
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def eval(self, script: str) -> Any:
        """Return the value of an expression, or of its promise, as JSON has it. Raises:
        RuntimeError: it threw.
        """
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(
                f"{script}: {found['exceptionDetails'].get('exception', {}).get('description')}"
            )
        return found["result"].get("value")

    def wait(self, script: str) -> Any:
        """Return the value of an expression as soon as it is true in JavaScript's sense."""
        until = time.monotonic() + WAIT_S
        while not (found := self.eval(script)):
            assert time.monotonic() < until, (
                f"{script} is {found!r} after {WAIT_S:g} s: {self.errors}"
            )
            self._browser.listen(0.05)
        return found

    def text(self, selector: str) -> str:
        """Return the text of the first element of a CSS selector, as it is seen."""
        self.wait(f"document.querySelector({json.dumps(selector)}) !== null")
        return self.texts(selector)[0]

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements of a CSS selector."""
        found = self.eval(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)"
        )
        return [str(text).strip() for text in found]

    def place(self, selector: str) -> tuple[float, float, float, float]:
        """Return left, top, width and height of an element, which is brought into view, in CSS
        pixels.
        """
        script = f"""(() => {{
            const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "nearest", inline: "nearest", behavior: "instant"}});
            const r = e.getBoundingClientRect();
            return [r.left, r.top, r.width, r.height];
        }})()"""
        left, top, width, height = self.eval(script)
        return left, top, width, height

    def click(self, selector: str, across: float = 0.5, down: float = 0.5) -> None:
        """Click an element. Args: where, as shares of its size."""
        left, top, width, height = self.place(selector)
        self.click_at(left + across * width, top + down * height)

    def click_at(self, x: float, y: float) -> None:
        """Click a place of the window, in CSS pixels."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, start: tuple[float, float], end: tuple[float, float], moves: int = 8) -> None:
        """Press the left button at one place of the window, move to another and let go."""
        self.call(
            "Input.dispatchMouseEvent",
            type="mousePressed",
            x=start[0],
            y=start[1],
            button="left",
            clickCount=1,
        )
        for number in range(1, moves + 1):
            x, y = (a + (b - a) * number / moves for a, b in zip(start, end, strict=True))
            self.call(
                "Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1
            )
        self.call(
            "Input.dispatchMouseEvent",
            type="mouseReleased",
            x=end[0],
            y=end[1],
            button="left",
            clickCount=1,
        )

    def tap(self, selector: str, across: float = 0.5, down: float = 0.5) -> None:
        """Touch an element with a finger."""
        left, top, width, height = self.place(selector)
        point = {"x": left + across * width, "y": top + down * height}
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str) -> None:
        """Press a key and let it go: a character, or a name of KEYS."""
        self.key_down(key)
        self.key_up(key)

    def key_down(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **_key_code(key), **text)

    def key_up(self, key: str) -> None:
        """Let a key go."""
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **_key_code(key))

    def picture(self, path: Path | None = None) -> bytes:
        """Return a PNG of the window, and write it where a path is given."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            path.write_bytes(data)
        return data

    def close(self) -> None:
        """Close the window."""
        self._browser.call("Target.closeTarget", targetId=self._target)


def _key_code(key: str) -> dict[str, Any]:
    number = KEYS.get(key, ord(key.upper()[0]))
    code = {" ": "Space"}.get(
        key, key if len(key) > 1 else f"Digit{key}" if key.isdigit() else f"Key{key.upper()}"
    )
    return {"code": code, "windowsVirtualKeyCode": number}
