"""Frozen dataclasses as configuration: written as TOML, read strictly."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from macop_aht.util import hint

T = TypeVar("T")


class ConfigError(ValueError):
    """A configuration with an unknown key or a value of the wrong type."""


def setting(default: T, about: str) -> T:
    """A field of a configuration, with what its help says."""
    return field(default=default, metadata={"about": about})


def at_least(config: Any, least: float, *names: str) -> None:
    """Raise where one of these values is smaller."""
    for name in names:
        if not getattr(config, name) >= least:
            raise ConfigError(f"{name} is {getattr(config, name)}; it must be at least {least}")


def within(config: Any, low: float, high: float, *names: str) -> None:
    """Raise where one of these values is outside."""
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
    """A configuration, or nested dictionaries of its values, as TOML; what is nested is a table."""
    return "\n".join(_table(config if isinstance(config, Mapping) else asdict(config), "")) + "\n"


def _table(tree: Mapping[str, Any], path: str) -> list[str]:
    lines = [f"{_key(name)} = {_value(value)}" for name, value in tree.items() if not isinstance(value, Mapping)]
    for name, value in tree.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{path}{_key(name)}]", *_table(value, f"{path}{_key(name)}.")]
    return lines


def _key(name: str) -> str:
    """Names such as macop+ are quoted."""
    return name if name.replace("_", "").replace("-", "").isalnum() else _value(name)


def from_mapping(
    kind: type[T], values: Mapping[str, Any], where: str = "", kinds: Mapping[str, type] | None = None
) -> T:
    """A configuration of that kind; unknown keys and wrong types fail with a hint, missing keys have their defaults.

    `kinds` are those of fields whose kind depends on others.
    """
    return kind(**_given(kind, values, where, from_mapping, kinds))


def changed(config: T, values: Mapping[str, Any], where: str = "") -> T:
    """The configuration with some values changed, checked as in `from_mapping`."""

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
                    f"{where + name} is {value!r}; it is a table, such as {where + name}.{fields(wanted)[0].name}"
                )
            given[name] = nested(wanted, value, f"{where}{name}.")
        else:
            given[name] = _checked(where + name, value, wanted)
    return given


@dataclass(frozen=True)
class Setting:
    """One value of a configuration."""

    path: str  # such as ego.ratio
    kind: Any  # its type
    about: str


def settings(kind: type, where: str = "") -> list[Setting]:
    """Every value of a kind of configuration, in order."""
    found, types = [], get_type_hints(kind)
    for own in fields(kind):
        wanted = types[own.name]
        if is_dataclass(wanted) and isinstance(wanted, type):
            found += settings(wanted, f"{where}{own.name}.")
        else:
            found.append(Setting(where + own.name, wanted, own.metadata.get("about", "")))
    return found


def as_tree(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted path as nested dictionaries."""
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
            raise ConfigError(f"{name} is {value!r}; it must be a list")
        return [_checked(f"{name}[{k}]", entry, inner) for k, entry in enumerate(value)]
    choices = get_args(wanted)  # of a Literal
    if choices:
        if value not in choices:
            raise ConfigError(f"{name} is {value!r}; {hint(str(value), [str(choice) for choice in choices])}")
        return value
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is float and isinstance(value, float) and not isfinite(value):
        raise ConfigError(f"{name} is {value}; it must be a finite number")
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise ConfigError(f"{name} is {value!r}; it must be of type {wanted.__name__}")
    return value


def parse(text: str) -> dict[str, Any]:
    """TOML as nested dictionaries."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"this is not TOML: {error}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """The same of a file, which an error names."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def differences(one: Mapping[str, Any], two: Mapping[str, Any], path: str = "") -> list[str]:
    """What differs between two nested dictionaries, in words."""
    found: list[str] = []
    for name in dict.fromkeys([*one, *two]):
        first, second = one.get(name), two.get(name)
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            found += differences(first, second, f"{path}{name}.")
        elif first != second:
            found.append(f"{path}{name} is {first!r} there and {second!r} here")
    return found


def from_toml(kind: type[T], text: str) -> T:
    """The inverse of `to_toml`."""
    return from_mapping(kind, parse(text))
