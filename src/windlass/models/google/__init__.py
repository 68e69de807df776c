"""Gemini, by Google's SDK: `GoogleModel` asks the Gemini API, `VertexModel` asks Vertex AI."""

from __future__ import annotations

from windlass.models.google.model import GoogleModel
from windlass.models.google.vertex import VertexModel

__all__ = ["GoogleModel", "VertexModel"]
