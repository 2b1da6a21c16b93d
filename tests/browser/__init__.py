"""Tests in a real browser: JupyterLab and Notebook 7 served from loopback, driven in Chromium."""
