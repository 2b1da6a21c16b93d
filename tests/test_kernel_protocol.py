"""The public conformance suite for kernels, with everything in it that applies."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar
from unittest import mock

import jupyter_kernel_test as jkt

from tests.bench.kernels import OURS, write_kernel_specs
from tests.live_kernel import kernel_environment


class TestAgentKernel(jkt.KernelTests):
    kernel_name = OURS
    language_name = "acp"
    file_extension = ".md"

    code_hello_world = "%%python\nprint('hello, world')"
    code_stderr = "%%python\nimport sys\nprint('oops', file=sys.stderr)"
    completion_samples: ClassVar = [
        {"text": "%acp disco", "matches": ["disconnect"]},
        {"text": "%acp connect dem", "matches": ["demo"]},
        {"text": "/searc", "matches": ["/search"]},
        {"text": "please he", "matches": []},
    ]
    complete_code_samples: ClassVar = ["Hello", "Explain (this", "%acp", "%%python\nx = 1\n\n"]
    incomplete_code_samples: ClassVar = ["%%python\nfor i in range(3):", "%%python\nx = 1"]
    invalid_code_samples: ClassVar = ["%%python\nx = = 1\n\n"]
    code_page_something = "%acp?"
    code_generate_error = "%acp oops"
    code_execute_result: ClassVar = [
        {"code": "%%python\n6 * 7", "result": "42"},
        {"code": "%%python\n'bee'", "result": "'bee'"},
        {"code": "%%python\n3.5", "result": "3.5"},
    ]
    code_display_data: ClassVar = [
        {"code": "Hello there", "mime": "text/html"},
        {"code": "show image", "mime": "text/plain"},
        {"code": "plan A, B", "mime": "text/plain"},
    ]
    # One pattern, one text: "unique" wants a single match of what was run many times.
    code_history_pattern = "*6 ?* 7*"
    supported_history_operations = ("tail", "search")  # "range" means other sessions to IPython
    code_inspect_sample = "%acp"
    code_clear_output = "%%python\nfrom IPython.display import clear_output\nclear_output()"

    @classmethod
    def setUpClass(cls) -> None:
        cls.home = Path(tempfile.mkdtemp(prefix="acp-kernel-"))
        write_kernel_specs(cls.home)
        environment = kernel_environment(cls.home) | {"ACP_JUPYTER_AGENT": "demo"}
        cls.environment = mock.patch.dict(os.environ, environment)
        cls.environment.start()
        super().setUpClass()
        cls.kc.execute_interactive("Hello", timeout=30, output_hook=lambda _message: None)

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        cls.environment.stop()
        shutil.rmtree(cls.home, ignore_errors=True)
