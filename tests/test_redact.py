"""Law 8: no form of a secret is left in a text."""

import base64
import json
import re
from pathlib import Path
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.errors import ConfigurationError
from ingestion.redact import MASK, redact
from tests.support import Site

SECRET = "gl/pat+x Y?z=é&1"
LOWER_HEX = re.sub("%..", lambda found: found[0].lower(), quote(SECRET, safe=""))
USED = {
    "plain": SECRET,
    "in a header": f"Authorization: Bearer {SECRET}",
    "quoted": f"https://example.org/?token={quote(SECRET, safe='')}",
    "as a form": urlencode({"token": SECRET}),
    "as a path": f"https://example.org/{quote(SECRET)}/x",
    "in base64": base64.b64encode(SECRET.encode()).decode(),
    "in url-safe base64": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "basic password": base64.b64encode(f"user:{SECRET}".encode()).decode(),
    "basic password after another user": base64.b64encode(f"user-1:{SECRET}".encode()).decode(),
    "basic password after a third": base64.b64encode(f"us:{SECRET}".encode()).decode(),
    "basic user": base64.b64encode(f"{SECRET}:x-oauth-basic".encode()).decode(),
    "as repr": repr({"token": SECRET}),
    "by a library that leaves more as it is": quote(SECRET, safe="/?=&"),
    "in lower-case hex": LOWER_HEX,
    "as json": json.dumps({"token": SECRET}),
    "twice": f"{SECRET} and {SECRET}",
}


def leaks(text: str, secret: str) -> list[str]:
    """The forms of a secret, or large parts of it, that stand in a text."""
    raw = secret.encode()
    forms = [secret, quote(secret), quote(secret, safe=""), quote(secret, safe="/?=&"), quote_plus(secret)]
    forms += [LOWER_HEX, json.dumps(secret)[1:-1]]
    forms += [base64.b64encode(b"\0" * offset + raw)[4:-4].decode() for offset in range(3)]
    forms += [base64.urlsafe_b64encode(b"\0" * offset + raw)[4:-4].decode() for offset in range(3)]
    return [form for form in forms if len(form) > 3 and form in text]


@pytest.mark.parametrize("case", USED)
def test_no_form_of_a_secret_is_left(case: str) -> None:
    assert leaks(USED[case], SECRET), "the case shows nothing"
    redacted = redact(USED[case], [SECRET])
    assert MASK in redacted
    assert leaks(redacted, SECRET) == []


def test_the_rest_of_the_text_stays() -> None:
    assert redact(f"GET /x?token={SECRET} answered 401", [SECRET]) == f"GET /x?token={MASK} answered 401"
    assert redact("nothing to hide", [SECRET, ""]) == "nothing to hide"


def test_a_secret_within_another_leaves_no_part() -> None:
    assert redact("abcdefgh abcd", ["abcd", "abcdefgh"]) == f"{MASK} {MASK}"


def test_a_secret_that_is_no_utf_8_is_masked_too() -> None:
    assert redact("token \udcff\udcff\udcff\udcff", ["\udcff" * 4]) == f"token {MASK}"


def test_what_is_too_short_to_be_a_secret_masks_nothing() -> None:
    assert redact("a cab", ["a", "ca", "cab"]) == "a cab"


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=8, max_size=40), st.text(max_size=9))
def test_a_secret_of_any_letters_is_found_in_any_text(secret: str, user: str) -> None:
    basic = base64.b64encode(f"{user}:{secret}".encode()).decode()
    text = f"<{quote(secret, safe='')}> <{basic}> <{urlencode({'t': secret})}> <{secret}>"
    assert leaks(redact(text, [secret]), secret) == []


def test_an_error_of_a_connector_that_cites_its_token_can_be_redacted(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.faults = {0: ConfigurationError(f"401 for https://example.org?key={quote(SECRET)}")}
    with pytest.raises(ConfigurationError) as raised:
        site.fetch()
    assert leaks(redact(str(raised.value), [SECRET]), SECRET) == []
