"""Secrets out of texts: what an error or a log line says must not give away a credential (law 8)."""

import base64
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

MASK = "***"
_SHORTEST = 4


def redact(text: str, secrets: Iterable[str]) -> str:
    """Mask each secret in `text`, as it is, url-encoded, and in base64 (alone or as the password of Basic auth).

    A secret of fewer than 4 characters is left alone: masking `a` would tell more than it hides.
    """
    for secret in sorted({s for s in secrets if len(s) >= _SHORTEST}, key=len, reverse=True):
        for form in _forms(secret):
            text = text.replace(form, MASK)
    return text


def _forms(secret: str) -> list[str]:
    """Give the forms of a secret, longest first.

    In base64 the characters depend on what stands before: of each of the three alignments, the part that does not.
    """
    forms = {secret, quote(secret, safe=""), quote_plus(secret)}
    raw = secret.encode()
    for offset in range(3):
        encoded = base64.b64encode(b"\x00" * offset + raw)
        whole = encoded[(0, 2, 3)[offset] : (len(raw) + offset) * 8 // 6].decode()
        if len(whole) >= _SHORTEST:
            forms |= {whole, whole.replace("+", "-").replace("/", "_")}
    return sorted(forms, key=len, reverse=True)
