"""The cluster that this suite runs on; where none can run, every test is skipped by name with the reason."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from testkit.kubernetes import Cluster, Images, Namespace, NoCluster, fresh_namespace, running_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Give a running cluster, and leave the machine as it was found."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(running_cluster())
        except NoCluster as error:
            pytest.skip(f"No Kubernetes can run on this machine: {error}")
        yield found


@pytest.fixture(scope="session")
def images(cluster: Cluster) -> Images:
    """Give the images of this checkout, built and present in the cluster."""
    return cluster.load_images()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    """Give a fresh namespace; it and all in it are deleted afterwards."""
    with fresh_namespace(cluster) as fresh:
        yield fresh
