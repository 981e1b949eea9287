"""The flows of a sweep's points as one Parquet dataset: a link to each point's file, in folders named ``key=value``."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from urllib.parse import quote

from ._points import Point

FOLDER = "dataset"
_FLOWS = "flows.parquet"


def add(out: Path, point: Point) -> None:
    """Link the flows of a point that has run into the dataset of its sweep."""
    flows = point.folder / _FLOWS
    if not flows.is_file():
        return
    folder = out / FOLDER
    for key, value in [*point.named.items(), ("seed", str(point.seed))]:
        folder /= f"{quote(key, safe='.-_')}={quote(value, safe='')}"
    folder.mkdir(parents=True, exist_ok=True)
    place, fresh = folder / _FLOWS, folder / f".{_FLOWS}.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    try:
        os.link(flows, fresh)
    except OSError:
        # Not every file system has links.
        shutil.copyfile(flows, fresh)
    # Renaming one link of a file onto another does nothing and leaves both.
    os.replace(fresh, place)
    fresh.unlink(missing_ok=True)
