"""A headless Chromium that opens every page of a built site and reports what it finds there."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Report", "chromium", "visit"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-prefers-reduced-motion",
)
# Runs first in every page: what goes wrong is kept, in the order in which it happens.
_WATCH = """<script>
window.problems = [];
for (const level of ["error", "warn"]) {
  console[level] = (...said) => problems.push(`console.${level}: ${said.join(" ")}`);
}
addEventListener("error", e => problems.push(
  e.message ? `error: ${e.message}` : `not loaded: ${e.target.src || e.target.href}`), true);
addEventListener("unhandledrejection", e => problems.push(`rejected: ${e.reason}`));
</script>"""
# Opens the pages one by one in a frame of the given width, and sends back what it finds.
_TOUR = """<!doctype html><iframe width="WIDTH" height="900"></iframe><script>
const frame = document.querySelector("iframe");
const look = (page) => {
  const { document: d, problems, performance } = frame.contentWindow;
  const article = d.querySelector("article");
  const all = (selector) => [...article.querySelectorAll(selector)];
  const cut = (text) => text.trim().slice(0, 80);
  return {
    page, problems,
    foreign: performance.getEntriesByType("resource").map((r) => r.name)
      .filter((name) => !name.startsWith(location.origin)),
    formulas: all(".katex").length,
    unset: [...all(".arithmatex").filter((e) => !e.querySelector(".katex")), ...all(".katex-error")]
      .map((e) => cut(e.textContent)),
    wide: all("pre > code, .md-typeset__scrollwrap")
      .filter((e) => e.scrollWidth > e.clientWidth + 1)
      .map((e) => cut(e.textContent)),
    overflow: d.documentElement.scrollWidth - d.documentElement.clientWidth,
    broken: all("img").filter((i) => i.complete && !i.naturalWidth).map((i) => i.src),
    text: article.innerText,
    prose: (() => {
      const copy = article.cloneNode(true);
      for (const e of copy.querySelectorAll("pre, code, .katex")) e.remove();
      return copy.textContent;
    })(),
  };
};
const report = (found) => fetch("/report", { method: "POST", body: JSON.stringify(found) });
const open = (page) => new Promise((done) => {
  frame.onload = () => frame.contentWindow.document.fonts.ready.then(() => setTimeout(done, 20));
  frame.src = page;
});
(async () => {
  const found = [];
  for (const page of PAGES) { await open("/" + page); found.push(look(page)); }
  await report(found);
})().catch((e) => report({ failed: String(e) }));
</script>"""


class Report(NamedTuple):
    """What the browser found on a page.

    Attributes:
        page: Its path in the site.
        problems: Messages on the console, errors of scripts, files that did not load.
        foreign: Addresses outside the site that the page asked for.
        formulas: How many formulas are set.
        unset: Formulas that are shown as they were written.
        wide: Blocks of code and tables that do not fit.
        overflow: By how many pixels the page is wider than the window.
        broken: Pictures that are not shown.
        text: All that can be read.
        prose: The text without code and formulas.
    """

    page: str
    problems: list[str]
    foreign: list[str]
    formulas: int
    unset: list[str]
    wide: list[str]
    overflow: int
    broken: list[str]
    text: str
    prose: str


def chromium() -> str | None:
    """The path of a Chromium, if there is one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class _Handler(SimpleHTTPRequestHandler):
    """Serve a site, each page with the script that watches it."""

    tour: bytes
    reports: queue.Queue[Any]

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        if self.path == "/tour":
            self._send(self.tour)
        elif path.suffix == ".html" and path.exists():
            html = path.read_text(encoding="utf-8")
            self._send(html.replace("<head>", f"<head>{_WATCH}", 1).encode())
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._send(b"")

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal clean."""

    def _send(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def visit(site: Path, profile: Path, *, width: int, timeout: float = 300) -> list[Report]:
    """Open every page of a site in a window of some width.

    Args:
        site: The folder of the built site.
        profile: A new folder for what the browser keeps.
        width: The width of the window in pixels.
        timeout: Seconds after which the browser must have seen all pages.
    """
    browser = chromium()
    if browser is None:
        raise FileNotFoundError(f"expected one of {', '.join(_NAMES)} on the path")
    pages = sorted(
        path.parent.relative_to(site).as_posix() + "/" for path in site.rglob("index.html")
    )
    tour = _TOUR.replace("WIDTH", str(width)).replace("PAGES", json.dumps(pages))
    reports: queue.Queue[Any] = queue.Queue()
    handler = type("Handler", (_Handler,), {"tour": tour.encode(), "reports": reports})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [browser, *_FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0"]
        address = f"http://127.0.0.1:{server.server_port}/tour"
        process = subprocess.Popen([*command, address], stderr=subprocess.DEVNULL)
        try:
            found = reports.get(timeout=timeout)
        finally:
            process.terminate()
            process.wait()
            server.shutdown()
    if isinstance(found, dict):
        raise RuntimeError(f"the tour of the site failed: {found['failed']}")
    return [Report(**page) for page in found]
