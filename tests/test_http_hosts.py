"""A credential reaches the host that it was given for, and no other: a second listening server proves it."""

from collections.abc import Iterator
from contextlib import suppress

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.errors import ConfigurationError, ConnectorError, RecordError, TributaryError
from resources.http import Http
from tests.faultserver.faults import Fault, Response
from tests.faultserver.server import FaultServer
from tests.http_support import PAYLOAD, Clock, Talk, believe, client, fail, payload, talk

REDIRECTS = (301, 302, 303, 307, 308)
pieces = st.lists(
    st.sampled_from(
        [*"/:@?#[]%\\.-0", "//", "http:", "https:", "http://", "127.0.0.1", "::1", "%00", "xn--", "é", "\uff11"]
    )
    | st.text(max_size=3)
    | st.characters(categories=("Cs", "Cc", "So")),
    max_size=8,
).map("".join)


@pytest.fixture
def it() -> Iterator[Talk]:
    with talk() as it:
        yield it


@pytest.fixture
def other() -> Iterator[FaultServer]:
    with FaultServer(payload) as other:
        yield other


def port(server: FaultServer) -> str:
    return server.url.rpartition(":")[2]


def credentials(server: FaultServer) -> list[str | None]:
    return [request.headers.get("authorization") for request in server.requests]


