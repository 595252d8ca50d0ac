"""sources.yaml: what a valid text gives, what each mistake says, and that no text ends in a traceback."""

import re
import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestion.config import Brake, Config, EnvRef, SourceConfig, parse_config
from ingestion.errors import ConfigurationError

ROOT = Path(__file__).parent.parent
KINDS = {"files": ("include", "ignore"), "github": ("token", "url", "labels")}
VALID = """\
data: here
raw: s3://bucket/raw
memory_limit: 2GB
sources:
  my-notes: {connector: files, scopes: [a, "2024"], include: ["*.md"], sync: "*/15  * * * *"}
  github:
    connector: github
    token: {env: GITHUB_TOKEN}
    scopes:
      - duckdb/duckdb
      - duckdb/duckdb-web
    census: "0 3 * * mon-fri"
    brake: {ids: 5, share: 0}
"""


def parse(text: str) -> Config:
    """Parse with the kinds of these tests."""
    return parse_config(text, file="s.yaml", kinds=KINDS)


def problems(text: str) -> list[str]:
    """Give the lines of the error that the text raises."""
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    return list(caught.value.problems)


def source(keys: str) -> str:
    """Give a text with one source, whose keys are on line 3; scopes and connector unless given."""
    rest = "" if "scopes:" in keys else ", scopes: [a]"
    rest += "" if "connector:" in keys else ", connector: files"
    return f"sources:\n  n:\n    {{{keys}{rest}}}\n"


def test_valid_text_gives_typed_values() -> None:
    config = parse(VALID)
    assert (config.data, config.raw, config.memory_limit) == ("here", "s3://bucket/raw", "2GB")
    notes, github = config.sources.values()
    assert (notes.name, notes.slug, notes.connector, notes.scopes) == ("my-notes", "my_notes", "files", ("a", "2024"))
    assert (notes.sync, notes.census, notes.brake) == ("*/15 * * * *", None, Brake(ids=20, share=0.1))
    assert dict(notes.settings) == {"include": ["*.md"]}
    assert dict(github.settings) == {"token": EnvRef("GITHUB_TOKEN")}
    assert github.brake == Brake(ids=5, share=0)


def test_absent_keys_have_their_defaults() -> None:
    config = parse("sources: {n: {connector: files, scopes: [a], sync: }}")
    assert (config.data, config.raw, config.memory_limit, config.sources["n"].sync) == ("data", None, "176MB", None)


def test_nothing_of_a_config_can_be_changed() -> None:
    config = parse(VALID)
    with pytest.raises(ValueError, match="frozen"):
        config.data = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.sources["x"] = config.sources["github"]  # type: ignore[index]
    with pytest.raises(TypeError):
        config.sources["github"].settings["x"] = 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("data",), 1),
        (("sources", "my-notes", "scopes", 1), 5),
        (("sources", "github"), 6),
        (("sources", "github", "token"), 8),
        (("sources", "github", "token", "env"), 8),
        (("sources", "github", "scopes", 1), 11),
        (("sources", "github", "url"), 6),
        (("absent",), 1),
    ],
)
def test_at_gives_the_line_of_a_key_or_of_the_nearest_around_it(path: tuple[str | int, ...], line: int) -> None:
    assert parse(VALID).at(*path) == f"s.yaml:{line}"


def test_sources_share_keys_by_alias_and_merge() -> None:
    config = parse(
        "sources:\n"
        "  a: &a {connector: files, scopes: &s [x], sync: '0 0 * * *'}\n"
        "  b: {<<: *a, scopes: *s, census: '0 1 * * *'}\n"
        "  c: {<<: [{sync: '5 5 * * *'}, *a]}\n"
        "  d: {<<: *a}\n"
    )
    assert [(one.scopes, one.sync) for one in config.sources.values()] == [
        (("x",), "0 0 * * *"),
        (("x",), "0 0 * * *"),
        (("x",), "5 5 * * *"),
        (("x",), "0 0 * * *"),
    ]


@pytest.mark.parametrize("name", ["on", "no", "a" * 60, "a-1_b"])
def test_source_name_is_read_as_it_was_written(name: str) -> None:
    assert [*parse(f"sources: {{{name}: {{connector: files, scopes: [a]}}}}").sources] == [name]


@pytest.mark.parametrize(
    "cron",
    ["*/15 * * * *", "0 0 29 2 *", "0 0 l * *", "0 0 * jan-MAR sun", "0 0 * * 5#3", "1,2-5/2 * ? * ?", "0 0 * * 7"],
)
def test_good_cron(cron: str) -> None:
    assert parse(source(f'sync: "{cron}"')).sources["n"].sync == cron


