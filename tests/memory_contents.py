"""A contents manager that keeps its files in memory: nothing of them is on any disk.

A server has it by the setting ``ServerApp.contents_manager_class``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import nbformat
from jupyter_server.services.contents.checkpoints import Checkpoints
from jupyter_server.services.contents.manager import ContentsManager
from tornado.web import HTTPError

START = datetime(2024, 1, 1, tzinfo=UTC)


def note_save(model: dict[str, Any], os_path: str, contents_manager: Any) -> None:
    """A hook that notes beside a file that the server has saved it."""
    with open(f"{os_path}.saved", "a") as file:
        file.write(model["type"] + "\n")


class NoCheckpoints(Checkpoints):
    """Keeps none."""

    def create_checkpoint(self, contents_mgr: Any, path: str) -> dict[str, Any]:
        return {"id": "none", "last_modified": START}

    def list_checkpoints(self, path: str) -> list[dict[str, Any]]:
        return []

    def rename_checkpoint(self, checkpoint_id: str, old_path: str, new_path: str) -> None:
        pass

    def delete_checkpoint(self, checkpoint_id: str, path: str) -> None:
        pass


class MemoryContents(ContentsManager):
    """Files and directories in a dict, by their path."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._models: dict[str, dict[str, Any]] = {"": self._made("", "directory")}

    def _checkpoints_class_default(self) -> type[Checkpoints]:
        return NoCheckpoints

    def _made(self, path: str, kind: str, **fields: Any) -> dict[str, Any]:
        return {
            "name": path.rpartition("/")[2],
            "path": path,
            "type": kind,
            "created": START,
            "last_modified": datetime.now(UTC),
            "writable": True,
            "mimetype": None,
            "format": None,
            "content": None,
            "size": None,
            **fields,
        }

    def dir_exists(self, path: str) -> bool:
        return self._models.get(path.strip("/"), {}).get("type") == "directory"

    def file_exists(self, path: str) -> bool:
        return self._models.get(path.strip("/"), {}).get("type") in ("file", "notebook")

    def is_hidden(self, path: str) -> bool:
        return any(part.startswith(".") for part in path.split("/"))

    def get(
        self,
        path: str,
        content: bool = True,
        type: str | None = None,  # noqa: A002  # the server calls it by these names
        format: str | None = None,  # noqa: A002
        require_hash: bool = False,
    ) -> dict[str, Any]:
        path = path.strip("/")
        model = self._models.get(path)
        if model is None:
            raise HTTPError(404, f"no such file: {path}")
        if type is not None and type != model["type"]:
            raise HTTPError(400, f"{path} is no {type}")
        model = dict(model)
        if not content:
            return model | {"content": None, "format": None}
        if model["type"] == "directory":
            inside = [
                self.get(name, content=False)
                for name in self._models
                if name and name.rpartition("/")[0] == path
            ]
            return model | {"content": inside, "format": "json"}
        if model["type"] == "notebook":
            notebook = nbformat.from_dict(model["content"])
            self.mark_trusted_cells(notebook, path)
            model["content"] = notebook
        return model

    def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        path = path.strip("/")
        if not self.dir_exists(path.rpartition("/")[0]):
            raise HTTPError(500, "no such directory")
        kind: str = model["type"]
        content: Any = model.get("content")
        if kind == "notebook":
            notebook = nbformat.from_dict(content)
            self.check_and_sign(notebook, path)
            size = len(nbformat.writes(notebook))
            fields = {"content": content, "format": "json", "size": size}
        elif kind == "file":
            size = len(content.encode())
            fields = {"content": content, "format": model["format"], "size": size}
        else:
            fields = {}
        self._models[path] = self._made(path, kind, **fields)
        return self.get(path, content=False)

    def delete_file(self, path: str) -> None:
        del self._models[path.strip("/")]

    def rename_file(self, old_path: str, new_path: str) -> None:
        old, new = old_path.strip("/"), new_path.strip("/")
        model = self._models.pop(old)
        self._models[new] = model | {"path": new, "name": new.rpartition("/")[2]}
