"""The HTTP client asks again where that may help, and says what to do where it does not."""

import base64
import logging
from urllib.parse import quote, quote_plus

import httpx
import pytest

from ingestion.errors import ConfigurationError, ConnectorError, ScopeNotFoundError, TransientError, TributaryError
from resources.answer import _REMEMBERED_BYTES, _REMEMBERED_COUNT, Answer, _remembered, remember, remembered
from resources.counting import counting_requests
from resources.http import Http
from tests.faultserver.faults import Fault, Response
from tests.faultserver.server import Request
from tests.http_support import PAYLOAD, drip_headers, fail, talk

HTML = b"<html><head><title>404</title></head><body><h1>Not here</h1></body></html>"

QUICK = {
    "408": Fault.status(408),
    "500": Fault.status(500),
    "502 of a proxy": Fault.status(502, HTML),
    "503 that says nothing of waiting": Fault.status(503),
    "599": Fault.status(599),
    "closed without an answer": Fault(send=lambda wire, _response: wire.finish()),
    "reset before the headers": Fault.reset(),
    "reset after the headers": Fault.reset(is_after_headers=True),
    "truncated": Fault.truncated(),
    "cut, with the right length": Fault.cut(),
    "empty": Fault.status(200, b""),
    "204": Fault.status(204),
    "HTML with 200": Fault.html(),
    "HTML with 404": Fault.status(404, HTML),
    "HTML with 403": Fault.status(403, HTML),
    "a list for an object": Fault.replaced(lambda _response: Response.json([1])),
    "not packed as it says": Fault.wrong_encoding(),
    "packed as nobody asked for": Fault.wrong_encoding("br"),
}
SLOW = {
    "later than we wait": Fault.delay(30),
    "a body that never ends": Fault.endless(),
    "headers that never end": Fault(send=drip_headers),
}


@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize("failing", range(5))
def test_a_fault_that_goes_away_is_outlasted(kind: str, failing: int) -> None:
    with talk() as it, counting_requests() as counted:
        fail(it.server, QUICK[kind], failing)
        assert it.http.get("x", accept=(404,)).json == PAYLOAD
        assert len(it.server.requests) == failing + 1 == counted[0]
        assert [0.75 * 2**n <= seconds <= 1.25 * 2**n for n, seconds in enumerate(it.clock.slept)] == [True] * failing


@pytest.mark.parametrize("kind", QUICK)
def test_a_fault_that_stays_ends_the_scope_for_now(kind: str) -> None:
    with talk() as it:
        fail(it.server, QUICK[kind])
        with pytest.raises(TransientError, match=f"^{it.server.url}/x: .+; gave up after 5 attempts$") as caught:
            it.http.get("x", accept=(404,))
        assert caught.value.resumes_at is None
        assert (len(it.server.requests), len(it.clock.slept)) == (5, 4)
        assert "<" not in str(caught.value)


@pytest.mark.parametrize("kind", SLOW)
def test_a_request_ends_however_it_drips(kind: str) -> None:
    with talk(longest_request=0.2, attempts=2) as it:
        fail(it.server, SLOW[kind])
        with pytest.raises(TransientError, match="Timeout"):
            it.http.get("x")
        assert len(it.server.requests) == 2


@pytest.mark.parametrize("kind", SLOW)
def test_a_request_that_drips_once_is_sent_again(kind: str) -> None:
    with talk(longest_request=0.4) as it:  # a busy machine may need a moment even for the right answer
        fail(it.server, SLOW[kind], 1)
        assert it.http.get("x").json == PAYLOAD
        assert len(it.server.requests) >= 2


