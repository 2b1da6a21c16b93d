from __future__ import annotations

import base64
import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import IPython
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from acp_jupyter.errors import UsageError
from acp_jupyter.host.history import NoCells
from acp_jupyter.host.mentions import PictureFolder, Resolver, path_matches, typed_path_matches
from acp_jupyter.host.values import IMAGE_LIMIT, IMAGE_SIDE, VALUE_LIMIT
from acp_jupyter.services.roots import Roots
from acp_jupyter.session.attachments import Attachment, blocks

from .bench.kernels import PLAIN, clean_environment, write_kernel_specs
from .live_kernel import LiveKernel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr today")

    __str__ = __repr__

    def __len__(self) -> int:
        raise RuntimeError("no length")


def resolver(root: Path, **namespace: Any) -> Resolver:
    return Resolver(namespace, NoCells(), str(root), Roots([str(root)]))


def one(root: Path, value: object) -> Attachment:
    (attachment,) = resolver(root, it=value).gather("@it")
    return attachment


def pixels(attachment: Attachment) -> tuple[int, int]:
    from PIL import Image

    assert attachment.kind == "image"
    assert attachment.mime == "image/png"
    with Image.open(io.BytesIO(base64.b64decode(attachment.data))) as image:
        image.load()
        size: tuple[int, int] = image.size
    return size


# -- values -----------------------------------------------------------------------------------


def test_a_data_frame_goes_as_shape_schema_summary_and_head(tmp_path: Path) -> None:
    import pandas as pd

    days = pd.date_range("2024-01-01", periods=10_000)
    frame = pd.DataFrame({"price|net": range(10_000), "city": ["Ulm", None] * 5_000}, index=days)
    item = one(tmp_path, frame)
    assert (item.kind, item.mime) == ("text", "text/markdown")
    assert item.note == "schema, 5 of 10,000 rows"
    assert item.text.startswith("it: pandas.DataFrame, 10,000 rows, 2 columns")
    assert "| price\\|net | int64 | 0 | mean 4999.5, std" in item.text
    assert "| 5,000 | unique 1, top Ulm, freq 5000 |" in item.text
    assert "| 2024-01-05 00:00:00 | 4 | Ulm |" in item.text
    assert "2024-01-06" not in item.text
    assert "Shown here: schema, 5 of 10,000 rows." in item.text


def test_a_small_frame_goes_whole_and_a_series_is_a_frame_of_one_column(tmp_path: Path) -> None:
    import pandas as pd

    item = one(tmp_path, pd.Series([1.5, 2.5], name="x"))
    assert item.note == "schema, all 2 rows"
    assert "pandas.Series, 2 rows, 1 columns" in item.text
    assert "| 1 | 2.5 |" in item.text
    assert one(tmp_path, pd.DataFrame()).note == "schema, all 0 rows"


@pytest.mark.parametrize("form", ["markdown", "csv"])
def test_frames_of_any_width_length_and_content_stay_in_bounds(tmp_path: Path, form: Any) -> None:
    import numpy as np
    import pandas as pd

    wide = pd.DataFrame(np.zeros((3, 5_000)))
    long = pd.DataFrame({"x": np.arange(1_000_000)})
    fat = pd.DataFrame({f"c{number}": ["word " * 100_000] * 3 for number in range(60)})
    doubled = pd.DataFrame([[1, 2]], columns=["a", "a"])
    levels = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")]))
    for frame in (wide, long, fat, doubled, levels):
        namespace = {"it": frame}
        root = Roots([str(tmp_path)])
        found = Resolver(namespace, NoCells(), str(tmp_path), root, tables=form).gather("@it")
        assert len(found[0].text) <= VALUE_LIMIT * 1.05
        assert "cannot be described" not in found[0].text
    assert "of 5,000 columns" in one(tmp_path, wide).note
    assert "from every 5th row" in one(tmp_path, long).text
    assert "mean 499998" in one(tmp_path, long).text


def test_a_frame_as_csv_can_be_read_back(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2], "b": ['say "x", y', "z"]})
    root = Roots([str(tmp_path)])
    found = Resolver({"it": frame}, NoCells(), str(tmp_path), root, tables="csv").gather("@it")
    assert found[0].mime == "text/csv"
    head = found[0].text.split("\n\n")[2]
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(head), index_col=0), frame)


