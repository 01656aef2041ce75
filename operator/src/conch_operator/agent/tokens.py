"""The tokens of agents: each Deployment's is derived from the release's secret, so no token is stored anywhere.

A pod is told only the SHA-256 of its token: whoever reads the pod cannot call its agent. The secret is stretched, so
that one which somebody made up is not easily guessed from that.
"""

import hmac
from dataclasses import dataclass
from hashlib import pbkdf2_hmac, sha256

from pydantic import SecretStr

_SALT = b"conch engine agents"
_ROUNDS = 200_000


@dataclass(frozen=True, slots=True)
class AgentOwner:
    """The Deployment that an agent's pod is of, as both are labelled."""

    namespace: str
    component: str
    name: str


class AgentTokens:
    """Derives tokens from one secret."""

    def __init__(self, secret: SecretStr) -> None:
        self._key = pbkdf2_hmac("sha256", secret.get_secret_value().encode(), _SALT, _ROUNDS)

    def token(self, owner: AgentOwner) -> str:
        """Return what the agents of a Deployment are asked with."""
        text = f"{owner.namespace}/{owner.component}/{owner.name}"
        return hmac.digest(self._key, text.encode(), "sha256").hex()

    def told(self, owner: AgentOwner) -> str:
        """Return what the agents of a Deployment are told of their token."""
        return token_sha256(self.token(owner).encode())


def token_sha256(token: bytes) -> str:
    """Return the SHA-256 of a token, as hexadecimal digits."""
    return sha256(token).hexdigest()