@pytest.mark.parametrize("is_whole_request", [True, False])
def test_a_download_is_tried_again_as_well(is_whole_request: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    with talk() as it:
        fail(it.server, Fault.reset(is_after_headers=is_whole_request), 2)
        fail(it.server, Fault.html(), 1)
        assert b"Sign in" in it.http.download("file").body, "a page is what was asked for, here"
        assert len(it.server.requests) == 3


@pytest.mark.parametrize(
    ("status", "error"),
    {
        400: ConnectorError,
        401: ConfigurationError,
        403: ConfigurationError,
        404: ScopeNotFoundError,
        405: ConnectorError,
        409: ConnectorError,
        410: ScopeNotFoundError,
        422: ConnectorError,
        451: ScopeNotFoundError,
    }.items(),
    ids=str,
)
def test_a_refusal_is_raised_at_once_in_the_words_of_the_upstream(status: int, error: type[TributaryError]) -> None:
    with talk() as it:
        fail(it.server, Fault.status(status, b'{"message": "Validation\\nFailed", "documentation_url": "d"}'))
        with pytest.raises(error, match=f"{it.server.url}/x: {status} Validation Failed") as caught:
            it.http.get("x")
        assert type(caught.value) is error
        assert (len(it.server.requests), it.clock.slept) == (1, [])


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error": "of another dialect"}', "422 of another dialect"),
        (b'{"errorMessages": ["No project", "No issue"]}', "422 ['No project', 'No issue']"),
        (b'{"message": ""}', "422 {'message': ''}"),
        (b'{"message": "' + b"long " * 1_000 + b'"}', "long"),
        (b"", "422 "),
    ],
    ids=["error", "errorMessages", "message without words", "long", "empty"],
)
def test_what_an_error_says_fits_a_line(body: bytes, text: str) -> None:
    with talk() as it:
        fail(it.server, Fault.status(422, body))
        with pytest.raises(ConnectorError) as caught:
            it.http.get("x")
        assert text in str(caught.value)
        assert len(str(caught.value)) < 350


@pytest.mark.parametrize("body", [b'{"message": "Not Found"}', b"", b" \n"], ids=["JSON", "nothing", "blanks"])
def test_an_accepted_refusal_is_the_callers_to_judge(body: bytes) -> None:
    with talk() as it:
        fail(it.server, Fault.status(404, body))
        answer = it.http.get("x", accept=(404, 410))
        assert (answer.status, answer.is_success, answer.body) == (404, False, body)


def test_parameters_without_a_value_are_not_sent() -> None:
    with talk() as it:
        it.http.get("x?a=1", {"b": "2024-01-01T00:00:00+00:00", "c": None, "d": 3})
        assert it.server.requests[0].query == (("a", "1"), ("b", "2024-01-01T00:00:00+00:00"), ("d", "3"))


def test_the_client_names_itself() -> None:
    with talk() as it:
        it.http.get("x")
        assert it.server.requests[0].headers["user-agent"] == "Tributary"


def forms(secret: str) -> list[str]:
    shifted = (base64.b64encode(prefix + secret.encode()).decode()[4:-4] for prefix in (b"", b"a", b"ab"))
    return [secret, quote(secret), quote(secret, safe=""), quote_plus(secret), *shifted]


