"""The files of one folder: read, searched and changed by a model, and nothing beyond the folder."""