@pytest.mark.parametrize(
    ("cron", "what"),
    [
        ("@daily", "1 fields, write five"),
        ("* * * *", "4 fields, write five"),
        ("0 * * * * *", "6 fields, write five"),
        ("", "0 fields, write five"),
        ("61 * * * *", "'61' is no minute, use 0-59"),
        ("0 25 * * *", "'25' is no hour, use 0-23"),
        ("0 0 32 * *", "'32' is no day of the month, use 1-31"),
        ("0 0 1 foo *", "'foo' is no month, use 1-12"),
        ("0 0 * * 8", "'8' is no day of the week, use 0-7"),
        ("*/0 * * * *", "'*/0' is no minute"),
        ("R * * * *", "'R' is no minute"),
        ("H * * * *", "'H' is no minute"),
        ("٣ * * * *", "is no minute"),
        ("9999999999 * * * *", "is no minute"),
        ("0 0 30 2 *", "there is no such day"),
    ],
)
@pytest.mark.parametrize("key", ["sync", "census"])
def test_bad_cron_names_the_field(key: str, cron: str, what: str) -> None:
    (problem,) = problems(source(f'{key}: "{cron}"'))
    assert problem.startswith("s.yaml:3: bad cron ")
    assert what in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "s.yaml:1: the file is empty, begin with sources:"),
        ("# only a comment\n", "s.yaml:1: the file is empty"),
        ("- a", "s.yaml:1: the file is not a mapping, begin with sources:"),
        ("just text", "s.yaml:1: the file is not a mapping"),
        ("!!set {a}", "s.yaml:1: a tag"),
        ("a:\n  b: [", "s.yaml:2: not valid YAML"),
        ("a: 1\n\tb: 2", "s.yaml:2: not valid YAML (found character '\\t'"),
        ("a: b: c", "put text that contains ': ' in quotes"),
        ("a: 1\nb: \x00", "s.yaml:2: a character that YAML does not allow"),
        ('a: 1\nb: "\\UFFFFFFFF"', "s.yaml:2: an escape"),
        ("%YAML 1." + "9" * 5000 + "\n--- a", "s.yaml:1: an escape or version"),
        ("a\n--- b", "s.yaml:2: not valid YAML (found another document), keep one"),
        ("a: *b", "'*' begins an alias: put the text in quotes"),
        ("[" * 5000, "s.yaml:1: nested more than 32 deep"),
        ("a: &a [b]\nc: &a [d]", "'&' begins an anchor"),
        ("\n".join(["a0: &a0 [x]", *(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]" for n in range(30))]), "use fewer"),
        (
            "\n".join(["a0: &a0 {x: 1}", *(f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}]}}" for n in range(30))]),
            "use fewer",
        ),
        ("\n".join(["a0: &a0 [x]", *(f"a{n + 1}: &a{n + 1} [*a{n}]" for n in range(99))]), "use fewer"),
    ],
)
def test_text_that_cannot_be_read_is_one_problem(text: str, expected: str) -> None:
    (problem,) = problems(text)
    assert expected in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &a [*a]", "s.yaml:1: an alias ('*') to something that contains it"),
        ("sources: &a\n  n: {<<: *a}", "s.yaml:1: an alias ('*') to something that contains it"),
        ("sources: {n: {<<: [1]}}", "s.yaml:1: '<<' merges mappings only"),
        ("? [a]\n: b", "s.yaml:1: a key that is not text"),
        ("? !!str [a]\n: b", "s.yaml:1: a key that is not text"),
        ("!!python/name:os.system '': b", "s.yaml:1: a key that is not text"),
        (source("brake: {share: " + "9" * 400 + "}"), "s.yaml:3: share must be a number from 0 to 1"),
        ("a: !!int x", "s.yaml:1: not a number that can be read"),
        ("a: " + "9" * 5000, "s.yaml:1: not a number that can be read"),
        ("a: !!bool maybe", "s.yaml:1: not a number that can be read"),
        ("a: !<int> 1", "s.yaml:1: a tag ('!') that is not used here"),
        ("a: !!python/name:os.system ''", "s.yaml:1: a tag ('!') that is not used here"),
        ('"\\ud800": 1', "s.yaml:1: half a character"),
        ("sorces: {}", "s.yaml:1: unknown key 'sorces', did you mean sources?"),
        ("zzz: 1", "s.yaml:1: unknown key 'zzz', use one of: data, memory_limit, raw, sources"),
        ("data: x", "s.yaml:1: the file has no sources, add"),
        ("sources:", "s.yaml:1: 'sources' has no value, write one"),
        ("sources: {}", "s.yaml:1: sources must be a mapping with at least one source"),
        ("sources: [a]", "s.yaml:1: sources must be a mapping with at least one source"),
        ("sources:\n  n:\n", "s.yaml:2: 'n' has no value, write one"),
        ("sources:\n  ids: 5\n", "s.yaml:2: a source must be a mapping"),
        ("data: 2024", "s.yaml:1: data must be the name of a folder; YAML reads this as a number, put it in quotes"),
        ("data: ''", "s.yaml:1: empty text"),
        ("raw: 'x '", "s.yaml:1: 'x ' begins or ends with a blank"),
        ("memory_limit: lots", "s.yaml:1: bad memory_limit 'lots', write a size such as 256MB"),
        ("memory_limit: 256", "s.yaml:1: memory_limit must be a size such as 256MB; YAML reads this as a number"),
        ("sources:\n  A b: {connector: files, scopes: [a]}", "s.yaml:2: bad source name 'A b'"),
        (f"sources:\n  {'a' * 61}: {{connector: files, scopes: [a]}}", "at most 60"),
        ("sources:\n  a-b: {}\n  a_b: {}", "s.yaml:3: source 'a_b' is the same name as 'a-b'"),
        ("sources:\n  a: {}\n  b: {}\n  a: {}", "s.yaml:4: duplicate key 'a', it is on line 2 already: keep one"),
        ("sources:\n  a: {sync: x, sync: y}", "s.yaml:2: duplicate key 'sync', it is on line 2 already"),
        ("sources:\n  a: {connector: files}", "s.yaml:2: source 'a' has no scopes, add a list"),
        ("sources:\n  a: {scopes: [b]}", "s.yaml:2: source 'a' has no connector, add the kind"),
        (source("connector: fils"), "s.yaml:3: unknown connector 'fils', did you mean files?"),
        (source("connector: zzz"), "s.yaml:3: unknown connector 'zzz', use one of: files, github"),
        (source("connector: 5"), "s.yaml:3: connector must be the kind of a connector; YAML reads this as a number"),
        (
            source("includ: 1"),
            "s.yaml:3: unknown key 'includ', did you mean include? (connector files has the settings:",
        ),
        (source("token: 1"), "s.yaml:3: unknown key 'token', connector files has the settings: ignore, include"),
        (source("name: x"), "s.yaml:3: unknown key 'name'"),
        (source("settings: {}"), "s.yaml:3: unknown key 'settings'"),
        (source("sync: on"), "s.yaml:3: sync must be a cron"),
        (source("brake: 5"), "s.yaml:3: brake must be a mapping such as {ids: 20, share: 0.1}"),
        (source("brake: {idz: 5}"), "s.yaml:3: unknown key 'idz', did you mean ids?"),
        (source("brake: {ids: -1}"), "s.yaml:3: ids must be a whole number, 0 or more"),
        (source("brake: {ids: true}"), "s.yaml:3: ids must be a whole number, 0 or more"),
        (source("brake: {share: 1.5}"), "s.yaml:3: share must be a number from 0 to 1"),
        (source("brake: {share: .nan}"), "s.yaml:3: share must be a number from 0 to 1"),
        (source("include: {env: A, b: c}"), "s.yaml:3: keys beside env, write only {env: NAME}"),
        (source("include: {env: 1-x}"), "s.yaml:3: bad name in {env: NAME}"),
        (source("include: {env: }"), "s.yaml:3: bad name in {env: NAME}"),
        (source("include: [{env: A}]"), "s.yaml:3: {env: NAME} inside a list or mapping"),
        (source("include: {a: [{env: A}]}"), "s.yaml:3: {env: NAME} inside a list or mapping"),
        (source("scopes: []"), "s.yaml:3: scopes is empty, name at least one"),
        (source("scopes: a"), "s.yaml:3: scopes must be a list of at least one scope"),
        (source("scopes: {a: b}"), "s.yaml:3: scopes must be a list of at least one scope"),
        (source("scopes: [2024]"), "s.yaml:3: a scope must be text; YAML reads this as a number, put it in quotes"),
        (source("scopes: [on]"), "YAML reads this as true or false, as on, yes and no are too, put it in quotes"),
        (source("scopes: [~]"), "s.yaml:3: a scope has no value"),
        (source("scopes: [[a]]"), "s.yaml:3: a scope must be text, correct it"),
        (source("scopes: ['']"), "s.yaml:3: empty text"),
        (source("scopes: [a, a]"), "s.yaml:3: duplicate scope 'a', remove one"),
        (source("scopes: [a...b]"), "s.yaml:3: scope 'a...b' holds '...'"),
        (source("scopes: [' a']"), "s.yaml:3: ' a' begins or ends with a blank"),
        (source('scopes: ["a\\nb"]'), "s.yaml:3: 'a\\nb' holds a control character"),
        (source('scopes: ["a\\0b"]'), "s.yaml:3: 'a\\x00b' holds a control character"),
        (source('scopes: ["\\ud800"]'), "s.yaml:3: half a character"),
    ],
)
def test_each_mistake_says_where_what_and_what_to_do(text: str, expected: str) -> None:
    assert [line for line in problems(text) if expected in line]