def test_a_polars_frame_goes_like_one_of_pandas(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    item = one(tmp_path, polars.DataFrame({"a": range(100), "b": ["x", None] * 50}))
    assert item.note == "schema, 5 of 100 rows"
    assert "polars.DataFrame, 100 rows, 2 columns" in item.text
    assert "| a | Int64 | 0 | mean 49.5" in item.text
    assert "| b | String | 50 |" in item.text
    assert one(tmp_path, polars.Series("s", [1, 2])).note == "schema, all 2 rows"


def test_an_array_goes_as_shape_summary_and_first_values(tmp_path: Path) -> None:
    import numpy as np

    item = one(tmp_path, np.array([[1.0, np.nan], [3.0, 4.0]]))
    assert "shape (2, 2), dtype float64" in item.text
    assert "1 NaN, min 1.0, max 4.0, mean 2.66667" in item.text
    assert "[[1.0, nan], [3.0, 4.0]]" in item.text
    item = one(tmp_path, np.arange(10_000))
    assert item.note == "shape, summary, 40 of 10,000 values"
    assert "max 9999" in item.text
    assert len(item.text) < 500
    for array in (np.array([]), np.array(3), np.array(["a"]), np.array([{}], dtype=object)):
        assert "numpy.ndarray" in one(tmp_path, array).text


def test_a_figure_goes_as_a_picture_of_bounded_size_and_is_not_changed(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 3), dpi=100)
    axes = figure.add_subplot()
    axes.plot([1, 2])
    assert pixels(one(tmp_path, figure)) == (400, 300)
    assert pixels(one(tmp_path, axes)) == (400, 300)
    figure.set_size_inches(40, 4)
    canvas = figure.canvas
    size = pixels(one(tmp_path, figure))
    assert max(size) <= IMAGE_SIDE + 1
    assert (figure.dpi, figure.canvas) == (100, canvas)


def test_a_figure_that_cannot_be_drawn_is_said_not_raised(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    figure.suptitle(r"$\nonsense{$")
    item = one(tmp_path, figure)
    assert item.kind == "text"
    assert "cannot be described: ⟨raised" in item.text


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "I;16", "F", "YCbCr"])
def test_a_picture_of_any_mode_goes_as_png(tmp_path: Path, mode: str) -> None:
    from PIL import Image

    assert pixels(one(tmp_path, Image.new(mode, (30, 20)))) == (30, 20)


def test_a_large_picture_is_scaled_and_says_so_and_stays_as_it_was(tmp_path: Path) -> None:
    from PIL import Image

    image = Image.effect_noise((3_000, 2_000), 100).convert("RGB")
    item = one(tmp_path, image)
    width, height = pixels(item)
    assert max(width, height) <= IMAGE_SIDE
    assert item.note == f"{width} x {height} pixels of 3000 x 2000"
    assert item.bytes is not None
    assert item.bytes <= IMAGE_LIMIT
    assert image.size == (3_000, 2_000)


def test_what_shows_itself_as_png_goes_as_that(tmp_path: Path) -> None:
    class Drawn:
        def _repr_png_(self) -> bytes:
            return PNG

    class Undrawn:
        _repr_png_ = None

        def __repr__(self) -> str:
            return "undrawn"

    assert one(tmp_path, Drawn()).kind == "image"
    assert "undrawn" in one(tmp_path, Undrawn()).text


def test_an_object_whose_repr_raises_is_said_and_sent(tmp_path: Path) -> None:
    item = one(tmp_path, Broken())
    assert item.note == "its repr raised RuntimeError: no repr today"
    assert "⟨raised RuntimeError: no repr today⟩" in item.text
    nested = one(tmp_path, {"a": [1, Broken()]})
    assert "{'a': [1, ⟨raised RuntimeError: no repr today⟩]}" in nested.text
    import pandas as pd

    frame = one(tmp_path, pd.DataFrame({"x": [Broken()]}))
    assert "⟨raised RuntimeError: no repr today⟩" in frame.text


def test_a_value_may_be_any_size_and_is_cut_and_said(tmp_path: Path) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    nested: Any = "x" * 1_000
    for _ in range(7):
        nested = [nested] * 300  # 300 ** 7 strings, if one wrote them all
    for value in (
        list(range(10**6)),
        nested,
        cycle,
        b"x" * 10**7,
        dict.fromkeys(range(10**4), "y" * 99),
    ):
        item = one(tmp_path, value)
        assert len(item.text) <= VALUE_LIMIT * 1.1
        assert item.note == "repr, shortened"
    text = one(tmp_path, "word " * 10_000)
    assert text.note == "20,000 of 50,000 characters"
    assert "characters left out" in text.text
    assert len(text.text) < VALUE_LIMIT * 1.1


