"""Rows in a folder: segment files that are never changed, and a manifest that lists them.

    FOLDER/<space>/<dtype>/
        manifest.json       which segments there are, their sizes and digests, which rows are dead
        <16 hex>.rows       segments
        lock                held by the one who writes

Adding one row writes one small segment and the manifest. All of it can be made anew by the owner
of the rows, so a damaged segment is dropped and reported, never repaired by guessing.
"""

from toolheads.indexes.store.row_store import RowStore

__all__ = ["RowStore"]
