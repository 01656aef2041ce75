"""Picks the kind of cluster: the one that was named, else one in Docker, else a node on this machine."""

from cluster.docker_cluster import DockerCluster, find_docker_tool
from cluster.existing_cluster import ExistingCluster
from cluster.local.local_cluster import LocalCluster
from cluster.provider import Provider
from cluster.settings import Settings
from cluster.shell import Shell


def choose(settings: Settings, shell: Shell) -> Provider:
    """Return the cluster to use here."""
    if settings.kubeconfig is not None:
        return ExistingCluster(settings.kubeconfig, settings.ingress_url, shell)
    if (tool := find_docker_tool(shell)) is not None:
        return DockerCluster(tool, settings.cache, shell)
    return LocalCluster(settings, shell)
