"""The cluster that this suite runs on; where none can run, every test is skipped by name with the reason."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from testkit.kubernetes.cluster import (
    Cluster,
    Images,
    Namespace,
    NoCluster,
    NoImages,
    definition,
    fresh_namespace,
    running_cluster,
    wait_for_removals,
)
from testkit.kubernetes.operator_process import Plane, Process, bare_plane


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Give a running cluster, and leave the machine as it was found."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(running_cluster())
        except NoCluster as error:
            pytest.skip(f"No Kubernetes can run on this machine: {error}")
        yield found
        wait_for_removals(found)


@pytest.fixture(scope="session")
def images(cluster: Cluster) -> Images:
    """Give the images of this checkout, built and present in the cluster."""
    try:
        return cluster.load_images()
    except NoImages as error:
        pytest.fail(f"The images of this checkout were not built:\n{error}", pytrace=False)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    """Give a fresh namespace; it and all in it are deleted afterwards."""
    with fresh_namespace(cluster) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def world(cluster: Cluster, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Give what is around the operators of one module; a module that needs more has one of its own."""
    folder = tmp_path_factory.mktemp("plane")
    with definition(cluster), fresh_namespace(cluster) as namespace, bare_plane(namespace, images, folder) as found:
        yield found


@pytest.fixture(scope="module")
def operator(world: Plane) -> Iterator[Process]:
    """Give an operator that runs for the whole module."""
    with world.operator(round_s=1) as process:
        yield process
        world.clear()
