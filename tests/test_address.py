"""Addresses of remote agents, and what the configuration may say of them."""

from __future__ import annotations

import pytest

from acp_jupyter.connection.address import RemoteSource, parse
from acp_jupyter.errors import UsageError
from acp_jupyter.services.agents import from_name, from_text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ws://127.0.0.1:9000", "ws://127.0.0.1:9000/acp"),
        ("WSS://Example.org/", "wss://example.org/"),
        ("https://example.org:443/agents/one?model=a", "https://example.org/agents/one?model=a"),
        ("http://[::1]:8080/acp", "http://[::1]:8080/acp"),
        ("http://localhost:8080/acp", "http://localhost:8080/acp"),
    ],
)
def test_an_address_is_understood(url, shown):
    spec = from_text(url, {})
    assert spec.argv == (shown,)
    assert spec.remote is not None
    assert str(spec.remote.address) == shown
    assert spec.minimal_env


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("wss://user:hunter2-secret@example.org/acp", "--token-env"),
        ("wss://example.org/acp?token=hunter2-secret", "--token-env"),
        ("wss://example.org/acp?x=1&api_key=hunter2-secret", "--token-env"),
        ("https://example.org/acp#part", "after #"),
        ("ws://exam ple.org/acp", "%XX"),
        ("wss://example.org:99999/acp", "address"),
        ("wss:///acp", "wss://example.org/acp"),
    ],
)
def test_what_does_not_belong_into_an_address_is_refused_and_not_repeated(url, hint):
    with pytest.raises(UsageError) as caught:
        from_text(url, {})
    assert hint in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["ws://example.org/acp", "http://10.0.0.7/acp", "ws://0.0.0.0/"])
def test_f59_an_address_of_another_machine_needs_tls(url):
    with pytest.raises(UsageError, match="not encrypted"):
        from_text(url, {})
    spec = from_name("lab", {"lab": {"url": url, "insecure": True}})
    assert spec.remote is not None
    assert spec.remote.insecure
    with pytest.raises(UsageError, match="no token is sent"):
        from_name("lab", {"lab": {"url": url, "insecure": True, "token_env": "LAB"}})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_needs_no_tls(host):
    assert parse(f"ws://{host}:1/acp").loopback
    assert not parse(f"ws://{host.strip('[]')[:3].replace(':', 'a')}.example.org/").loopback


def test_a_configured_agent_has_an_address_and_where_its_token_is():
    settings = {
        "url": "wss://example.org/acp",
        "credential_helper": ["pass", "show", "agent"],
        "headers": {"X-Team": "blue-team-secret"},
    }
    spec = from_name("lab", {"lab": settings})
    assert spec.name == "lab"
    assert spec.remote is not None
    assert spec.remote.credential_helper == ("pass", "show", "agent")
    assert "blue-team-secret" not in repr(spec)


@pytest.mark.parametrize(
    "more",
    [
        {"command": "agent"},
        {"token": "hunter2-secret"},
        {"token_env": ["A"]},
        {"headers": {"X": 1}},
        {"headers": {"Host": "example.org"}},
        {"headers": {"Acp-Session-Id": "x"}},
        {"headers": {"X-A": "a\r\nX-B: b"}},
        {"headers": {"X A": "a"}},
        {"credential_helper": [1]},
        {"credential_helper": ["a"], "token_env": "A"},
        {"insecure": "yes"},
        {"env_mode": "all"},
    ],
)
def test_a_configuration_that_cannot_be_is_refused(more):
    with pytest.raises(UsageError) as caught:
        from_name("lab", {"lab": {"url": "wss://example.org/acp", **more}})
    assert "hunter2" not in str(caught.value)


def test_cookies_are_no_part_of_what_makes_two_sources_equal():
    one, other = RemoteSource("wss://example.org/acp"), RemoteSource("wss://example.org/acp")
    assert one == other
    assert one.cookies is not other.cookies
