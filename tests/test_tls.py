"""Certificates are checked, for the name that was asked for and not for the address that it leads to."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingestion.errors import ConfigurationError, RecordError
from resources.guard import _ssl_context
from resources.http import Http
from resources.sender import Patience
from tests.faultserver.server import FaultServer
from tests.http_support import PAYLOAD, Clock, payload

# A certificate that home.test signed for itself, valid until 2120, and its key, which opens nothing but this test.
PEM = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgrl3FX+jslmo3qau2
7q0i8fOGf57Gc/sNoozDjfsKrX+hRANCAARV0iVC3PFNVm91T6XVD0PYNhWBmcqH
TiODnxh7WYIobC37Lh9NcVizqPyd29RYLl4SHkjW1Ymk88KdTBMvZYbV
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBcjCCARegAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlob21lLnRl
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWhvbWUudGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFXSJULc8U1Wb3VP
pdUPQ9g2FYGZyodOI4OfGHtZgihsLfsuH01xWLOo/J3b1FguXhIeSNbViaTzwp1M
Ey9lhtWjWDBWMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgKEMB0GA1Ud
DgQWBBRGyO7P85cwWMQlV88+HaOS75XgizAUBgNVHREEDTALgglob21lLnRlc3Qw
CgYIKoZIzj0EAwIDSQAwRgIhAJHaJEc5U3YWnG7chUjLwE1IYAVXNZ0VnUmTaLqG
tXL1AiEAry6d7dnKRkakPp9Ndbzs8wpFZFdlVPR4es78I4GMTEk=
-----END CERTIFICATE-----
"""


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    path = tmp_path / "home.pem"
    path.write_text(PEM)
    return path


@pytest.fixture
def server(pem: Path) -> Iterator[FaultServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with FaultServer(payload) as server:
        server._listener.socket = context.wrap_socket(server._listener.socket, server_side=True)
        yield server


@pytest.fixture
def _trusted(pem: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trust the certificate, as an operator does with the authority of a company."""
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    _ssl_context.cache_clear()
    yield
    _ssl_context.cache_clear()


def client(server: FaultServer, name: str, clock: Clock, *, verify: bool = True) -> Http:
    url = server.url.replace("http://127.0.0.1", f"https://{name}")
    patience = Patience(sleep=clock.sleep)
    return Http(url, authorization="Bearer token", verify=verify, patience=patience, resolver=lambda *_: ["127.0.0.1"])


def test_a_certificate_of_nobodys_is_refused_at_once(server: FaultServer) -> None:
    clock = Clock()
    with client(server, "home.test", clock) as http:
        with pytest.raises(ConfigurationError, match=r"certificate of home.test is refused: .* verify: false"):
            http.get("x")
        with pytest.raises(RecordError, match=r"certificate of home.test is refused"):
            http.download("x")
    assert (server.requests, clock.slept) == ([], [])


def test_it_is_accepted_where_the_operator_says_so(server: FaultServer) -> None:
    with client(server, "home.test", Clock(), verify=False) as http:
        assert http.get("x").json == http.get("x").json == PAYLOAD


@pytest.mark.usefixtures("_trusted")
def test_a_trusted_certificate_holds_for_its_name(server: FaultServer) -> None:
    with client(server, "home.test", Clock()) as http:
        assert http.get("x").json == PAYLOAD
        assert server.requests[0].headers["host"].startswith("home.test:")


@pytest.mark.usefixtures("_trusted")
@pytest.mark.parametrize("name", ["other.test", "127.0.0.1", "sub.home.test"])
def test_a_trusted_certificate_holds_for_no_other_name_at_the_same_address(server: FaultServer, name: str) -> None:
    with (
        client(server, name, Clock()) as http,
        pytest.raises(ConfigurationError, match=r"certificate of .* is refused"),
    ):
        http.get("x")
    assert server.requests == []