def test_plain_values_go_whole(tmp_path: Path) -> None:
    assert (
        one(tmp_path, {"a": (1,), "b": {2}}).text == "it: dict of length 2\n\n{'a': (1,), 'b': {2}}"
    )
    assert one(tmp_path, "line\nline").text == "line\nline"
    assert one(tmp_path, None).text == "it: NoneType\n\nNone"
    assert one(tmp_path, "half \ud800").text == "half ?"


def test_functions_and_classes_go_as_their_code(tmp_path: Path) -> None:
    item = one(tmp_path, resolver)
    assert item.mime == "text/x-python"
    assert item.text.startswith("def resolver(root: Path")
    assert one(tmp_path, len).text.endswith("<built-in function len>")


def test_an_exception_goes_as_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        str(Broken())
    item = one(tmp_path, caught.value)
    assert "RuntimeError: no repr today" in item.text
    assert "Traceback (most recent call last)" in item.text


# -- words ------------------------------------------------------------------------------------


def test_a_word_that_names_nothing_stays_a_word(tmp_path: Path) -> None:
    found = resolver(tmp_path, df=1).gather("@channel @app.route @example.com @fixture df")
    assert found == []


def test_a_word_that_goes_on_after_a_variable_stands_for_it(tmp_path: Path) -> None:
    known = resolver(tmp_path, df=1, d=2)
    for text in ("@df.columns", "@df-based", "请看@df的数据", "@df's"):
        assert [item.name for item in known.gather(text)] == ["df"]
    assert known.gather("@dfs @df_x") == []


@pytest.mark.parametrize("text", ["@dat.csv", "@src/main.py", '@"no such"', "@cell:1", "@cell:x"])
def test_what_can_only_be_meant_raises_where_it_is_missing(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        resolver(tmp_path).gather(text)


def test_the_nearest_names_are_offered_for_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "data.csv").touch()
    (tmp_path / "src/main.py").touch()
    known = resolver(tmp_path, prices=1)
    for missing, near in (
        ("@dat.csv", "Nearest: @data.csv."),
        ("@src/mian.py", "Nearest: @src/main.py."),
    ):
        with pytest.raises(UsageError) as caught:
            known.gather(missing)
        assert caught.value.remedy == near
    with pytest.raises(UsageError, match="no variable or file 'price'") as caught:
        known.attach("price")
    assert caught.value.remedy == "Nearest: @prices."


def test_each_thing_is_sent_once_in_the_order_of_the_prompt(tmp_path: Path) -> None:
    value = [1]
    found = resolver(tmp_path, a=value, b=2).gather("@b then @a, @b", ["a", value, "@b"])
    assert [item.name for item in found] == ["b", "a"]


def test_values_are_attached_by_themselves_by_name_and_by_path(tmp_path: Path) -> None:
    (tmp_path / "x y.txt").write_text("text")
    known = resolver(tmp_path, frame=[1, 2])
    assert known.attach([3])[0].name == "value"
    assert known.attach([3], "mine")[0].name == "mine"
    assert known.attach(tmp_path / "x y.txt")[0].text == "text"
    assert known.attach('@"x y.txt"')[0].text == "text"
    assert known.attach("frame") == known.gather("@frame")


# -- files ------------------------------------------------------------------------------------


def test_files_go_as_text_picture_or_link_by_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "no_suffix").write_text("plain")
    (tmp_path / "wrong.txt").write_bytes(PNG)
    (tmp_path / "data.bin").write_bytes(b"\0\xff" * 10)
    (tmp_path / "big.csv").write_text("1,2\n" * 100_000)
    (tmp_path / "säx.wav").write_bytes(b"RIFF\0\0\0\0WAVEfmt ")
    (tmp_path / "folder").mkdir()
    found = resolver(tmp_path).gather(
        "@a.py @no_suffix @wrong.txt @data.bin @big.csv @säx.wav @folder/ @./a.py"
    )
    assert [(item.kind, item.mime) for item in found] == [
        ("resource", "text/x-python"),
        ("resource", "text/plain"),
        ("image", "image/png"),
        ("link", "application/octet-stream"),
        ("link", "text/csv"),
        ("audio", "audio/wav"),
        ("link", ""),
        ("resource", "text/x-python"),
    ]
    assert found[0].text == "x = 1\n"
    assert (found[4].size, found[4].note) == (
        400_000,
        "as a link, because it is larger than 200.0 kB",
    )
    for item in found:
        assert Path(unquote(urlparse(item.uri).path)).exists()