def test_all_mistakes_come_at_once_in_the_order_of_their_lines() -> None:
    found = problems(
        "dta: x\nmemory_limit: lots\nsources:\n  a: {connector: fils, scopes: [1, 'b ']}\n"
        "  b:\n    conector: files\n    scopes: [x]\n    sync: x\n  c: {connector: files, scope: [x]}\n"
        "  d: {connector: files}\n"
    )
    assert [line.split(",")[0] for line in found] == [
        "s.yaml:1: unknown key 'dta'",
        "s.yaml:2: bad memory_limit 'lots'",
        "s.yaml:4: 'b ' begins or ends with a blank",
        "s.yaml:4: a scope must be text; YAML reads this as a number",
        "s.yaml:4: unknown connector 'fils'",
        "s.yaml:6: unknown key 'conector'",
        "s.yaml:8: bad cron 'x' with 1 fields",
        "s.yaml:9: unknown key 'scope'",
        "s.yaml:10: source 'd' has no scopes",
    ]


@pytest.mark.parametrize(
    "keys",
    [
        "tokne: SECRET",
        "connector: github, token: {env: SECRET-1}",
        "connector: github, token: {env: SECRET, x: SECRET}",
        "connector: github, token: *SECRET",
        "connector: github, token: !SECRET x",
        "connector: github, token: !SECRET!x y",
        "connector: github, token: &SECRET a, url: &SECRET b",
        "connector: github, token: !!int SECRET",
        "connector: github, token: SECRET: x: SECRET, labels: [",
        "sync: [SECRET], census: {a: SECRET}, brake: SECRET",
        "connector: [SECRET]",
    ],
)
def test_no_error_repeats_the_value_of_a_setting(keys: str) -> None:
    assert "SECRET" not in str(problems(source(keys)))


