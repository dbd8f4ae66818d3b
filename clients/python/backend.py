"""Builds the wheel with the standard library alone, so installing needs no other package and no network (PEP 517)."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

NAME = "gauge_client-0.1.0"
METADATA = """Metadata-Version: 2.1
Name: gauge-client
Version: 0.1.0
Summary: Typed client for Gauge and a durable usage reporter
License: MIT
Requires-Python: >=3.10
Classifier: Typing :: Typed
Provides-Extra: asgi
Requires-Dist: starlette>=0.40; extra == "asgi"
Provides-Extra: litellm
Requires-Dist: litellm>=1.108; extra == "litellm"
Description-Content-Type: text/markdown

"""
WHEEL = "Wheel-Version: 1.0\nGenerator: gauge\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    here = Path(__file__).parent
    modules = [path for path in sorted((here / "src" / "gauge").iterdir()) if path.is_file()]
    files = {f"gauge/{path.name}": path.read_bytes() for path in modules}
    info = f"{NAME}.dist-info"
    files[f"{info}/METADATA"] = METADATA.encode() + (here / "README.md").read_bytes()
    files[f"{info}/WHEEL"] = WHEEL.encode()
    files[f"{info}/LICENSE"] = (here / "LICENSE").read_bytes()
    record = "".join(f"{name},sha256={to_hash(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
    return name


def to_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
