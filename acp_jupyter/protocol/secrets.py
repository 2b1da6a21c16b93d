"""Secrets taken out of text and of JSON: the one place that knows their shapes.

Replaced are: values that the caller knows to be secret, tokens by the shapes that their makers gave
them, private keys, passwords in web addresses, and values that are assigned to a name like
``…TOKEN`` or ``password``. What it does is the same when it is done again. Shapes catch what they
know: a password in a sentence has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

REDACTED: Final = "[redacted]"

KEY: Final = "private keys"
TOKEN: Final = "tokens"  # noqa: S105 - the name of a kind
PASSWORD: Final = "passwords"  # noqa: S105
VARIABLE: Final = "values of environment variables"

_NAMED: Final = (
    r"(?:TOKEN(?!S)|SECRET|PASSW(?:OR)?D|PASSPHRASE|API[_-]?KEY|ACCESS[_-]?KEY|PRIVATE[_-]?KEY"
    r"|CREDENTIALS?)"
)
_NOT_YET: Final = r"(?!\[redacted\])"
_PATTERNS: Final = [
    (
        KEY,
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
            r"(?:.{0,8000}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
            r"|(?:[A-Za-z0-9+/=\s]|\\n){0,8000})",
            re.DOTALL,
        ),
    ),
    (
        TOKEN,
        re.compile(
            r"(?<![A-Za-z0-9])(?:sk-[\w-]{16,}|[spr]k_(?:live|test)_\w{10,}|gh[pousr]_\w{20,}"
            r"|github_pat_\w{20,}|glpat-[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[a-z]-[\w-]{10,}"
            r"|xapp-[\w-]{10,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|hf_\w{20,}|npm_\w{30,}"
            r"|pypi-[\w-]{40,}|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
        ),
    ),
    (TOKEN, re.compile(r"(?i)(?<=bearer )\s*(?=\S{0,200}\d)[\w.~+/=-]{12,}")),
    (
        TOKEN,
        re.compile(
            r"(?i)authorization\\*[\"']?\s{0,3}[:=]\s{0,3}\\*[\"']?(?:(?:basic|bearer|token)\s+)?"
            rf"{_NOT_YET}(?!(?:basic|bearer|token)\s)(?P<value>[\w.~+/=-]{{8,}})"
        ),
    ),
    (PASSWORD, re.compile(rf"://[^/@\s:\"']{{0,200}}:{_NOT_YET}(?P<value>[^/@\s\"']{{1,200}})@")),
    (  # NAME_TOKEN=value, as in a shell or an environment file
        PASSWORD,
        re.compile(
            rf"(?:{_NAMED}|_KEY|_PAT|_PWD|_PASS)[A-Z0-9_]{{0,30}}\s{{0,2}}[=:]\s{{0,2}}\\*[\"']?"
            rf"{_NOT_YET}(?P<value>(?![$({{<]|os\.)[^\s\"'<>;,&\\]{{4,}})"
        ),
    ),
    (  # password = "value", "api_key": "value"
        PASSWORD,
        re.compile(
            rf"(?i){_NAMED}[\w-]{{0,30}}\\*[\"']?\s{{0,3}}[:=]\s{{0,3}}"
            rf"\\*(?P<quote>[\"']){_NOT_YET}(?P<value>[^\"'\n\\]{{4,200}})(?=\\*(?P=quote))"
        ),
    ),
    (  # password: value4, token=value4, --password value4
        PASSWORD,
        re.compile(
            rf"(?i){_NAMED}[\w-]{{0,30}}(?:\s{{0,3}}[:=]\s{{0,3}}|(?<=\w) )"
            rf"{_NOT_YET}(?P<value>(?=[^\s\"'<>;,&()]{{0,60}}\d)[^\s\"'<>;,&()\[\]{{}}\\]{{6,}})"
        ),
    ),
]


class Redactor:
    """Replaces secrets, and remembers what it found, by kind.

    Args:
        values: what is secret whatever its shape.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: list[str] = []
        self.found: dict[str, set[str]] = {}
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Further values that are secret whatever their shape."""
        # Longest first: a secret that contains another one must not leave its rest behind.
        self._values = sorted({*self._values, *filter(None, values)}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Text without what was to be removed."""
        for value in self._values:
            if value in text:
                self.note(VARIABLE, value)
                text = text.replace(value, REDACTED)
        for kind, pattern in _PATTERNS:
            text = pattern.sub(lambda match, kind=kind: self._secret(kind, match), text)  # type: ignore[misc]
        return text

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """Texts that are read one after the other: a secret may be cut between two of them.

        Where one is, the first text becomes all of them together, and the others are empty.
        """
        apart = [self.text(text) for text in texts]
        whole = self.text("".join(texts))
        if "".join(apart) == whole:
            return apart
        return [whole, *("" for _ in texts[1:])]

    def value(self, value: Any) -> Any:
        """Any value of JSON."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(str(name)): self._member(name, item) for name, item in value.items()}
        return value

    def note(self, kind: str, value: str) -> None:
        """Count what was found."""
        self.found.setdefault(kind, set()).add(value)

    def _member(self, name: object, value: Any) -> Any:
        """A member whose name says that its value is a secret."""
        if not isinstance(value, str):
            return self.value(value)
        prefix = f"{name}={chr(34)}"
        whole = self.text(f"{prefix}{value}{chr(34)}")
        if whole.startswith(prefix) and whole.endswith(chr(34)):
            return whole[len(prefix) : -1]
        return self.text(value)

    def _secret(self, kind: str, match: re.Match[str]) -> str:
        if "value" not in match.re.groupindex:
            self.note(kind, match[0])
            return REDACTED
        self.note(kind, match["value"])
        start, end = match.start("value") - match.start(), match.end("value") - match.start()
        return f"{match[0][:start]}{REDACTED}{match[0][end:]}"
