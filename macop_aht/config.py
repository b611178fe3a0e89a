"""Configurations: frozen dataclasses that are written as TOML and read strictly."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from sys import float_info
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from macop_aht.util import hint, read_limited

T = TypeVar("T")
LIMIT = 2**20  # bytes of a file
DEPTH = 32  # levels of tables and lists in a file
LARGEST = 2**63 - 1  # whole number


class ConfigError(ValueError):
    """A configuration has an unknown key, or a value of the wrong type or range."""


def setting(default: T, about: str) -> T:
    """Return a dataclass field with a default and a help text."""
    return field(default=default, metadata={"about": about})


def at_least(config: Any, least: float, *names: str) -> None:
    """Raise `ConfigError` where one of the named values is smaller than `least`."""
    for name in names:
        if not getattr(config, name) >= least:
            raise ConfigError(f"{name} is {getattr(config, name)}; it must be at least {least}")


def within(config: Any, low: float, high: float, *names: str) -> None:
    """Raise `ConfigError` where one of the named values is outside low..high."""
    for name in names:
        if not low <= getattr(config, name) <= high:
            raise ConfigError(f"{name} is {getattr(config, name)}; it must be in {low}..{high}")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


def to_toml(config: Any) -> str:
    """Return a configuration, or nested dictionaries of its values, as TOML. What is nested becomes a table."""
    return "\n".join(_table(config if isinstance(config, Mapping) else asdict(config), "")) + "\n"


def _table(tree: Mapping[str, Any], path: str) -> list[str]:
    lines = [f"{_key(name)} = {_value(value)}" for name, value in tree.items() if not isinstance(value, Mapping)]
    for name, value in tree.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{path}{_key(name)}]", *_table(value, f"{path}{_key(name)}.")]
    return lines


def _key(name: str) -> str:
    """Return a key of TOML; names such as macop+ are quoted."""
    return name if name.replace("_", "").replace("-", "").isalnum() else _value(name)


def from_mapping(
    kind: type[T], values: Mapping[str, Any], where: str = "", kinds: Mapping[str, type] | None = None
) -> T:
    """Return a configuration of that kind. Missing keys have their defaults.

    `where` is the path of the values, for messages. `kinds` has the types of fields whose type depends on other fields.
    Raises `ConfigError` with a hint for unknown keys and wrong types.
    """
    return kind(**_given(kind, values, where, from_mapping, kinds))


def changed(config: T, values: Mapping[str, Any], where: str = "") -> T:
    """Return the configuration with some values changed. Raises `ConfigError` as `from_mapping` does."""

    def nested(kind: type, inner: Mapping[str, Any], inside: str) -> Any:
        return changed(getattr(config, inside.split(".")[-2]), inner, inside)

    return replace(config, **_given(type(config), values, where, nested))  # type: ignore[type-var]


def _given(
    kind: type,
    values: Mapping[str, Any],
    where: str,
    nested: Callable[..., Any],
    kinds: Mapping[str, type] | None = None,
) -> dict[str, Any]:
    types, known = get_type_hints(kind) | dict(kinds or {}), [field.name for field in fields(kind)]
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"unknown key {where + name!r}; {hint(name, known)}")
        wanted = types[name]
        if is_dataclass(wanted) and isinstance(wanted, type):
            if not isinstance(value, Mapping):
                raise ConfigError(
                    f"{where + name} is {_shown(value)}; it is a table, such as {where + name}.{fields(wanted)[0].name}"
                )
            given[name] = nested(wanted, value, f"{where}{name}.")
        else:
            given[name] = _checked(where + name, value, wanted)
    return given


@dataclass(frozen=True)
class Setting:
    """The description of one value of a configuration."""

    path: str  # dotted, such as ego.ratio
    kind: Any  # its type
    about: str


def settings(kind: type, where: str = "") -> list[Setting]:
    """Return the descriptions of all values of a kind of configuration, in order."""
    found, types = [], get_type_hints(kind)
    for own in fields(kind):
        wanted = types[own.name]
        if is_dataclass(wanted) and isinstance(wanted, type):
            found += settings(wanted, f"{where}{own.name}.")
        else:
            found.append(Setting(where + own.name, wanted, own.metadata.get("about", "")))
    return found


def as_tree(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted path as nested dictionaries."""
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        *rooms, name = path.split(".")
        room = nested
        for key in rooms:
            room = room.setdefault(key, {})
        room[name] = value
    return nested