@pytest.mark.parametrize(
    "link",
    [
        "http://127.0.0.1:{other}/next",
        "//127.0.0.1:{other}/next",
        "http://127.0.0.1:{home}@127.0.0.1:{other}/next",
        "http://user:password@127.0.0.1:{other}/next",
        "https://127.0.0.1:{home}/next",
        "http://localhost:{other}/next",
        "http://127.0.0.1./next",
        "ftp://127.0.0.1:{home}/next",
        "data:,next",
        "http://[::1",
        "http://\ud800/next",
        "\ud800",
        "http://127.0.0.1:x/next",
    ],
)
def test_a_link_to_elsewhere_is_an_error(it: Talk, other: FaultServer, link: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        it.http.get(link.format(home=port(it.server), other=port(other)))
    assert "password" not in str(caught.value)
    assert (it.server.requests, other.requests) == ([], [])


@pytest.mark.parametrize(
    "link", ["http:\\\\127.0.0.1:{other}/next", "http:///127.0.0.1:{other}/", "\\\\127.0.0.1:{other}"]
)
def test_a_link_that_only_some_read_as_elsewhere_stays_at_home(it: Talk, other: FaultServer, link: str) -> None:
    it.http.get(link.format(other=port(other)))
    assert (len(it.server.requests), other.requests) == (1, [])


def test_a_weaker_scheme_is_another_host() -> None:
    with client("https://home.test", "token", Clock()) as http, pytest.raises(ConnectorError, match="base_url"):
        http.get("http://home.test/next")


@pytest.mark.parametrize("link", ["next?page=2", "/api/v3/next?page=2", "{home}/api/v3/next?page=2"])
def test_a_link_on_our_host_is_followed_with_the_credential(it: Talk, link: str) -> None:
    with client(f"{it.server.url}/api/v3", it.token, it.clock) as http:
        http.get(link.format(home=it.server.url))
    assert [request.path for request in it.server.requests] == ["/api/v3/next"]
    assert credentials(it.server) == [f"Bearer {it.token}"]


def test_a_user_within_a_link_does_not_take_the_place_of_our_credential(it: Talk) -> None:
    it.http.get(it.server.url.replace("//", "//user:password@") + "/next")
    assert credentials(it.server) == [f"Bearer {it.token}"]


@pytest.mark.parametrize("status", REDIRECTS)
def test_an_api_call_is_not_redirected_to_another_host(it: Talk, other: FaultServer, status: int) -> None:
    fail(it.server, Fault.redirect(f"{other.url}/next", status))
    with pytest.raises(ConfigurationError, match=f"redirects to {other.url}: .* write it as base_url"):
        it.http.get("x")
    assert (len(it.server.requests), other.requests) == (1, [])


@pytest.mark.parametrize("status", REDIRECTS)
def test_an_api_call_is_redirected_on_its_own_host(it: Talk, status: int) -> None:
    it.server.at(0, Fault.redirect("/new/name?page=1", status))
    answer = it.http.get("old/name")
    assert (answer.json, answer.is_moved, str(answer.url)) == (PAYLOAD, True, f"{it.server.url}/new/name?page=1")
    assert credentials(it.server) == [f"Bearer {it.token}"] * 2
    assert not it.http.get("new/name").is_moved


def test_a_download_elsewhere_goes_without_anything_of_ours(it: Talk, other: FaultServer) -> None:
    believe(it.http, it.server, other)
    assert it.http.download(f"{other.url}/file").json == PAYLOAD
    fail(it.server, Fault.redirect(f"{other.url}/file"), 1)
    assert it.http.download("attachments/1").is_moved
    assert credentials(it.server) == [f"Bearer {it.token}"]
    assert credentials(other) == [None] * 2
    assert it.token not in repr(other.requests)


def test_a_download_that_comes_back_to_us_has_the_credential(it: Talk, other: FaultServer) -> None:
    believe(it.http, it.server, other)
    fail(other, Fault.redirect(f"{it.server.url}/file"))
    it.http.download(f"{other.url}/file")
    assert (credentials(other), credentials(it.server)) == ([None], [f"Bearer {it.token}"])


def test_headers_of_a_connector_stay_at_home_as_well(it: Talk, other: FaultServer) -> None:
    with Http(it.server.url, headers={"X-Key": "key"}) as http:
        believe(http, it.server, other)
        http.get("x")
        http.download(f"{other.url}/file")
    assert [request.headers.get("x-key") for request in (*it.server.requests, *other.requests)] == ["key", None]


def test_any_redirect_is_followed_at_home_or_an_error_for_the_operator(it: Talk, other: FaultServer) -> None:
    believe(it.http, it.server)

    @given(pieces)
    def redirected(location: str) -> None:
        it.server.calm()
        it.server.at(0, Fault.redirect(location.encode("utf-8", "replace").decode("latin-1")))
        with suppress(TributaryError):
            assert it.http.get("x").json == PAYLOAD

    redirected()
    assert other.requests == []


def test_cookies_are_not_kept(it: Talk, other: FaultServer) -> None:
    it.server.handler = lambda _request: Response.json(PAYLOAD, headers={"Set-Cookie": "session=1; Path=/"})
    believe(it.http, it.server, other)
    it.http.get("x")
    it.http.get("x")
    it.http.download(f"{other.url}/file")
    assert ["cookie" in request.headers for request in (*it.server.requests, *other.requests)] == [False] * 3


def test_redirects_in_a_circle_end(it: Talk) -> None:
    fail(it.server, Fault.redirect("/x"))
    with pytest.raises(ConnectorError, match="redirects in circles"):
        it.http.get("x")
    with pytest.raises(RecordError, match="redirects in circles"):
        it.http.download("x")
    assert len(it.server.requests) == 12


@pytest.mark.parametrize("headers", [{}, {"Location": "mailto:someone"}], ids=["none", "mailto"])
def test_a_redirect_to_no_address(it: Talk, headers: dict[str, str]) -> None:
    fail(it.server, Fault.status(302, b"", headers))
    with pytest.raises(ConnectorError, match="redirects to no address"):
        it.http.get("x")
    with pytest.raises(RecordError, match="redirects to no address"):
        it.http.download("x")
    assert len(it.server.requests) == 2


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1:70/_x"])
def test_a_redirect_to_another_protocol(it: Talk, location: str) -> None:
    fail(it.server, Fault.redirect(location))
    with pytest.raises(ConfigurationError, match="redirects to"):
        it.http.get("x")
    with pytest.raises(RecordError, match="is not an http or https address"):
        it.http.download("x")


@pytest.mark.parametrize("path", ["missing?token=hunter2", "http://u:hunter2@127.0.0.1:{home}/missing?page=2"])
def test_what_a_download_dies_of_names_no_secret(it: Talk, path: str) -> None:
    fail(it.server, Fault.status(404))
    with pytest.raises(RecordError, match="/missing") as caught:
        it.http.download(path.format(home=port(it.server)))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("status", [404, 500])
def test_our_own_token_in_an_address_is_in_no_error(it: Talk, status: int) -> None:
    fail(it.server, Fault.status(status))
    for path in (f"missing/{it.token}", f"missing?page={it.token}"):
        for call in (it.http.get, it.http.download):
            with pytest.raises(TributaryError) as caught:
                call(path)
            assert it.token not in str(caught.value)


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "github.com",
        "ftp://127.0.0.1",
        "https://",
        "https://user:hunter2@127.0.0.1",
        "https://127.0.0.1/?key=hunter2",
        "https://127.0.0.1/#x",
        "https://[::1",
        "https://127.0.0.1:99999",
        "https://\ud800",
        "\ud800",
    ],
)
def test_a_base_that_is_no_address_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url") as caught:
        Http(base_url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("token", ["hunter2\n", "hunter2\r\nX-Evil: 1", "hunter2\0", "hunter2é", "hunter2\ud800"])
def test_a_credential_that_no_header_can_have_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match="credential") as caught:
        Http("https://127.0.0.1", authorization=f"Bearer {token}")
    assert "hunter2" not in str(caught.value)


@given(pieces)
def test_any_text_is_an_address_or_an_error_for_the_operator(text: str) -> None:
    def nowhere(host: str, _port: int) -> list[str]:
        raise httpcore.ConnectError(f"{host} cannot be resolved")

    with client("http://home.test/api", "token", Clock(), nowhere) as http:
        for call in (http.get, http.download):
            with pytest.raises(TributaryError):
                call(text)
