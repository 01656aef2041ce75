"""A gateway in this process with one model that encodes, on fakes."""

from conch_contracts.names import ENCODE_PATH, PREPARE_ROWS_PATH
from conch_contracts.records import Dialect, EncoderProfile, Engine, ModelKind, PictureProfile
from conch_gateway.encoders.answer_cache import Store
from testkit.gateway.fakes import ENGINE, Gateway, Script, gateway, route, rows, snapshot


class FakeStore:
    """Keeps answers in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[bytes, float]] = {}

    async def get(self, key: str) -> bytes | None:
        """Return an answer."""
        return self.kept[key][0] if key in self.kept else None

    async def put(self, key: str, body: bytes, ttl_s: float) -> None:
        """Keep an answer."""
        self.kept[key] = (body, ttl_s)


def serving(
    kind: ModelKind,
    worker: Script,
    *lengths: int,
    profile: EncoderProfile | None = None,
    engines: tuple[Engine, ...] = (Engine(grpc=ENGINE),),
    store: Store | None = None,
    tokenizer: Script | None = None,
    sees: PictureProfile | None = None,
) -> Gateway:
    """Return the gateway; `lengths` are those of the rows that its tokenizer makes."""
    model = route(
        model_id="local/enc",
        served_names=("enc",),
        kind=kind,
        dialect=Dialect.ENCODER,
        encoder=profile or EncoderProfile(),
        pictures=sees,
    )
    scripts = {PREPARE_ROWS_PATH: tokenizer or rows(*(lengths or (3,))), ENCODE_PATH: worker}
    return gateway(scripts, known=snapshot(model, engines=engines), store=store)
