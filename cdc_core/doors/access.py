"""Access: one token for all callers, compared in constant time.

Programs send it as a bearer token. Browsers may send it as the password of HTTP Basic, under any user name, but only to
read: a browser also adds that password to requests that other sites make it send. Without a token, a service bound to
loopback answers only to loopback's names, so no other site's name can be pointed at it (DNS rebinding). A call that
changes something is refused when a browser says that another site's page makes it (cross-site request forgery).
"""

from __future__ import annotations

import base64
import binascii
import hmac

from cdc_core.contract.host import is_loopback
from cdc_core.errors import AccessDenied

_HINT = "Send the value of sluice.token as `Authorization: Bearer ...` (browsers: as the password)."


def check_token(token: str | None, authorization: str | None, *, reading: bool = False) -> None:
    """Raises AccessDenied when there is a token and the header does not hold it."""
    if not token:
        return
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() == "basic" and reading:
        given = _password(given)
    elif scheme.lower() != "bearer":
        given = ""
    if not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise AccessDenied("no token, or a wrong one" if given else "a token is needed", hint=_HINT)


def check_host(bound: str, host_header: str) -> None:
    """Raises AccessDenied when a service on loopback is called by a name that is not loopback's."""
    if is_loopback(bound) and not is_loopback(_name(host_header)):
        raise AccessDenied(
            f"asked under the name {host_header[:100]!r}",
            hint="Without sluice.token the service answers only to 127.0.0.1 and localhost.",
        )


def check_origin(host_header: str, origin: str | None, fetch_site: str | None) -> None:
    """Raises AccessDenied for a call that another site's page makes. Programs send neither header, browsers do.

    Source: the Fetch standard, "Origin header"; W3C, "Fetch Metadata Request Headers".
    """
    foreign = origin is not None and origin.partition("://")[2].lower() != host_header.lower()
    if foreign or fetch_site not in (None, "same-origin", "none"):
        raise AccessDenied(
            f"a page of another site made this call: {(origin or 'its origin is not known')[:100]}",
            hint="Call from a program or a command, or from a page of the service itself.",
        )


def _password(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _name(host_header: str) -> str:
    if host_header.startswith("["):
        return host_header[1:].partition("]")[0]
    return host_header.partition(":")[0]
