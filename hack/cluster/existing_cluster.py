"""A cluster that somebody else runs: it is used, never started and never stopped."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError
from cluster.provider import Access
from cluster.shell import Shell, say


@dataclass(frozen=True, slots=True)
class ExistingCluster:
    """The cluster of CONCH_TEST_KUBECONFIG."""

    kubeconfig: Path
    ingress_url: str | None
    shell: Shell

    def up(self) -> Access:
        """Check that it answers."""
        answer = self._kubectl("get", "--raw", "/readyz")
        if answer:
            raise ClusterError(f"The cluster of CONCH_TEST_KUBECONFIG={self.kubeconfig} does not answer: {answer}")
        return Access(self.kubeconfig, ingress_url=self.ingress_url)

    def running(self) -> Access | None:
        """Return how to reach it when it answers."""
        return None if self._kubectl("get", "--raw", "/readyz") else Access(self.kubeconfig, None, self.ingress_url)

    def images(self) -> frozenset[str]:
        """Return none: nobody can look into another's nodes."""
        return frozenset()

    def load(self, archives: Iterable[Path]) -> None:
        """Leave the images to its registry: nobody can import into another's nodes."""
        say(
            "The images were not imported, because the cluster is not ours. "
            "Push them to a registry that it pulls from and set CONCH_IMAGE_PREFIX to that."
        )

    def status(self) -> bool:
        """Print its nodes."""
        self.shell.show("kubectl", f"--kubeconfig={self.kubeconfig}", "get", "nodes,pods", "-A")
        return True

    def down(self) -> None:
        """Leave it running."""
        say("The cluster of CONCH_TEST_KUBECONFIG is not ours to stop.")

    def _kubectl(self, *words: str) -> str:
        """Return what went wrong, empty when nothing did."""
        if not self.shell.has("kubectl"):
            return "kubectl is not on PATH"
        command = ("kubectl", f"--kubeconfig={self.kubeconfig}", "--request-timeout=10s", *words)
        done = self.shell.ask(*command)
        return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"
