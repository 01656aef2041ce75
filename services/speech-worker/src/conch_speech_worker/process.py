"""The speech-worker's collaborators, built and taken down in order."""

from conch_contracts.names import TRANSCRIBE_PATH
from conch_contracts.records import Pool
from conch_kit.bundles.cache_folder import cache_folder
from conch_kit.bundles.disk_cache import BundleCache
from conch_kit.bundles.store import BundleStore
from conch_kit.bundles.tokenizer_cache import TokenizerCache
from conch_kit.service.worker import worker
from conch_speech_worker.audio.child_pool import DecodingChildren
from conch_speech_worker.engine.ready_engines import ReadyEngines
from conch_speech_worker.handler import ChildBounds, TranscribeHandler
from conch_speech_worker.intake import IntakeLimits
from conch_speech_worker.metrics import SpeechWorkerMetrics
from conch_speech_worker.settings import SpeechWorkerSettings
from conch_speech_worker.vocabulary import TranscriptVocabulary


async def serve_worker(settings: SpeechWorkerSettings) -> None:
    """Serve until told to stop."""
    async with worker("conch-speech-worker", settings) as parts, DecodingChildren() as children:
        with cache_folder(settings.cache_dir, name=parts.name) as cache_dir:
            own = SpeechWorkerMetrics.register(parts.registry)
            bundles = BundleCache(BundleStore(parts.redis), cache_dir)
            handler = TranscribeHandler(
                parts.triton,
                TokenizerCache(bundles, TranscriptVocabulary.from_json, own.vocabularies, settings.max_vocabularies),
                children,
                parts.in_flight,
                own,
                intake=IntakeLimits(settings.max_message_bytes, settings.max_file_bytes),
                bounds=ChildBounds(settings.child_memory_bytes, settings.child_cpu_s, settings.child_silence_s),
                engines=ReadyEngines(parts.redis, parts.addresses),
            )
            await parts.serve(Pool.SPEECH, TRANSCRIBE_PATH, handler)