def test_a_variable_goes_before_a_file_and_a_quoted_name_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("file")
    known = resolver(tmp_path, data="variable")
    assert [item.text for item in known.gather('@data @"data"')] == ["variable", "file"]


def test_files_outside_the_roots_are_not_sent(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "dir").symlink_to(tmp_path)
    for text in ("@../secret.txt", f"@{tmp_path}/secret.txt", "@link.txt", "@dir/secret.txt"):
        with pytest.raises(UsageError, match="cannot be sent"):
            resolver(root).gather(text)


def test_protected_files_are_named_and_not_sent(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=x")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("x")
    for name, reason in ((".env", "environment files hold secrets"), (".git/config", "git runs")):
        with pytest.raises(UsageError, match=rf"^{name} is protected \({reason}"):
            resolver(tmp_path).gather(f"@{name}")


def test_a_device_or_pipe_neither_blocks_nor_is_sent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UsageError, match="regular file"):
        resolver(tmp_path).gather("@pipe.txt")


def test_paths_are_offered_for_completion(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "s p.txt").touch()
    cwd = str(tmp_path)
    assert path_matches(cwd, "") == ["s p.txt", "src/"]
    assert path_matches(cwd, "src/") == ["src/a.py"]
    assert path_matches(cwd, ".") == [".hidden"]
    assert path_matches(cwd, "nowhere/") == []
    assert typed_path_matches(cwd, 'read @"s') == ["s p.txt", "src/"]
    assert typed_path_matches(cwd, "read s") == []


# -- agents that take no pictures -------------------------------------------------------------


def test_a_picture_becomes_a_private_file_for_an_agent_that_takes_none(tmp_path: Path) -> None:
    picture = Attachment("fig", "image", data=base64.b64encode(PNG).decode(), mime="image/png")
    text = Attachment("x", "text", text="x", uri="notebook:///x")
    folder = PictureFolder()
    assert folder.place([picture, text], {"image": True}) == [picture, text]
    placed = folder.place([picture, text], {})
    (_, link) = blocks("", placed, {})[::-1]
    assert link["type"] == "resource_link"
    assert (link["name"], link["mimeType"]) == ("fig", "image/png")
    path = Path(unquote(urlparse(link["uri"]).path))
    assert path.read_bytes() == PNG
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    folder.close()
    assert not path.parent.exists()
    folder.close()


# -- the cells of a real kernel ---------------------------------------------------------------

PRELUDE = """
import json, os
from acp_jupyter.errors import UsageError
from acp_jupyter.host.history import ShellCells
from acp_jupyter.host.mentions import Resolver
from acp_jupyter.services.roots import Roots
def show(text):
    known = Resolver(globals(), ShellCells(get_ipython()), os.getcwd(), Roots([os.getcwd()]))
    try:
        found = [[a.name, a.kind, a.text, a.note] for a in known.gather(text)]
    except UsageError as error:
        found = str(error)
    from IPython.display import publish_display_data
    publish_display_data({"application/json": json.dumps(found), "text/plain": ""})
"""


@pytest.fixture(scope="module")
def python_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    home = tmp_path_factory.mktemp("python")
    specs = KernelSpecManager(kernel_dirs=[str(write_kernel_specs(home))])
    manager = KernelManager(kernel_name=PLAIN, kernel_spec_manager=specs)
    manager.connection_file = str(home / "connection.json")
    manager.start_kernel(env=clean_environment(home), cwd=str(home))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=40)
        kernel = LiveKernel(manager, client, home)
        kernel.run(PRELUDE).expect_ok()
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def mentioned(kernel: LiveKernel, text: str) -> Any:
    cell = kernel.run(f"show({text!r})").expect_ok()
    return json.loads(cell.contents("display_data")[0]["data"]["application/json"])


def number_of_next(kernel: LiveKernel) -> int:
    count: int = kernel.run("pass").expect_ok().reply["execution_count"]
    return count + 1


def test_a_cell_goes_with_its_source_and_output(python_kernel: LiveKernel) -> None:
    number = number_of_next(python_kernel)
    python_kernel.run("%time x = 6 * 7\nprint('printed')\nx").expect_ok()
    for mention in ("@cell:-1", f"@cell:{number}"):
        ((name, kind, text, _),) = mentioned(python_kernel, mention)
        assert (name, kind) == (f"cell:{number}", "text")
        assert f"Cell {number}:\n```python\n%time x = 6 * 7\nprint('printed')\nx\n```" in text
        assert "42" in text.split("Output:")[1]


