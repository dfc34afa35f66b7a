"""A headless Chromium driven over its debugging pipe: the little that the explorer's tests need."""

import base64
import fcntl
import itertools
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)


def executable():
    """The path of a browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """Commands go in at file descriptor 3 and replies come out at 4, each JSON ended by NUL."""

    def __init__(self, profile):
        here, theirs = os.pipe(), os.pipe()
        # High numbers first: 3 and 4 may be taken by the pipes themselves.
        reading, writing = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (here[0], theirs[1]))
        os.close(here[0])
        os.close(theirs[1])

        def connect():
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [executable(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=connect,
            start_new_session=True,
        )
        os.close(reading)
        os.close(writing)
        self._out = os.fdopen(here[1], "wb", buffering=0)
        self._in = os.fdopen(theirs[0], "rb", buffering=0)
        self._ids = itertools.count(1)
        self._replies = queue.Queue()
        self.events = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        rest = b""
        while chunk := self._in.read(1 << 16):
            *whole, rest = (rest + chunk).split(b"\0")
            for message in map(json.loads, whole):
                if "id" in message:
                    self._replies.put(message)
                else:
                    self.events.append(message)

    def send(self, method, session=None, **parameters):
        number = next(self._ids)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._out.write(json.dumps(message).encode() + b"\0")
        while (reply := self._replies.get(timeout=60))["id"] != number:
            pass
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']}")
        return reply["result"]

    def open(self, path, *, width=1280, height=900, dark=False):
        return Page(self, path, width, height, dark)

    def close(self):
        self.send("Browser.close")
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._reader.join(timeout=10)
        self._out.close()
        self._in.close()


class Page:
    """One open page, ready when its program has said so."""

    def __init__(self, browser, path, width, height, dark):
        self.browser = browser
        self.target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.send("Target.attachToTarget", targetId=self.target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def send(self, method, **parameters):
        return self.browser.send(method, self.session, **parameters)

    def run(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        reply = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in reply:
            raise RuntimeError(reply["exceptionDetails"]["exception"].get("description"))
        return reply["result"].get("value")

    def wait(self, condition):
        """Until `condition` is true in the page; 30 seconds at most."""
        end = time.monotonic() + 30
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(condition)
            time.sleep(0.02)

    def choose(self, element, text):
        """Pick the option of a select that reads `text`, as a person would."""
        self.run(f"""(() => {{
            const select = document.getElementById({element!r});
            const option = [...select.options].find((o) => o.textContent === {json.dumps(text)});
            if (!option) throw new Error([...select.options].map((o) => o.textContent).join());
            select.value = option.value;
            select.dispatchEvent(new Event("change", {{bubbles: true}}));
        }})()""")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            extra = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **extra)
            if kind == "mouseMoved":
                time.sleep(0.15)  # as a hand does: Plotly looks under the pointer every 50 ms

    def complaints(self):
        """Errors and warnings of this page's console, and requests it made beyond its file."""
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, details = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(
                    details["exceptionDetails"]["exception"].get("description", "exception")
                )
            elif method == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning"):
                found.append(str([a.get("value") for a in details["args"]]))
            elif method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
                found.append(details["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                url = details["request"]["url"]
                if not url.startswith(("file:", "data:", "blob:", "about:")):
                    found.append(f"asked for {url}")
        return found

    def picture(self, path):
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(shot))

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)
