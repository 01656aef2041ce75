from cluster.local.addons import traefik_manifest


def test_traefik_leaves_no_placeholder() -> None:
    manifest = traefik_manifest(image="traefik:1", listen="0.0.0.0", pull_policy="Never")
    assert "@" not in manifest
    assert "--entryPoints.web.address=0.0.0.0:8080" in manifest
