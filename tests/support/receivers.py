"""Real receivers of alerts on the loopback address: a web hook, and a mail server that takes what it gets."""

from __future__ import annotations

import base64
import email
import email.policy
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast


@dataclass
class WebHook:
    """What was posted, and to which paths. It answers with `status`."""

    port: int = 0
    status: int = 200
    paths: list[str] = field(default_factory=list)
    posted: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0

    def url(self, path: str = "hook") -> str:
        return f"json://127.0.0.1:{self.port}/{path}"

    @property
    def titles(self) -> list[str]:
        return [one["title"] for one in self.posted]


@contextmanager
def web_hook() -> Iterator[WebHook]:
    """A web hook that takes JSON, and answers as Slack does."""
    hook = WebHook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.asked += 1
            hook.paths.append(self.path)
            if hook.status == 200:
                hook.posted.append(json.loads(body))
            self.send_response(hook.status)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
            thread.join()


@dataclass
class MailServer:
    """The mails that came, with whom they are for; the logins, as `user:password`. `refuses` logins."""

    port: int = 0
    refuses: bool = False
    mails: list[tuple[list[str], EmailMessage]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """As much of SMTP as a client needs that logs in and sends a mail."""
    box = MailServer()

    class Handler(socketserver.StreamRequestHandler):
        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

        def handle(self) -> None:
            self.say("220 box ESMTP")
            to = list[str]()
            while line := self.rfile.readline().decode().strip():
                verb = line.upper()
                if verb.startswith("EHLO"):
                    self.say("250-box")
                    self.say("250 AUTH PLAIN")
                elif verb.startswith("AUTH PLAIN"):
                    _, user, password = base64.b64decode(line.split()[2]).decode().split("\0")
                    box.logins.append(f"{user}:{password}")
                    self.say("535 5.7.8 not you" if box.refuses else "235 welcome")
                elif verb.startswith("MAIL"):
                    to = []
                    self.say("250 yes")
                elif verb.startswith("RCPT"):
                    to.append(line.partition("<")[2].partition(">")[0])
                    self.say("250 yes")
                elif verb == "DATA":
                    self.say("354 go on")
                    box.mails.append((to, self.mail()))
                    self.say("250 taken")
                elif verb == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("250 yes")

        def mail(self) -> EmailMessage:
            lines = []
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
            return cast(EmailMessage, email.message_from_bytes(b"".join(lines), policy=email.policy.default))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = allow_reuse_address = True

    with Server(("127.0.0.1", 0), Handler) as server:
        box.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()
