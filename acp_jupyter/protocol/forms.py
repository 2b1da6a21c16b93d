"""The fields of a form: what each takes, what is wrong with a value, and the answer. Pure.

Values are checked here as they are given, before anything is sent (C53); the answer conforms to
the form's schema (C55). A field that asks for a secret is told by `asks_for_secret`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from math import isfinite
from typing import Any, Final, Literal

import msgspec

JSON = Any
Dict = dict[str, Any]
Kind = Literal["text", "number", "integer", "boolean", "choice", "choices", "unknown"]

PATTERN_COST: Final = 5_000_000
"""Steps that matching a value against the agent's pattern may take at worst: 0.2 s."""


class Choice(msgspec.Struct, frozen=True):
    """One of the values that a field can have; the title is the value where there is none."""

    value: str
    title: str
    description: str = ""


class Field(msgspec.Struct, frozen=True):
    """One field of a form.

    Attributes:
        name: key of its value in the answer.
        kind: "choice" and "choices" are one and any number of ``choices``; "unknown" is a type
            that this client cannot show.
        default: of the field's type, or ``None``.
        format: email, uri, date or date-time; empty for any text.
        pattern: a regular expression of the agent's; empty if there is none.
        minimum, maximum: of the number, of the text's length, or of how many are chosen.
        secret: what is typed is not shown; only the client's own forms have such fields.
    """

    name: str
    kind: Kind
    title: str
    description: str = ""
    required: bool = False
    default: JSON = None
    choices: tuple[Choice, ...] = ()
    format: str = ""
    pattern: str = ""
    minimum: int | float | None = None
    maximum: int | float | None = None
    secret: bool = False


# -- answering ----------------------------------------------------------------------------------


def validate(fields: Sequence[Field], values: Mapping[str, JSON]) -> dict[str, str]:
    """What is wrong with the values of a form, by field; empty if nothing is (C53).

    Args:
        fields: of the form.
        values: by field: text (of a number, too), bool, the value chosen or a list of them;
            ``None`` or an empty text is no value.
    """
    found = {}
    for field in fields:
        problem = _problem(field, values.get(field.name))
        if problem:
            found[field.name] = problem
    return found


def content(fields: Sequence[Field], values: Mapping[str, JSON]) -> Dict:
    """The answer that conforms to the form's schema (C55), of values that `validate` passed.

    What is optional and was left empty is left out.
    """
    given = {field.name: _value(field, values.get(field.name)) for field in fields}
    return {name: value for name, value in given.items() if value is not None}


def _value(field: Field, value: JSON) -> JSON:
    """A value as the wire has it; ``None`` if there is none."""
    if value is None or value == "" or field.kind == "unknown":
        return None
    if field.kind in ("integer", "number") and type(value) is str:
        return _number(value, field.kind)
    if field.kind == "choices":
        return list(value) if value or field.required else None
    return value


def _number(text: str, kind: Kind) -> int | float | None:
    text = text.strip().replace("_", "")
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        return int(text)
    if kind == "integer" or not re.fullmatch(r"[+-]?[0-9.]{1,40}([eE][+-]?[0-9]{1,3})?", text):
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _problem(field: Field, value: JSON) -> str:
    if field.kind == "unknown":
        return ""
    given = value is not None and value != ""
    if field.kind == "choices":
        return _chosen_problem(field, value or [])
    if not given:
        return "A value is needed." if field.required else ""
    match field.kind:
        case "text":
            return _text_problem(field, value)
        case "number" | "integer":
            return _number_problem(field, _value(field, value))
        case "choice":
            return "" if _is_choice(field, value) else "Choose one of the list."
        case "boolean":
            return "" if type(value) is bool else "Answer yes or no."


def _is_choice(field: Field, value: JSON) -> bool:
    return any(value == choice.value for choice in field.choices)


def _chosen_problem(field: Field, values: JSON) -> str:
    if type(values) is not list or not all(_is_choice(field, value) for value in values):
        return "Choose from the list."
    if not values and not field.required:
        return ""
    if field.minimum is not None and len(values) < field.minimum:
        return f"Choose at least {field.minimum}."
    if field.maximum is not None and len(values) > field.maximum:
        return f"Choose at most {field.maximum}."
    return ""


def _number_problem(field: Field, value: JSON) -> str:
    if type(value) is int and -(2**63) <= value < 2**63:
        pass
    elif type(value) is not float or field.kind == "integer":
        return "A whole number is needed." if field.kind == "integer" else "A number is needed."
    if field.minimum is not None and value < field.minimum:
        return f"It must be at least {field.minimum}."
    if field.maximum is not None and value > field.maximum:
        return f"It must be at most {field.maximum}."
    return ""


