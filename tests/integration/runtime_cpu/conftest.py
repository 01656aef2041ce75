"""One real tritonserver with tiny-chat and tiny-whisper, each at full speed and at a known slow one.

Beside them are a random model that sees pictures and its text model alone, tiny-clip, and an encoder that sees none
though its config has inputs for pictures.
"""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from conch_contracts.dialects.encoder import LAST_HIDDEN_STATE, LOGITS
from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.triton.client import TritonClient
from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository
from testkit.engines.speech_client import SpeechEngineClient
from testkit.engines.tokens_client import TokensEngine
from testkit.models import clip_golden, random_llava, speech_golden
from testkit.models.golden import FOLDER, Golden, load_golden
from testkit.models.random_llava import RandomLlava
from testkit.models.speech_golden import SpeechGolden, SpeechTokenizer, load_speech_golden
from testkit.servers.triton import RunningTriton, triton_server, write_repository

PACED_TOKENS_PER_SECOND = 25
PACED_SPEECH_TOKENS_PER_SECOND = 1
LLAVA = RandomLlava(layout="5", strategy="full")


@pytest.fixture(scope="session")
def golden() -> Golden:
    return load_golden()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    folder = tmp_path_factory.mktemp("runtime_cpu")
    for name, pace in (("tiny", 0), ("paced", PACED_TOKENS_PER_SECOND)):
        model = CpuModel(name, str(FOLDER), str(folder / "cache"), max_batch_size=16, tokens_per_second=pace)
        write_repository(render_cpu_repository(model), folder / "models")
    for name, pace, batch in (("speech", 0, 4), ("paced_speech", PACED_SPEECH_TOKENS_PER_SECOND, 1)):
        model = CpuModel(
            name,
            str(speech_golden.FOLDER),
            str(folder / "cache"),
            max_batch_size=batch,
            tokens_per_second=pace,
            dialect=Dialect.SPEECH,
        )
        write_repository(render_cpu_repository(model), folder / "models")
    sights = {
        "seeing": (random_llava.write_folder(folder / "random-seeing", LLAVA), 0),
        "paced_seeing": (random_llava.write_folder(folder / "random-seeing", LLAVA), PACED_TOKENS_PER_SECOND),
        "blind": (random_llava.write_text_folder(folder / "random-blind", LLAVA.text), 0),
    }
    for name, (where, pace) in sights.items():
        model = CpuModel(name, str(where), str(folder / "cache"), tokens_per_second=pace, sees=True)
        write_repository(render_cpu_repository(model), folder / "models")
    for name, where in (("clip", clip_golden.FOLDER), ("classifier", clip_golden.FOLDER.with_name("tiny-classifier"))):
        output = LOGITS if name == "classifier" else LAST_HIDDEN_STATE
        model = CpuModel(name, str(where), str(folder / "cache"), output=output, sees=True)
        write_repository(render_cpu_repository(model), folder / "models")
    models = ("tiny", "paced", "speech", "paced_speech", "clip", "classifier", *sights)
    with triton_server(folder / "models", *models, folder=folder) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def client() -> AsyncIterator[TritonClient]:
    """Give a client of the test's own: while its loop rests, it answers no ping, and a server ends such connections."""
    async with TritonClient() as opened:
        yield opened


@pytest.fixture
def tiny(server: RunningTriton, client: TritonClient) -> TokensEngine:
    return TokensEngine(client, EngineAddress(server.grpc), "tiny")


@pytest.fixture
def paced(server: RunningTriton, client: TritonClient) -> TokensEngine:
    return TokensEngine(client, EngineAddress(server.grpc), "paced")


@pytest.fixture
def seeing(server: RunningTriton, client: TritonClient) -> TokensEngine:
    return TokensEngine(client, EngineAddress(server.grpc), "seeing")


@pytest.fixture
def paced_seeing(server: RunningTriton, client: TritonClient) -> TokensEngine:
    return TokensEngine(client, EngineAddress(server.grpc), "paced_seeing")


@pytest.fixture
def blind(server: RunningTriton, client: TritonClient) -> TokensEngine:
    return TokensEngine(client, EngineAddress(server.grpc), "blind")


@pytest.fixture(scope="session")
def spoken() -> SpeechGolden:
    return load_speech_golden()


@pytest.fixture(scope="session")
def words() -> SpeechTokenizer:
    return SpeechTokenizer()


@pytest.fixture
def speech(server: RunningTriton, client: TritonClient) -> SpeechEngineClient:
    return SpeechEngineClient(client, EngineAddress(server.grpc), "speech")


@pytest.fixture
def paced_speech(server: RunningTriton, client: TritonClient) -> SpeechEngineClient:
    return SpeechEngineClient(client, EngineAddress(server.grpc), "paced_speech")
