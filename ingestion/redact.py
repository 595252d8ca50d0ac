"""Secrets out of texts: what an error or a log line says must not give away a credential (law 8)."""

import base64
import json
import re
from collections.abc import Iterable
from functools import lru_cache

MASK = "***"
_SHORTEST = 4


def redact(text: str, secrets: Iterable[str]) -> str:
    """Mask each secret in `text`, as it is, quoted, url-encoded, and in base64 (alone or within Basic auth).

    A secret of fewer than 4 characters is left alone: masking `a` would tell more than it hides.
    """
    for secret in sorted({s for s in secrets if len(s) >= _SHORTEST}, key=len, reverse=True):
        text = _pattern(secret).sub(MASK, text)
    return text


@lru_cache
def _pattern(secret: str) -> re.Pattern[str]:
    """Match every form of a secret; of two that begin alike the longer."""
    forms = {json.dumps(secret)[1:-1], repr(secret)[1:-1], *_base64_forms(secret)}
    literal = (re.escape(form) for form in sorted(forms, key=len, reverse=True))
    return re.compile("|".join([*literal, "".join(map(_maybe_encoded, secret))]))


def _maybe_encoded(character: str) -> str:
    """Match a character as it is or url-encoded: which ones are encoded differs between libraries."""
    encoded = "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    return f"(?:{re.escape(character)}|(?i:{encoded})" + (r"|\+)" if character == " " else ")")


def _base64_forms(secret: str) -> set[str]:
    """Give the base64 of a secret in each of the three alignments: the part that does not depend on its neighbours."""
    forms = set()
    raw = secret.encode("utf-8", "surrogatepass")
    for offset in range(3):
        encoded = base64.b64encode(b"\x00" * offset + raw)
        whole = encoded[(0, 2, 3)[offset] : (len(raw) + offset) * 8 // 6].decode()
        if len(whole) >= _SHORTEST:
            forms |= {whole, whole.replace("+", "-").replace("/", "_")}
    return forms
