"""The fault server does on the wire what each fault says."""

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from tests.faultserver.faults import Fault, Response
from tests.faultserver.server import FaultServer, Request

PAYLOAD = {"text": "a body of some length, to be cut in the middle"}


def answer(_request: Request) -> Response:
    return Response.json(PAYLOAD, headers={"X-From": "the handler"})


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(answer) as server:
        yield server


@pytest.fixture
def client(server: FaultServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=5) as client:
        yield client


def test_every_request_is_logged_as_it_was_sent(server: FaultServer, client: httpx.Client) -> None:
    client.get("/a%20b?since=2024-01-01T00:00:00%2B00:00&x=1&x=2&e=", headers={"If-None-Match": '"tag"'})
    client.post("/c", content=b"sent", headers={"Authorization": "Bearer secret"})
    first, second = server.requests
    assert (first.number, first.method, first.path) == (0, "GET", "/a b")
    assert first.query == (("since", "2024-01-01T00:00:00+00:00"), ("x", "1"), ("x", "2"), ("e", ""))
    assert first.headers["if-none-match"] == '"tag"'
    assert (second.number, second.method, second.body) == (1, "POST", b"sent")
    assert second.headers["authorization"] == "Bearer secret"
    server.reset_log()
    client.get("/again")
    assert [(request.number, request.path) for request in server.requests] == [(0, "/again")]


def test_a_bare_plus_in_a_query_is_a_space(server: FaultServer, client: httpx.Client) -> None:
    client.get(httpx.URL(server.url + "/?since=10:00+00:00"))
    assert server.requests[0].first("since") == "10:00 00:00"


def test_a_connection_is_kept_and_used_again(client: httpx.Client) -> None:
    ends = {client.get("/").extensions["network_stream"].get_extra_info("client_addr") for _ in range(3)}
    assert len(ends) == 1


def test_clients_at_once_are_numbered_one_by_one(server: FaultServer, client: httpx.Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(client.get, ["/"] * 80))
    assert {response.status_code for response in responses} == {200}
    assert [request.number for request in server.requests] == list(range(80))


def test_a_fault_by_number_fires_once_and_before_those_by_predicate(server: FaultServer, client: httpx.Client) -> None:
    server.at(1, Fault.status(500))
    server.when(lambda request: request.path == "/slow", Fault.status(503, headers={"Retry-After": "7"}), times=2)
    statuses = [client.get(path).status_code for path in ("/", "/slow", "/slow", "/", "/slow", "/slow")]
    assert statuses == [200, 500, 503, 200, 503, 200]
    server.reset_log()
    assert [client.get("/").status_code for _ in range(2)] == [200, 200]


def test_a_fault_by_predicate_lasts_until_all_is_calm(server: FaultServer, client: httpx.Client) -> None:
    server.when(lambda _request: True, Fault.status(502))
    server.at(4, Fault.status(500))
    assert [client.get("/").status_code for _ in range(3)] == [502] * 3
    server.calm()
    assert [client.get("/").status_code for _ in range(5)] == [200] * 5
    assert len(server.requests) == 5


def test_the_hook_runs_before_the_answer_is_made(server: FaultServer, client: httpx.Client) -> None:
    def move(number: int, request: Request) -> None:
        server.handler = lambda _request: Response.json([number, request.path])

    server.before_request = move
    assert [client.get("/a").json(), client.get("/b").json()] == [[0, "/a"], [1, "/b"]]


def test_what_the_handler_raises_is_raised_by_the_server() -> None:
    def broken(_request: Request) -> Response:
        raise KeyError("a fault of the test")

    with pytest.RaisesGroup(KeyError), FaultServer(broken) as server, pytest.raises(httpx.RemoteProtocolError):
        httpx.get(server.url)


def test_status_headers_and_body(server: FaultServer, client: httpx.Client) -> None:
    server.at(0, Fault.status(403, headers={"Retry-After": "1"}, body=b'{"message": "slow down"}'))
    server.at(1, Fault.status(304))
    forbidden, unmodified = client.get("/"), client.get("/")
    assert (forbidden.status_code, forbidden.headers["retry-after"]) == (403, "1")
    assert forbidden.json() == {"message": "slow down"}
    assert (unmodified.status_code, unmodified.content) == (304, b"")
    assert client.get("/").json() == PAYLOAD