def _text_problem(field: Field, value: JSON) -> str:
    if type(value) is not str:
        return "Text is needed."
    if field.minimum is not None and len(value) < field.minimum:
        return f"It must have at least {field.minimum} characters."
    if field.maximum is not None and len(value) > field.maximum:
        return f"It must have at most {field.maximum} characters."
    if field.format and not FORMATS[field.format][1](value):
        return f"It must be {FORMATS[field.format][0]}."
    if field.pattern and _matches(field.pattern, value) is False:
        return f"It must match the pattern {field.pattern[:200]}"
    return ""


def _matches(pattern: str, value: str) -> bool | None:
    """Whether a value has what the agent's pattern asks for; ``None`` if that is not tried.

    A pattern can be made to take for ever, so only those are tried of which the worst case is
    known to be short: each repetition, option and alternative counts as a loop over the value.
    """
    loops = sum(pattern.count(char) for char in "*+?{|") - pattern.count("(?")
    nested = re.search(r"\)[*+{]|\(\?(?![:=!])|\\[1-9]", pattern)
    if nested or (len(value) + 2) ** (loops + 1) * max(1, len(pattern)) > PATTERN_COST:
        return None
    try:
        return re.search(pattern, value) is not None
    except (re.error, OverflowError, RecursionError):
        return None  # JavaScript's expressions are not all Python's


def _is_email(text: str) -> bool:
    return re.fullmatch(r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)*", text) is not None


def _is_uri(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"]+", text) is not None


def _is_date(text: str) -> bool:
    try:
        return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return re.match(r"\d{4}-\d\d-\d\d[Tt ]", text) is not None and moment.tzinfo is not None


FORMATS: Final = {
    "email": ("an email address", _is_email),
    "uri": ("an address with its scheme, as in https://example.org/", _is_uri),
    "date": ("a date, as in 2026-01-31", _is_date),
    "date-time": ("a time with its zone, as in 2026-01-31T12:00:00Z", _is_date_time),
}


# -- for people ---------------------------------------------------------------------------------


def hint(field: Field) -> str:
    """What a field takes, in our words."""
    low, high = field.minimum, field.maximum
    match field.kind:
        case "text":
            what = FORMATS[field.format][0] if field.format else "text"
            return what + _between(low, high, " of {} characters")
        case "number":
            return "a number" + _between(low, high, " {}")
        case "integer":
            return "a whole number" + _between(low, high, " {}")
        case "boolean":
            return "yes or no"
        case "choice":
            return "one of the list"
        case "choices":
            return "any of the list" + _between(low, high, ", {}")
        case "unknown":
            return "of a type that this client does not know: it is left out"


def _between(low: int | float | None, high: int | float | None, words: str) -> str:
    if low is None and high is None:
        return ""
    if low is None:
        return words.format(f"up to {high}")
    if high is None:
        return words.format(f"{low} or more")
    return words.format(f"{low} to {high}")


# -- secrets ------------------------------------------------------------------------------------

_SECRET = re.compile(
    r"\b(passw(or)?ds?|passphrases?|passcodes?|pass phrase|pwd|secrets?|credentials?|pin$"
    r"|pin (code|number)"
    r"|(api|access|private|secret|signing|encryption|ssh) ?keys?|apikeys?|cvv|cvc|otp"
    r"|(one|single) time (code|password)|(access|auth|authentication|bearer|refresh|session|api"
    r"|security|github|gitlab|personal access|login) ?tokens?)\b"
)
_NAMED_TOKEN = re.compile(r"(?<!\bmax )(?<!\bper )\btoken$")
STRONG_SECRET = re.compile(
    r"\b(passwords?|passphrases?|passcodes?|api ?keys?|private keys?|secret keys?"
    r"|(access|auth|bearer|refresh|api) ?tokens?|credentials)\b"
)
_SECRET_VALUE = re.compile(
    r"(sk-|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abpr]-|AKIA|ASIA|AIza|hf_|eyJ)[\w-]{12,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
)


def asks_for_secret(field: Field) -> bool:
    """Whether a field that is typed into asks for a password, a token or the like (F50)."""
    if field.kind not in ("text", "number", "integer", "unknown"):
        return False
    if any(_NAMED_TOKEN.search(plain_words(text)) for text in (field.name, field.title)):
        return True
    texts = (field.name, field.title, field.description)
    return any(_SECRET.search(plain_words(text)) for text in texts)


def looks_secret(value: JSON) -> bool:
    """Whether a value has the form of a well-known kind of key or token: it is not shown."""
    return type(value) is str and _SECRET_VALUE.search(value) is not None


def plain_words(text: str) -> str:
    """Words in lower case: ``userPassword``, ``user_password`` and full-width letters alike."""
    text = unicodedata.normalize("NFKC", text)
    text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return re.sub(r"[\W_]+", " ", text).strip().lower()