def _checked(name: str, value: Any, wanted: Any) -> Any:
    if get_origin(wanted) is list:
        (inner,) = get_args(wanted)
        if not isinstance(value, list):
            raise ConfigError(f"{name} is {_shown(value)}; it must be a list")
        return [_checked(f"{name}[{k}]", entry, inner) for k, entry in enumerate(value)]
    if is_dataclass(wanted) and isinstance(wanted, type):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name} is {_shown(value)}; it must be a table")
        return from_mapping(wanted, value, f"{name}.")
    if get_origin(wanted) is UnionType:  # of a type and None
        return None if value is None else _checked(name, value, get_args(wanted)[0])
    if wanted is Any:
        return value
    if get_origin(wanted) in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name} is {_shown(value)}; it must be a table")
        return {key: _checked(f"{name}.{key}", entry, get_args(wanted)[1]) for key, entry in value.items()}
    if get_origin(wanted) is Literal:
        choices = get_args(wanted)
        if value not in choices:
            raise ConfigError(
                f"{name} is {_shown(value)}; {hint(str(value)[:60], [str(choice) for choice in choices])}"
            )
        return value
    if wanted is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not abs(value) <= float_info.max:
            raise ConfigError(f"{name} is {_shown(value)}; it must be a finite number")
        return float(value)
    if wanted is int and isinstance(value, int) and not abs(value) <= LARGEST:
        raise ConfigError(f"{name} is {_shown(value)}; it must be in {-LARGEST}..{LARGEST}")
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise ConfigError(f"{name} is {_shown(value)}; it must be of type {wanted.__name__}")
    return value


def _shown(value: Any) -> str:
    """Return a value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def parse(text: str) -> dict[str, Any]:
    """Return TOML as nested dictionaries. Raises `ConfigError` where it is not TOML, or nested more than `DEPTH` deep."""
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(f"it is nested too deeply; at most {DEPTH} levels are allowed") from error
    except ValueError as error:  # also of a number with thousands of digits
        raise ConfigError(f"this is not TOML: {error}") from error
    level: list[Any] = [values]
    for _ in range(DEPTH):
        inner = [value.values() if isinstance(value, dict) else value for value in level]
        level = [value for values in inner for value in values if isinstance(value, (dict, list))]
    if level:
        raise ConfigError(f"it is nested too deeply; at most {DEPTH} levels are allowed")
    return values


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file as nested dictionaries. Raises `ConfigError` with the file's name where it is not TOML."""
    with of_file(path):
        return parse(read_limited(path, LIMIT).decode("utf-8"))


@contextmanager
def of_file(path: Path | str) -> Iterator[None]:
    """Name the file in errors about what it says: inside, `ConfigError`, `ValueError` and `KeyError` become `ConfigError`."""
    try:
        yield
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{path}: {error.args[0] if isinstance(error, KeyError) else error}") from error


def differences(one: Mapping[str, Any], two: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the differences between two nested dictionaries, one line each."""
    found: list[str] = []
    for name in dict.fromkeys([*one, *two]):
        first, second = one.get(name), two.get(name)
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            found += differences(first, second, f"{path}{name}.")
        elif first != second:
            found.append(f"{path}{name} is {first!r} there and {second!r} here")
    return found


def from_toml(kind: type[T], text: str) -> T:
    """Return the configuration of that kind that `to_toml` wrote. Raises `ConfigError` as `from_mapping` does."""
    return from_mapping(kind, parse(text))
