"""Certificates for tests, made by openssl: a CA, what it has signed, and what it has not."""

from __future__ import annotations

import subprocess
from pathlib import Path

from flott.common.configuration import Configuration
from flott.runtime.pipelined.tls import ConnectionTls

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def make_certificates(folder: Path) -> Path:
    """Make ``ca``, ``other-ca``, ``slot`` and ``expired`` (of ca) and ``stranger`` (of other-ca)."""
    for name in ("ca", "other-ca"):
        extensions = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
        _openssl("req", "-x509", *_CURVE, "-days", "2", "-subj", f"/CN={name}", *extensions, *_files(folder, name))
    for name, ca, days in (("slot", "ca", "2"), ("expired", "ca", "-1"), ("stranger", "other-ca", "2")):
        request = folder / f"{name}.csr"
        _openssl("req", *_CURVE, "-subj", f"/CN={name}", "-keyout", str(folder / f"{name}.key"), "-out", str(request))
        signer = ("-CA", str(folder / f"{ca}.pem"), "-CAkey", str(folder / f"{ca}.key"), "-CAcreateserial")
        made = ("-out", str(folder / f"{name}.pem"))
        _openssl("x509", "-req", "-in", str(request), *signer, "-days", days, *made)
    return folder


def tls_settings(folder: Path, name: str = "slot", ca: str = "ca") -> dict[str, str]:
    """Return the options that name a certificate, its key, and a CA."""
    return {
        "security.ssl.internal.enabled": "true",
        "flott.internal.ssl.certificate": str(folder / f"{name}.pem"),
        "flott.internal.ssl.key": str(folder / f"{name}.key"),
        "flott.internal.ssl.ca": str(folder / f"{ca}.pem"),
    }


def tls_of(folder: Path, name: str = "slot", ca: str = "ca") -> ConnectionTls:
    """Return the contents of the files."""
    made = ConnectionTls.of(Configuration.of(tls_settings(folder, name, ca)))
    assert made is not None
    return made


def _files(folder: Path, name: str) -> tuple[str, ...]:
    return ("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"))


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
