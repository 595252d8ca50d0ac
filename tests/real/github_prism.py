"""Prism in front of a GitHub of ours: it refuses what GitHub's OpenAPI document does not allow.

https://github.com/octokit/openapi · https://docs.stoplight.io/docs/prism
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, reduce
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.faultserver.faults import Response
from tests.faultserver.server import Handler, Request
from tests.real.octokit import MODULES, free_address, serving

_REPOSITORY = "/repos/{owner}/{repo}"
_BY_ID = "/repositories/{repository_id}"
_RECORDS = ("/issues", "/pulls", "/releases")
_REPOSITORY_ID = {"name": "repository_id", "in": "path", "required": True, "schema": {"type": "integer"}}
_FORWARDED = re.compile(r'Forwarding "get" request to (\S+?)\.\.\.')
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@cache
def document() -> dict[str, Any]:
    """Give GitHub's document, as far as it is of GET: a connector only reads.

    It does not say that every path of a repository also goes by the repository's id, as GitHub writes it in Link and
    Location (https://github.com/octokit/fixtures/tree/main/scenarios/api.github.com/paginate-issues); here it does.
    """
    text = (MODULES / "@octokit" / "openapi" / "generated" / "api.github.com.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    paths = {path: {"get": verbs["get"]} for path, verbs in found["paths"].items() if "get" in verbs}
    for path, verbs in list(paths.items()):
        rest = path.removeprefix(_REPOSITORY)
        if path.startswith(_REPOSITORY) and rest.startswith(_RECORDS):
            operation = verbs["get"]
            kept = [one for one in operation["parameters"] if _resolved(found, one)["name"] not in {"owner", "repo"}]
            by_id = {"operationId": f"{operation['operationId']}-by-id", "parameters": [*kept, _REPOSITORY_ID]}
            paths[_BY_ID + rest] = {"get": operation | by_id}
    paths[_BY_ID] = {"get": paths[_REPOSITORY]["get"] | {"operationId": "by-id", "parameters": [_REPOSITORY_ID]}}
    return found | {"paths": paths}


def _resolved(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference, if it is one."""
    if "$ref" not in part:
        return part
    found: dict[str, Any] = reduce(lambda inner, name: inner[name], part["$ref"].split("/")[1:], whole)
    return found


@cache
def _operation(path: str) -> dict[str, Any]:
    """Give what the document says of GET on a path; of two templates that fit, the one with fewer variables."""
    paths = document()["paths"]
    fitting = [one for one in paths if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(one)), path)]
    operation: dict[str, Any] = paths[min(fitting, key=lambda one: one.count("{"))]["get"]
    return operation


def _completed(value: Any, schema: dict[str, Any], example: Any) -> Any:  # noqa: ANN401 -- JSON is anything
    """Add the properties that a schema requires, as the example has them: null where it has none, as it lacks nulls."""
    schema = _resolved(document(), schema)
    schema = _resolved(document(), schema.get("oneOf", [schema])[0])
    if isinstance(value, list):
        first = example[0] if isinstance(example, list) and example else None
        return [_completed(one, schema.get("items", {}), first) for one in value]
    if not isinstance(value, dict):
        return value
    example = example if isinstance(example, dict) else {}
    missing = {name: example.get(name) for name in schema.get("required", ()) if name not in value}
    parts = schema.get("properties", {})
    return missing | {name: _completed(one, parts.get(name, {}), example.get(name)) for name, one in value.items()}


@dataclass
class Completed:
    """The handler of a GitHub behind Prism: what an answer of `github` lacks is added, from the document's examples.

    What it has stays as it is, for Prism to judge.
    """

    github: Handler
    host: str = ""
    """Where clients find it: Prism does not pass on the Host that they asked."""

    def __call__(self, request: Request) -> Response:
        response = self.github(replace(request, headers={**request.headers, "host": self.host}))
        if response.status != 200:
            return response
        answer = _resolved(document(), _operation(request.path)["responses"]["200"])["content"]["application/json"]
        example = _resolved(document(), next(iter(answer["examples"].values())))["value"]
        body = json.dumps(_completed(json.loads(response.body), answer["schema"], example)).encode()
        return replace(response, body=body)


@dataclass(frozen=True, slots=True)
class Prism:
    """A proxy that refuses what GitHub's document does not allow, asked or answered."""

    url: str
    log: Path
    begin: int = 0
    """Where in the log our part begins."""

    def forwarded(self) -> list[str]:
        """Give the targets that passed, path and query."""
        text = self.log.read_bytes()[self.begin :].decode()
        targets = _FORWARDED.findall(_COLOUR.sub("", text))
        return [urlsplit(target)._replace(scheme="", netloc="").geturl() for target in targets]

    def undocumented(self) -> list[str]:
        """Give the query parameters that passed and are not in the document: Prism overlooks those."""
        found = []
        for target in map(urlsplit, self.forwarded()):
            parameters = [_resolved(document(), one) for one in _operation(target.path).get("parameters", ())]
            known = {one["name"] for one in parameters if one["in"] == "query"}
            found += [f"{name} of {target.path}" for name, _ in parse_qsl(target.query) if name not in known]
        return found


@contextmanager
def prism(upstream: str, folder: Path) -> Iterator[Prism]:
    """Run Prism in front of a server, with an address of its own."""
    (folder / "github.json").write_text(json.dumps(document()), encoding="utf-8")
    url, log = free_address(), folder / "prism.log"
    program = MODULES / "@stoplight" / "prism-cli" / "dist" / "index.js"
    arguments = ("proxy", "--errors", "--port", url.rpartition(":")[2], "github.json", upstream)
    with serving(url, log, program, *arguments):
        yield Prism(url, log)
