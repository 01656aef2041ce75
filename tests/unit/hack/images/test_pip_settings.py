from pathlib import Path

from images import pip_settings


def test_certificate_authorities_become_a_secret_and_not_a_path(tmp_path: Path) -> None:
    authorities = tmp_path / "authorities.crt"
    authorities.write_text("-----BEGIN CERTIFICATE-----")
    secrets = pip_settings.write(tmp_path, {"PIP_CERT": str(authorities), "PIP_TIMEOUT": "77"})
    text = secrets["pip_conf"].read_text()
    assert "cert = /run/secrets/ca" in text
    assert "timeout = 77" in text
    assert secrets["ca"].read_text() == authorities.read_text()