def test_html_with_200(server: FaultServer, client: httpx.Client) -> None:
    server.at(0, Fault.html())
    response = client.get("/")
    assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    with pytest.raises(json.JSONDecodeError):
        response.json()


def test_a_cut_body_arrives_whole_for_http_and_broken_for_json(server: FaultServer, client: httpx.Client) -> None:
    server.at(0, Fault.cut())
    response = client.get("/")
    assert len(response.content) == int(response.headers["content-length"]) == len(json.dumps(PAYLOAD)) // 2
    with pytest.raises(json.JSONDecodeError):
        response.json()


def test_a_truncated_body_ends_before_its_length(server: FaultServer, client: httpx.Client) -> None:
    server.at(0, Fault.truncated())
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        client.get("/")
    assert client.get("/").json() == PAYLOAD


def test_a_reset_before_the_headers(server: FaultServer, client: httpx.Client) -> None:
    server.at(0, Fault.reset())
    with pytest.raises(httpx.ReadError):  # a mere close is a RemoteProtocolError
        client.get("/")


def test_a_reset_after_the_headers(server: FaultServer, client: httpx.Client) -> None:
    server.at(0, Fault.reset(is_after_headers=True))
    with client.stream("GET", "/") as response:
        assert response.status_code == 200
        with pytest.raises(httpx.ReadError):
            response.read()


def test_a_redirect_elsewhere(server: FaultServer, client: httpx.Client) -> None:
    with FaultServer(answer) as other:
        server.at(0, Fault.redirect(other.url + "/elsewhere", 307))
        response = client.get("/")
        assert (response.status_code, response.headers["location"]) == (307, other.url + "/elsewhere")
        assert other.requests == []


def test_a_late_answer(server: FaultServer, client: httpx.Client) -> None:
    server.at(0, Fault.delay(0.01))
    server.at(2, Fault.delay(3600))  # the server does not wait for it when it closes
    assert [client.get("/").json() for _ in range(2)] == [PAYLOAD] * 2
    with pytest.raises(httpx.ReadTimeout):
        client.get("/", timeout=0.1)


def test_an_endless_body(server: FaultServer, client: httpx.Client) -> None:
    server.at(0, Fault.endless(every=0.001))
    with client.stream("GET", "/") as response:
        body = response.iter_raw()
        assert b"".join(next(body) for _ in range(20)).strip() == b""
        assert response.headers["x-from"] == "the handler"
        assert "content-length" not in response.headers


@pytest.mark.parametrize("is_announced", [True, False], ids=["announced", "chunked"])
def test_an_oversized_body(server: FaultServer, client: httpx.Client, *, is_announced: bool) -> None:
    server.at(0, Fault.oversized(1_000_003, is_announced=is_announced))
    response = client.get("/")
    assert response.headers.get("content-length") == ("1000003" if is_announced else None)
    assert len(response.content) == 1_000_003
    assert response.json().strip() == ""


def test_a_gzip_bomb(server: FaultServer, client: httpx.Client) -> None:
    server.at(0, Fault.gzip_bomb(10_000_000))
    with client.stream("GET", "/") as response:
        packed = b"".join(response.iter_raw())
    assert len(packed) < 20_000
    assert len(gzip.decompress(packed)) == 10_000_000


def test_a_wrong_content_encoding(server: FaultServer, client: httpx.Client) -> None:
    server.at(0, Fault.wrong_encoding())
    with pytest.raises(httpx.DecodingError):
        client.get("/")


def test_an_answer_replaced_by_a_function_of_the_right_one(server: FaultServer, client: httpx.Client) -> None:
    server.at(0, Fault.replaced(lambda right: replace(right, status=206, body=right.body.replace(b"body", b"soul"))))
    response = client.get("/")
    assert (response.status_code, response.headers["x-from"]) == (206, "the handler")
    assert "soul" in response.json()["text"]
