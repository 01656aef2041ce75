"""From the name in `model` to a route; pure.

A name that is not served is a 404; the name of a model of another kind is a 400 that says which kinds would do.
"""

from conch_contracts.names import ServedName
from conch_contracts.records import ModelKind, Profile, Route
from conch_kit.errors import InvalidRequest, ModelNotFound, Unavailable
from conch_kit.registry.snapshot import Snapshot

DEFAULT_NAMES = (None, "", "default")
MAX_NAME_CHARS = 128


def find_route(snapshot: Snapshot, name: str | None, *, kinds: tuple[ModelKind, ...]) -> Route:
    """Return the route that `name` means, or the default one of the first of these kinds that has a model.

    Raises ModelNotFound for an unknown name, InvalidRequest for a model of another kind, Unavailable for a model whose
    route is not known yet.
    """
    route = snapshot.by_name.get(name) if name else None
    if route is None:
        return _unnamed(snapshot, name, kinds)
    if route.kind not in kinds:
        suitable = " and ".join(kinds)
        raise InvalidRequest(
            f"The model '{name}' is of kind {route.kind}, which does not serve this endpoint; {suitable} would do.",
            param="model",
            code="unsupported_model",
        )
    return route


def canonical_name(route: Route, asked: str | None) -> ServedName:
    """Return the name that the answer carries: the one the client used, else the first of the model's names."""
    return ServedName(asked) if asked in route.served_names else route.served_names[0]


def not_found(name: str) -> ModelNotFound:
    """Return the one error for every name that is not served."""
    shown = name if len(name) <= MAX_NAME_CHARS else name[:MAX_NAME_CHARS] + "..."
    return ModelNotFound(
        f"The model '{shown}' does not exist, or was never ready.", param="model", code="model_not_found"
    )


def _unnamed(snapshot: Snapshot, name: str | None, kinds: tuple[ModelKind, ...]) -> Route:
    """Return the default route for a name that is none; a FastDeploy server, which has one model, knows every name."""
    if name in DEFAULT_NAMES:
        return _default(snapshot, kinds)
    routes = [route for route in snapshot.routes.values() if route.kind in kinds]
    for route in routes:
        if route.profile is Profile.FASTDEPLOY and (route.default or len(routes) == 1):
            return route
    if _may_be_awaited(snapshot, name):
        raise _not_ready("This model is not ready yet.")
    raise not_found(name or "")


def _may_be_awaited(snapshot: Snapshot, name: str | None) -> bool:
    """Tell whether a name may be that of a wanted model whose route is not known yet.

    Which names such a model has nobody has told; unless its spec says otherwise it is the object's.
    """
    unknown = snapshot.read.keys() - snapshot.routes.keys()
    return bool(unknown) and (not snapshot.routes or any(name == model.rpartition("/")[2] for model in unknown))


def _not_ready(message: str) -> Unavailable:
    return Unavailable(message, code="model_not_ready", retry_after_s=5)


def _default(snapshot: Snapshot, kinds: tuple[ModelKind, ...]) -> Route:
    by_kind = ([route for route in snapshot.routes.values() if route.kind is kind] for kind in kinds)
    routes = next((routes for routes in by_kind if routes), [])
    if not snapshot.routes:
        raise _not_ready("No model is ready yet.")
    if not routes:
        said = f"No model of kind {' or '.join(kinds)} is served, and 'model' names none."
        raise ModelNotFound(said, param="model", code="model_not_found")
    chosen = [route for route in routes if route.default]
    if chosen:
        return min(chosen, key=lambda route: (route.created, route.model_id))
    if len(routes) == 1:
        return routes[0]
    raise InvalidRequest(
        "Missing required parameter: 'model'. No model is the default one.",
        param="model",
        code="missing_required_parameter",
    )
