"""URLs, hosts and certificates in the values are what their readers take, or stop the installation and say why."""

import subprocess

import pytest

from generate.helm import Helm
from testkit.kubernetes import chart
from testkit.kubernetes.chart import IMAGES

COLLECTOR, REDIS, DOWNLOADS = "tracing.otlpEndpoint", "redis.external.url", "engines.downloads"
MIRROR, PROXY, CA_BUNDLE = f"{DOWNLOADS}.hfEndpoint", f"{DOWNLOADS}.httpsProxy", f"{DOWNLOADS}.caBundle"
WHOLE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("at", "url"),
    [
        *(
            (at, f"http://{rest}")
            for at in (COLLECTOR, MIRROR)
            for rest in (
                "",
                ":4318",
                "a:0",
                "a:65536",
                "a:99999",
                "a:http",
                "a b",
                "u:p@a",
                "a/?x=1",
                "a/#b",
                "/v1",
                "a..b",
                "a/%zz",
            )
        ),
        *(
            (at, url)
            for at in (PROXY, f"{DOWNLOADS}.httpProxy")
            for url in (
                "foo",
                "ftp://a",
                "http://",
                "http://a:99999",
                "http://a b",
                "https://a:0",
                "http://a/b",
                "u@a:1",
            )
        ),
        *((REDIS, f"redis://{rest}") for rest in (":6379", "a:65536", "a/0x", "a/0/1", "a b", "[::1")),
    ],
)
def test_a_url_that_is_none_stops_the_installation_with_one_that_is(helm: Helm, at: str, url: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        helm.template(*IMAGES, "--set-string", f"{at}={url}")
    assert f'{at} is "{url}": write a URL such as ' in failed.value.stderr


@pytest.mark.parametrize(
    ("at", "url", "port"),
    [
        (COLLECTOR, "http://collector.monitoring.svc:4318", "4318"),
        (COLLECTOR, "https://collector.example.com/otlp", "443"),
        (COLLECTOR, "http://[fd00::1]:65535/", "65535"),
        (COLLECTOR, "http://[fd00::1]", "80"),
        (REDIS, "redis://redis", "6379"),
        (REDIS, "rediss://redis.example.com:6380/1", "6380"),
        (REDIS, "redis://[fd00::1]/", "6379"),
        (REDIS, "redis://[fd00::1]:7000/0?db=1", "7000"),
    ],
)
def test_processes_may_reach_the_port_of_a_url(helm: Helm, at: str, url: str, port: str) -> None:
    policy = chart.render(helm, "--set-string", f"{at}={url}").one("NetworkPolicy", "conch-gateway")
    assert int(port) in [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]


@pytest.mark.parametrize("url", ["https://hub.example.com", "http://10.0.0.1:8080/hub", "https://hub:443/"])
def test_a_mirror_is_told_to_downloads(helm: Helm, url: str) -> None:
    settings = chart.render(helm, "--set-string", f"{MIRROR}={url}").operator_settings()
    assert settings["engines"]["downloads"]["env"] == {"HF_ENDPOINT": url}


@pytest.mark.parametrize(
    "url", ["http://proxy.example.com:3128", "https://user:p%40ss@10.0.0.1", "http://[fd00::1]:80/"]
)
def test_a_proxy_is_told_to_downloads(helm: Helm, url: str) -> None:
    settings = chart.render(helm, "--set-string", f"{PROXY}={url}").operator_settings()
    assert settings["engines"]["downloads"]["env"] == {"HTTPS_PROXY": url}


@pytest.mark.parametrize("host", ["conch.example.com", "*.example.com", "conch", "3com.example", "a.2b"])
def test_an_ingress_answers_for_the_name_of_a_host(helm: Helm, host: str) -> None:
    (ingress,) = chart.render(helm, "--set-string", f"ingress.host={host}").of("Ingress")
    assert [rule["host"] for rule in ingress["spec"]["rules"]] == [host]


@pytest.mark.parametrize(
    "cut", ["-----BEGIN CERTIFICATE-----\nMIIB\n", f"{WHOLE}{WHOLE[:-4]}", WHOLE.replace("MI", "<>")]
)
def test_a_certificate_that_is_cut_off_stops_the_installation(helm: Helm, cut: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        helm.template(*IMAGES, "--set-string", f"{CA_BUNDLE}={cut}")
    assert "--set-file engines.downloads.caBundle=ca.pem" in failed.value.stderr


def test_certificates_with_remarks_between_them_are_taken_as_they_are(helm: Helm) -> None:
    bundle = f"{WHOLE}# another\n{WHOLE}"
    settings = chart.render(helm, "--set-string", f"{CA_BUNDLE}={bundle}").operator_settings()
    assert settings["engines"]["downloads"]["caBundle"] == bundle
