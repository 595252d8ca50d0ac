"""YAML text -> plain data that remembers on which line each key was written.

PyYAML's constructor forgets the lines and takes the last of two equal keys, so its nodes are read here, with bounds.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from ingestion.errors import ConfigurationError

KeyPath = tuple[str | int, ...]
_Pairs = dict[str, tuple[yaml.Node, yaml.Node]]  # key -> its node and the node of its value

REFUSED: Final = object()
"""Stands for a value that could not be read and is reported already, so that nothing more is said of it."""

_BAD_KEY = "a key that is not text, write one name before the colon"
_MAX_DEPTH = 32
_MAX_NODES = 100_000
_TAG = "tag:yaml.org,2002:"
_NUMBERS = {"null", "bool", "int", "float"}
_TAGS: dict[type[yaml.Node], set[str]] = {
    yaml.ScalarNode: {*_NUMBERS, "str", "timestamp", "value", "merge"},  # a date stays the text that was written
    yaml.SequenceNode: {"seq"},
    yaml.MappingNode: {"map"},
}


@dataclass(frozen=True, slots=True)
class Positions:
    """Where each key path of a file was written."""

    file: str
    lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """Give the line of the path, or of the nearest thing around it that was written."""
        return next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 1)

    def at(self, *path: str | int) -> str:
        """Give `file:line` of the path."""
        return f"{self.file}:{self.line(path)}"


@dataclass(frozen=True, slots=True)
class Tree:
    """What a YAML text says, with the mistakes (line, what) that did not keep the rest from being read."""

    value: object
    positions: Positions
    problems: list[tuple[int, str]]


def read_yaml(text: str, *, file: str) -> Tree:
    """Read one YAML document; an empty one is None.

    Raises:
        ConfigurationError: the text is not YAML, or out of bounds.
    """
    reader = _Reader()
    try:
        root = _Loader(text).get_single_node()
        value = None if root is None else reader.read(root, ())
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigurationError(f"{file}:{line}: a character that YAML does not allow, remove it") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigurationError(f"{file}:{mark.line + 1 if mark else 1}: {_syntax(error)}") from None
    return Tree(value, Positions(file, reader.lines), list(dict.fromkeys(reader.problems)))


def _syntax(error: yaml.MarkedYAMLError) -> str:
    """Say what is wrong without repeating what was written: it may be a secret that nobody quoted."""
    # What stays in quotes is a '<token>', one character, or an escape such as '\t'.
    problem = re.sub(r""" (['"])(?!<|\\|.\1).+\1""", "", (error.problem or "").removeprefix("but "), flags=re.DOTALL)
    hints = {
        "alias": "'*' begins an alias: put the text in quotes, or define its anchor before it",
        "second occurrence": "'&' begins an anchor, each once: put the text in quotes, or rename the anchor",
        "tag": "'!' begins a tag: put the text in quotes",
        r"'\t'": "indent with spaces, not tabs",
        "another document": "keep one: remove the '---' line",
        "mapping values": "check the indentation, and put text that contains ': ' in quotes",
    }
    hint = next((hint for word, hint in hints.items() if word in problem), "check the quotes, brackets and indentation")
    return problem if isinstance(error, _BoundsError) else f"not valid YAML ({problem}), {hint}"


class _BoundsError(yaml.MarkedYAMLError):
    """The text goes beyond what is read here."""


class _Loader(yaml.SafeLoader):
    """Composes nodes with a bound on nesting, which PyYAML would follow until Python's stack ends."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _BoundsError(None, None, f"nested more than {_MAX_DEPTH} deep, flatten it", self.get_mark())
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def fetch_more_tokens(self) -> None:
        try:
            super().fetch_more_tokens()
        except (ValueError, OverflowError):  # PyYAML trusts chr() with "\UFFFFFFFF" and int() with any %YAML version
            raise _BoundsError(None, None, "an escape or version out of range, correct it", self.get_mark()) from None


class _Reader:
    """Turns nodes into plain data; collects lines and mistakes on the way."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[tuple[int, str]] = []
        self._around: list[yaml.Node] = []
        self._count = 0

    def read(self, node: yaml.Node, path: KeyPath) -> object:
        """Give the node's value, REFUSED where it has none."""
        tag = node.tag.removeprefix(_TAG)
        if tag == node.tag or tag not in _TAGS[type(node)]:
            return self._refuse(node, "a tag ('!') that is not used here, remove it or put the text in quotes")
        if isinstance(node, yaml.ScalarNode):
            self._spend(node)
            return self._scalar(node, tag)
        if not self._enter(node):
            return REFUSED
        pairs = self._pairs(node) if isinstance(node, yaml.MappingNode) else None
        value: dict[str | int, object] = {}
        for key, (at, item) in enumerate((one, one) for one in node.value) if pairs is None else pairs.items():
            self.lines[*path, key] = at.start_mark.line + 1
            value[key] = self.read(item, (*path, key))
        self._around.pop()
        return [*value.values()] if pairs is None else value

    def _scalar(self, node: yaml.ScalarNode, tag: str) -> object:
        if any("\ud800" <= character <= "\udfff" for character in node.value):
            return self._refuse(node, r"half a character (a \uD800-\uDFFF escape), write the character itself")
        if tag not in _NUMBERS:
            return node.value
        try:
            return yaml.constructor.SafeConstructor().construct_object(node)
        except (ValueError, LookupError, OverflowError):
            return self._refuse(node, "not a number that can be read, correct it or put it in quotes")

    def _pairs(self, node: yaml.MappingNode) -> _Pairs:
        """Give the mapping's own keys, then those merged by `<<`."""
        own, merged = _Pairs(), _Pairs()
        for key_node, item in node.value:
            is_plain = (
                isinstance(key_node, yaml.ScalarNode) and key_node.tag.removeprefix(_TAG) in _TAGS[type(key_node)]
            )
            key = self._scalar(key_node, "str") if is_plain else self._refuse(key_node, _BAD_KEY)
            if not isinstance(key, str):
                continue
            if key_node.tag == f"{_TAG}merge":
                for source in item.value if isinstance(item, yaml.SequenceNode) else [item]:
                    merged = self._merge(source) | merged
            elif key in own:
                first = own[key][0].start_mark.line + 1
                self._refuse(key_node, f"duplicate key {key[:60]!r}, it is on line {first} already: keep one")
            else:
                own[key] = (key_node, item)
        return merged | own

    def _merge(self, node: yaml.Node) -> _Pairs:
        if not isinstance(node, yaml.MappingNode):
            self._refuse(node, "'<<' merges mappings only, give it an alias of one")
        elif self._enter(node):
            pairs = self._pairs(node)
            self._around.pop()
            return pairs
        return {}

    def _enter(self, node: yaml.Node) -> bool:
        self._spend(node)
        if any(node is outer for outer in self._around):
            self._refuse(node, "an alias ('*') to something that contains it, remove it")
            return False
        self._around.append(node)
        return True

    def _spend(self, node: yaml.Node) -> None:
        """Count a node, so that neither aliases of aliases nor a file of any size takes the memory."""
        self._count += 1
        if self._count > _MAX_NODES or len(self._around) > _MAX_DEPTH:
            limits = f"{_MAX_NODES} values or {_MAX_DEPTH} levels"
            raise _BoundsError(None, None, f"more than {limits} with aliases followed, use fewer", node.start_mark)

    def _refuse(self, node: yaml.Node, what: str) -> object:
        self.problems.append((node.start_mark.line + 1, what))
        return REFUSED
