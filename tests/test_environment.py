from __future__ import annotations

import pytest

from acp_jupyter.connection.environment import (
    child_environment,
    redact,
    secret_values,
    without_tokens,
)
from acp_jupyter.errors import UsageError

HUB_TOKEN = "canary-hub-token-5d1f"
USER_KEY = "canary-user-key-77aa"

KERNEL = {
    "PATH": "/usr/bin",
    "HOME": "/home/ada",
    "LC_TIME": "de_DE.UTF-8",
    "ANTHROPIC_API_KEY": USER_KEY,
    "HTTPS_PROXY": "http://proxy.example:3128",
    "SSL_CERT_FILE": "/etc/ssl/own.pem",
    "EDITOR": "vi",
    "JPY_PARENT_PID": "4711",
    "JPY_SESSION_NAME": "/home/ada/Untitled.ipynb",
    "JPY_API_TOKEN": HUB_TOKEN,
    "JUPYTERHUB_API_TOKEN": HUB_TOKEN,
    "JUPYTERHUB_USER": "ada",
    "JUPYTER_TOKEN": "canary-server-token",
    "JUPYTER_RUNTIME_DIR": "/run/jupyter",
    "ACP_JUPYTER_PERMISSIONS": "allow",
    "PYDEVD_USE_FRAME_EVAL": "NO",
    "IPYKERNEL_CELL_NAME": "x",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "TERM": "xterm-color",
    "CLICOLOR": "1",
    "FORCE_COLOR": "1",
    "CLICOLOR_FORCE": "1",
    "PAGER": "cat",
}


def test_f56_nothing_of_jupyter_reaches_an_agent():
    child = child_environment(KERNEL)
    assert not [name for name in child if name.startswith(("JPY_", "JUPYTER", "ACP_JUPYTER_"))]
    assert "canary-hub" not in str(child)
    assert "canary-server" not in str(child)


def test_f56_the_users_own_environment_does():
    child = child_environment(KERNEL)
    for name in ("PATH", "HOME", "ANTHROPIC_API_KEY", "HTTPS_PROXY", "SSL_CERT_FILE", "PAGER"):
        assert child[name] == KERNEL[name]


@pytest.mark.parametrize(
    "value",
    [
        HUB_TOKEN,
        f"https://hub.example/?token={HUB_TOKEN}",
        "/home/ada/.local/share/jupyter/runtime/kernel-0f3c2a1b-7d9e.json",
        "/run/jupyter/jpserver-4711.json",
    ],
)
def test_f56_a_jupyter_secret_under_another_name_is_left_out(value):
    assert "COPIED" not in child_environment({**KERNEL, "COPIED": value})


@pytest.mark.parametrize("name", ["jupyter_token", "JupyterHub_Api_Token", "jpy_api_token"])
def test_f56_case_does_not_hide_a_jupyter_variable(name):
    assert name not in child_environment({name: "x"})


@pytest.mark.parametrize(
    "arguments",
    [
        {"extra": {"JUPYTER_TOKEN": "x"}},
        {"extra": {"MY_TOKEN": HUB_TOKEN}},
        {"keep": ["JUPYTERHUB_API_TOKEN"]},
        {"keep": ["JPY_API_TOKEN"], "minimal": True},
    ],
)
def test_f56_asking_for_jupyters_own_is_an_error_and_not_silently_ignored(arguments):
    with pytest.raises(UsageError, match="never given to an agent"):
        child_environment(KERNEL, **arguments)


def test_what_the_kernel_set_for_itself_stays_in_the_kernel():
    child = child_environment(KERNEL)
    for name in (
        *("MPLBACKEND", "PYDEVD_USE_FRAME_EVAL", "IPYKERNEL_CELL_NAME"),
        *("CLICOLOR", "FORCE_COLOR", "CLICOLOR_FORCE"),
    ):
        assert name not in child
    assert child["TERM"] == "xterm-256color"


def test_what_the_user_set_alike_stays():
    base = {"MPLBACKEND": "Agg", "FORCE_COLOR": "1", "TERM": "screen"}
    assert child_environment(base) == base


def test_keep_takes_a_kernels_variable_along():
    assert child_environment(KERNEL, keep=["MPLBACKEND"])["MPLBACKEND"] == KERNEL["MPLBACKEND"]


def test_a_missing_term_is_supplied():
    assert child_environment({}) == {"TERM": "xterm-256color"}


def test_extra_wins_over_the_kernels_value():
    assert child_environment(KERNEL, extra={"EDITOR": "ed", "NEW": "1"})["EDITOR"] == "ed"
    assert child_environment(KERNEL, minimal=True, extra={"NEW": "1"})["NEW"] == "1"


def test_minimal_has_the_allowlist_and_what_is_named():
    child = child_environment(KERNEL, minimal=True, keep=["ANTHROPIC_API_KEY", "ABSENT"])
    assert child == {
        "PATH": "/usr/bin",
        "HOME": "/home/ada",
        "LC_TIME": "de_DE.UTF-8",
        "ANTHROPIC_API_KEY": USER_KEY,
        "TERM": "xterm-256color",
    }


def test_the_given_mapping_is_not_changed():
    before = dict(KERNEL)
    child_environment(KERNEL, extra={"A": "1"})
    assert before == KERNEL


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("OPENAI_API_KEY", "sk-12345678", "sk-12345678"),
        ("GITHUB_TOKEN", "ghp_12345678", "ghp_12345678"),
        ("db_password", "correct horse", "correct horse"),
        ("GH_PAT", "github_pat_1", "github_pat_1"),
        ("DATABASE_URL", "postgres://ada:hunter2hunter2@db/x", "hunter2hunter2"),
        ("JUPYTER_TOKEN", "0123456789", "0123456789"),
    ],
)
def test_values_of_secret_variables_are_known(name, value, secret):
    assert secret_values({name: value}) == {secret}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MY_TOKEN", "true"),
        ("HOME", "/home/ada/long"),
        ("SSH_KEY_PATH", "/home/ada/.ssh/id"),
        ("TOKEN_FILE", "/run/secrets/token"),
        ("KEYBOARD_LAYOUT", "de-nodeadkeys"),
    ],
)
def test_other_values_are_not_secrets(name, value):
    assert secret_values({name: value}) == frozenset()


def test_f55_every_line_of_a_private_key_is_redacted():
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----"
    shown = redact("read MIIEvQIBADANBg ok", secret_values({"DEPLOY_PRIVATE_KEY": key}))
    assert shown == "read [redacted] ok"


def test_f55_a_secret_within_a_longer_one_leaves_no_rest():
    text = redact("a=canary-1234-rest b=canary-1234", ["canary-1234", "canary-1234-rest", ""])
    assert text == "a=[redacted] b=[redacted]"


def test_f56_a_kernel_that_is_started_from_here_gets_jupyters_settings_and_no_token():
    made = without_tokens({**KERNEL, "COPIED": f"x{HUB_TOKEN}"})
    assert made["JUPYTER_RUNTIME_DIR"] == "/run/jupyter"
    assert made["ANTHROPIC_API_KEY"] == USER_KEY
    assert "COPIED" not in made
    assert "canary-hub" not in str(made)
    assert "canary-server" not in str(made)
