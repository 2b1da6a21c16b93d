"""A notebook as one file to give to others: HTML that unfolds, Markdown, or JSON."""

from .file import export_file, export_notebook

__all__ = ["export_file", "export_notebook"]