@pytest.mark.skipif(IPython.version_info < (9,), reason="remembered since IPython 9")
def test_a_cell_goes_with_what_it_printed_raised_and_showed(python_kernel: LiveKernel) -> None:
    code = "import sys\nprint('out')\nprint('\\x1b[31merr', file=sys.stderr)\n1 / 0"
    python_kernel.run(code).expect_error("ZeroDivisionError")
    ((_, _, text, _),) = mentioned(python_kernel, "@cell:-1")
    assert "Output:\n```\nout\nerr\nZeroDivisionError: division by zero\n```" in text
    python_kernel.run("from PIL import Image\nImage.new('RGB', (2, 2))").expect_ok()
    number = number_of_next(python_kernel) - 2
    _, (name, kind, _, _) = mentioned(python_kernel, f"@cell:{number}")
    assert (name, kind) == (f"cell:{number} picture 1", "image")


def test_a_cell_that_is_not_there_is_named_with_those_that_are(python_kernel: LiveKernel) -> None:
    here = number_of_next(python_kernel)
    said = mentioned(python_kernel, f"@cell:{here}")  # the one that runs
    assert f"there is no cell {here}; there are cells 1 to {here - 1}" in said
    assert "there is no cell 0;" in mentioned(python_kernel, "@cell:0")
    assert "there is no cell -99999;" in mentioned(python_kernel, "@cell:-99999")


def test_the_error_goes_with_the_code_of_its_cells(python_kernel: LiveKernel) -> None:
    first = number_of_next(python_kernel)
    python_kernel.run("def divide(a, b):\n    # by the second\n    return a / b").expect_ok()
    python_kernel.run("numbers = [1, 0]\ndivide(*numbers)").expect_error("ZeroDivisionError")
    ((name, _, text, _),) = mentioned(python_kernel, "Why @error?")
    assert name == "error"
    assert f"Code of cell {first}:\n\ndef divide(a, b):\n    # by the second" in text
    assert f"Code of cell {first + 1}:\n\nnumbers = [1, 0]\ndivide(*numbers)" in text
    assert text.endswith("ZeroDivisionError: division by zero")
    assert f"In cell {first + 1}, line 2" in text
    assert "interactiveshell.py" not in text


def test_a_syntax_error_goes_with_the_code_of_its_cell(python_kernel: LiveKernel) -> None:
    number = number_of_next(python_kernel)
    python_kernel.run("x = (1,\ny = 2").expect_error("SyntaxError")
    ((_, _, text, _),) = mentioned(python_kernel, "@error")
    assert f"Code of cell {number}:\n\nx = (1,\ny = 2" in text
    assert "SyntaxError" in text.splitlines()[-1]
    assert "interactiveshell.py" not in text


def test_the_notebook_goes_as_its_cells_the_latest_if_there_is_much(
    python_kernel: LiveKernel,
) -> None:
    python_kernel.run("'first marker'").expect_ok()
    ((name, kind, text, note),) = mentioned(python_kernel, "@notebook")
    assert (name, kind) == ("notebook", "text")
    assert note.startswith("cells 1 to ")
    assert "def show(text):" in text
    assert "Output:\n```\n'first marker'\n```" in text
    for number in range(4):
        python_kernel.run(f"'{number}'  # {'x' * 18_000}").expect_ok()
    ((_, _, text, note),) = mentioned(python_kernel, "@notebook")
    assert len(text) < 62_000
    assert ", not cells 1 to " in note
    assert note in text
    assert "'3'  # xxx" in text
    assert "def show(text):" not in text


# -- imports ----------------------------------------------------------------------------------


def test_no_data_library_is_imported_for_mentions() -> None:
    code = (
        "import importlib, pkgutil, sys, acp_jupyter\n"
        "for module in pkgutil.walk_packages(acp_jupyter.__path__, 'acp_jupyter.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "from acp_jupyter.host.history import NoCells\n"
        "from acp_jupyter.host.mentions import Resolver\n"
        "from acp_jupyter.services.roots import Roots\n"
        "known = Resolver({'a': [1], 'e': ValueError()}, NoCells(), '/', Roots(['/']))\n"
        "assert len(known.gather('@a @e @word')) == 2\n"
        "print(sorted({'pandas', 'polars', 'numpy', 'matplotlib', 'PIL'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
