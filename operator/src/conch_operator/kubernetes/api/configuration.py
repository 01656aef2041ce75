"""How the API server is reached: as the pod that we run in, else as $KUBECONFIG says, by the environment's proxy."""

import logging
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.config.config_exception import ConfigException

from conch_kit.settings import StartupError

log = logging.getLogger(__name__)


async def read_configuration() -> Configuration:
    """Return what the client library needs to know; raises StartupError.

    The proxy is found once: a session with `trust_env` reads environment and netrc for each call, in a thread.
    """
    settings = Configuration()
    try:
        load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except ConfigException:
        try:
            await load_kube_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        except (ConfigException, OSError) as error:
            raise StartupError(f"This is no pod of a cluster, and KUBECONFIG names none: {error}") from error
    settings.connection_pool_maxsize = 0  # without a limit: each watch keeps a connection
    settings.proxy = settings.proxy or proxy_to(settings.host)
    settings.client_session_kwargs = {"trust_env": False}
    return settings


def proxy_to(address: str) -> str | None:
    """Return the proxy that the environment names for an address.

    One that is spoken to by TLS itself is passed over: it would have to have a certificate of the cluster's authority.
    """
    url = urlsplit(address)
    if url.hostname is None or proxy_bypass(url.hostname):
        return None
    proxy = getproxies().get(url.scheme)
    if proxy is not None and urlsplit(proxy).scheme == "https":
        log.warning("A proxy that is spoken to by TLS is not used for the API server: name an http:// one.")
        return None
    return proxy