@pytest.mark.parametrize("status", [401, 403, 404, 422, 429, 500, 503])
@pytest.mark.parametrize("form", range(7))
def test_a_secret_that_the_upstream_says_back_is_in_no_error_and_no_log(
    status: int, form: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with talk(longest_wait=1e6) as it:
        said = [*forms(it.token)[:4], *(base64.b64encode(p + it.token.encode()).decode() for p in (b"", b"a", b"ab"))]
        fail(it.server, Fault.replaced(lambda _response: Response.json({"message": f"bad {said[form]}!"}, status)))
        with pytest.raises(TributaryError) as caught:
            it.http.get("x?access_token=hunter2&page=2&X-Amz-Signature=hunter3")
        everything = f"{caught.value}\n{caplog.text}"
        assert [known for known in [*forms(it.token), "hunter2", "hunter3"] if known in everything] == []
        assert "page=2" in str(caught.value), "only secrets are masked"


@pytest.mark.parametrize("is_json", [True, False])
def test_half_a_secret_is_said_neither(is_json: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    with talk() as it:
        text = f"{'long ' * 36}{it.token}".encode()
        fail(it.server, Fault.status(422, b'{"message": "' + text + b'"}' if is_json else b"<h1>" + text))
        with pytest.raises(TributaryError) as caught:
            it.http.get("x", kind=dict) if is_json else it.http.download("x")
        assert it.token[:8] not in str(caught.value)


@pytest.mark.parametrize("said", ["key-of-an-api", "a password: odd", "key-of-an-api:a password: odd"])
def test_what_basic_auth_holds_is_in_no_error(said: str) -> None:
    basic = base64.b64encode(b"key-of-an-api:a password: odd").decode()
    with talk() as it, Http(it.server.url, authorization=f"Basic {basic}") as http:
        fail(it.server, Fault.status(401, f'{{"message": "no {said}!"}}'.encode()))
        with pytest.raises(ConfigurationError, match=r"401 no \*\*\*!"):
            http.get("x")


def test_a_secret_in_what_is_no_http_is_in_no_error_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with talk() as it:
        fail(it.server, Fault(send=lambda wire, _response: wire.send(f"{it.token}: go away\r\n\r\n".encode())))
        with pytest.raises(TransientError, match=r"go away") as caught:
            it.http.get("x")
        assert "go away" in caplog.text
        assert it.token not in f"{caught.value}\n{caplog.text}"


def test_the_libraries_below_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with talk() as it:
        fail(it.server, Fault.status(500), 1)
        it.http.get("x?token=hunter2")
    assert {record.name for record in caplog.records} == {"tributary.http"}


def test_every_pause_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with talk() as it:
        fail(it.server, Fault.status(500), 2)
        fail(it.server, Fault.status(429, headers={"Retry-After": "7"}), 1)
        it.http.get("x")
        logged = [record.getMessage() for record in caplog.records if record.name == "tributary.http"]
        assert len(logged) == len(it.clock.slept) == 3
        assert "500 fault 500; trying again in" in logged[0]
        assert "waiting 7 s for its rate limit" in logged[2]


class Tagged:
    """Serves an object that has an ETag, unless the caller has it."""

    def __init__(self, tag: str | None) -> None:
        self.tag = tag

    def __call__(self, request: Request) -> Response:
        if self.tag and request.headers.get("if-none-match") == self.tag:
            return Response(304, headers={"ETag": self.tag})
        return Response.json({"tag": self.tag}, headers={"ETag": self.tag} if self.tag else {})


def test_an_answer_that_still_holds_is_given_again() -> None:
    tagged = Tagged('"1"')
    with talk(tagged) as it, it.again() as later:
        first = it.http.get("x", {"page": 1}, is_conditional=True)
        assert later.get("x", {"page": 1}, is_conditional=True) == first
        assert it.server.requests[1].headers["if-none-match"] == '"1"'
        tagged.tag = '"2"'
        assert [later.get("x", {"page": 1}, is_conditional=True).json["tag"] for _ in range(2)] == ['"2"'] * 2
        assert it.server.requests[-1].headers["if-none-match"] == '"2"'


def test_neither_another_account_nor_another_address_gets_it() -> None:
    with talk(Tagged('"1"')) as it, it.again("another token") as other:
        it.http.get("x", is_conditional=True)
        other.get("x", is_conditional=True)
        it.http.get("x", {"page": 2}, is_conditional=True)
        it.http.get("x")
        assert ["if-none-match" in request.headers for request in it.server.requests] == [False] * 4


def test_nothing_is_remembered_without_a_tag() -> None:
    with talk(Tagged(None)) as it:
        it.http.get("x", is_conditional=True)
        it.http.get("x", is_conditional=True)
        assert "if-none-match" not in it.server.requests[1].headers


@pytest.mark.parametrize("is_conditional", [True, False])
def test_unchanged_is_no_answer_where_nobody_asked(is_conditional: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    with talk() as it:
        fail(it.server, Fault.status(304))
        with pytest.raises(ConnectorError, match="304"):
            it.http.get("x", is_conditional=is_conditional)


@pytest.mark.parametrize(
    ("count", "body"),
    [(_REMEMBERED_COUNT, b"{}"), (_REMEMBERED_BYTES // 1_000_000, bytes(1_000_000))],
    ids=["many answers", "large answers"],
)
def test_what_is_remembered_does_not_grow_for_ever(count: int, body: bytes) -> None:
    urls = [httpx.URL(f"http://many.test/{len(body)}/{number}") for number in range(count + 1)]
    for url in urls[:-1]:
        remember("", url, Answer(url, 200, httpx.Headers({"ETag": "1"}), body))
    assert remembered("", urls[0]) is not None, "all that may be there are there, and this one was asked for last"
    remember("", urls[-1], Answer(urls[-1], 200, httpx.Headers({"ETag": "1"}), body))
    assert remembered("", urls[0]) is not None
    assert remembered("", urls[1]) is None
    assert remembered("", urls[-1]) is not None


def test_what_is_remembered_is_remembered_without_its_json() -> None:
    with talk(Tagged('"1"')) as it:
        for _ in range(3):
            it.http.get("x", is_conditional=True).json["tag"] = "changed by a caller"
        assert it.http.get("x", is_conditional=True).json == {"tag": '"1"'}
    assert [answer for answer in _remembered.values() if "json" in vars(answer)] == []