def test_repr_shows_no_setting() -> None:
    assert "SECRET" not in repr(parse(source("connector: github, token: SECRET")))


def test_dates_stay_text() -> None:
    config = parse(source("scopes: [2024-01-31], include: 2024-99-99"))
    assert (config.sources["n"].scopes, config.sources["n"].settings["include"]) == (("2024-01-31",), "2024-99-99")


def check_text(text: str) -> None:
    """Parse: anything but a Config or well-formed problems fails."""
    try:
        parse(text)
    except ConfigurationError as error:
        found = error.problems
    else:
        return
    assert found
    for line in found:
        assert re.fullmatch(r"s\.yaml:[1-9][0-9]*: .+, .+", line), line
        assert line.isprintable()


@given(st.text() | st.text(alphabet="ab:-[]{}&*!<>|'\"#%@`?,.\\uU0x \n\t~", max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_ends_in_a_traceback(text: str) -> None:
    check_text(text)


PIECES = [
    *re.findall(r"\w+|\W", VALID),
    "*a",
    "&a",
    "<<: *a",
    "!!int",
    "!!set",
    "{env: X}",
    "on",
    "0x",
    "1e999",
    "2024-13-45",
    "\\u",
]


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_no_mutation_of_a_valid_text_ends_in_a_traceback(data: st.DataObject) -> None:
    tokens = re.findall(r"\w+|\W", VALID)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(tokens)))
        length = data.draw(st.integers(0, 4))
        tokens[at : at + length] = data.draw(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=3))
    check_text("".join(tokens))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(string.printable, max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["env", "ids", "a"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["connector", "scopes", "sync", "brake", "include", "name", "x"]), VALUES))
@settings(max_examples=200, deadline=None)
def test_no_value_of_any_type_ends_in_a_traceback(keys: dict[str, object]) -> None:
    check_text(yaml.safe_dump({"sources": {"n": {"connector": "files", "scopes": ["a"], **keys}}}))


def test_shipped_sources_are_valid_and_need_no_credentials() -> None:
    config = parse((ROOT / "sources.yaml").read_text(encoding="utf-8"))
    assert {name: one.scopes for name, one in config.sources.items()} == {
        "notes": ("examples/notes",),
        "handbook": ("examples/handbook", "examples/policies"),
    }
    assert all(one.sync and not one.settings for one in config.sources.values())


@pytest.mark.parametrize("model", [Config, SourceConfig, Brake])
def test_each_field_is_described_and_documented(model: type[Config | SourceConfig | Brake]) -> None:
    reference = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")
    for name, field in model.model_fields.items():
        assert field.description
        assert f"`{name}`" in reference
