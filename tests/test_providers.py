"""`%acp providers`: listed without secrets, set with typed headers, and gated on the capability."""

from __future__ import annotations

from typing import Any

import pytest

from acp_jupyter.protocol.providers import Provider, providers
from tests.kernel_client import KernelUnderTest

TYPED = "Bearer typed-by-the-user"


def offering(script: Any) -> Any:
    def list_them(agent: Any) -> None:
        url = "https://me:secret-in-url@models.example/v1"
        current = {"apiType": "anthropic", "baseUrl": url}
        known = {"supported": ["anthropic", "_own"]}
        agent.reply(
            {
                "providers": [
                    {"providerId": "main", "required": True, "current": current, **known},
                    {"id": "other", "required": False, **known},
                    7,
                ]
            }
        )

    def set_one(agent: Any) -> None:
        agent.reply({})

    return script(capabilities={"providers": {}}, list=list_them, set=set_one, disable=set_one)


@pytest.mark.obligation("C74")
def test_c74_providers_of_any_protocol_are_listed_without_passwords(
    kernel: KernelUnderTest, script: Any
) -> None:
    made = offering(script)
    kernel.connect(made).ok()
    text = kernel.run("%acp providers").ok().text
    assert "main: anthropic at https://me:[redacted]@models.example/v1" in text
    assert "other: disabled (speaks anthropic, _own)" in text
    assert "secret-in-url" not in text
    assert providers({"providers": [{"providerId": "x", "supported": None}]}) == [
        Provider("x", (), required=True)
    ]


def test_a_provider_is_set_with_headers_that_are_typed_and_shown_nowhere(
    kernel: KernelUnderTest, script: Any
) -> None:
    made = offering(script)
    kernel.connect(made).ok()
    command = "%acp providers set other --type _own --url http://127.0.0.1:1/v1"
    kernel.run(command).ok()
    answers = iter([TYPED, ""])
    cell = kernel.run(f"{command} --header Authorization", answer=lambda _: next(answers)).ok()
    log = kernel.run("%acp log").ok().text
    assert TYPED not in cell.text + cell.html + "".join(cell.asked) + log
    plain, secret = (message["params"] for message in made.received("providers/set"))
    assert plain == {"providerId": "other", "apiType": "_own", "baseUrl": "http://127.0.0.1:1/v1"}
    assert secret == {**plain, "headers": {"Authorization": TYPED}}
    error = kernel.run(f"{command} --header Authorization").failed("UsageError")
    assert "have to be typed" in error.traceback
    error = kernel.run("%acp providers set other --type openai --url x").failed("UsageError")
    assert "It speaks: anthropic, _own." in error.traceback
    assert len(made.received("providers/set")) == 2


def test_a_required_provider_is_never_disabled(kernel: KernelUnderTest, script: Any) -> None:
    made = offering(script)
    kernel.connect(made).ok()
    kernel.run("%acp providers disable other").ok()
    assert "is required" in kernel.run("%acp providers disable main").failed("UsageError").traceback
    sent = made.received("providers/disable")
    assert [message["params"] for message in sent] == [{"providerId": "other"}]


def test_nothing_is_asked_of_an_agent_that_does_not_advertise_providers(
    kernel: KernelUnderTest, script: Any
) -> None:
    made = script()
    kernel.connect(made).ok()
    for command in ("", "disable x", "set x --type a --url b"):
        error = kernel.run(f"%acp providers {command}").failed("UsageError")
        assert "no providers that could be set" in error.traceback
    assert "%acp providers" not in kernel.run("%acp help").ok().text
    kernel.run("%acp disconnect").ok()
    assert "%acp providers" in kernel.run("%acp help").ok().text
    assert {message["method"] for message in made.received()} == {"initialize", "session/new"}
