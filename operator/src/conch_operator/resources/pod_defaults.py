"""What every pod and every container that is made for a model has: above all its security context.

That is the `restricted` Pod Security level with a read-only root file system.
"""

from typing import Any

from conch_operator.settings import EngineSettings

USER = 65532

POD_SECURITY: dict[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CONTAINER_SECURITY: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
}


def container_defaults(settings: EngineSettings) -> dict[str, Any]:
    """Return what is the same in every container."""
    return {
        "imagePullPolicy": settings.image_pull_policy,
        "securityContext": _CONTAINER_SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
