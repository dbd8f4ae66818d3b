"""Builds the packages with the standard library alone, so installing needs no other package and no network (PEP 517)."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
METADATA = (HERE / "METADATA").read_text()
VERSION = METADATA.split("\nVersion: ")[1].split("\n")[0]
NAME = f"gauge_client-{VERSION}"


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    modules = [path for path in sorted((HERE / "src" / "gauge").iterdir()) if path.is_file()]
    files = {f"gauge/{path.name}": path.read_bytes() for path in modules}
    info = f"{NAME}.dist-info"
    files[f"{info}/METADATA"] = METADATA.encode() + (HERE / "README.md").read_bytes()
    files[f"{info}/WHEEL"] = (HERE / "WHEEL").read_bytes()
    files[f"{info}/LICENSE"] = (HERE / "LICENSE").read_bytes()
    record = "".join(f"{name},sha256={to_hash(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
    return name


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    names = ["LICENSE", "METADATA", "README.md", "WHEEL", "backend.py", "pyproject.toml"]
    sources = [path for folder in ("src/gauge", "tests") for path in sorted((HERE / folder).iterdir()) if path.is_file()]
    with tarfile.open(Path(sdist_directory) / f"{NAME}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as sdist:
        for path in [*(HERE / name for name in names), *sources]:
            sdist.add(path, f"{NAME}/{path.relative_to(HERE)}", filter=without_owner)
        info = tarfile.TarInfo(f"{NAME}/PKG-INFO")
        metadata = METADATA.encode() + (HERE / "README.md").read_bytes()
        info.size = len(metadata)
        sdist.addfile(info, io.BytesIO(metadata))
    return f"{NAME}.tar.gz"


def without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def to_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
