from conch_contracts.records import Dialect, ModelKind
from conch_operator.routes.engine_contract import contract_of, encoder_output
from testkit.builders.model_deployments import desired_model


def test_a_cpu_engine_takes_some_batches_at_once() -> None:
    assert contract_of(desired_model()).slots == 64


def test_speech_is_spoken_with_in_its_own_dialect() -> None:
    own = contract_of(desired_model(kind="Transcription", engine={"cpu": {"maxBatchSize": 8}}))
    external = contract_of(desired_model(kind="Transcription", engine={"external": {"grpc": "h:1"}}))
    python = contract_of(desired_model(kind="Transcription", engine={"python": {}}))
    bls = contract_of(
        desired_model(kind="Transcription", engine={"external": {"grpc": "h:1", "dialect": "whisper_bls"}})
    )
    assert (own.triton_model, own.dialect, own.slots) == ("model", Dialect.SPEECH, 32)
    assert (external.triton_model, external.dialect, external.slots) == ("tiny", Dialect.SPEECH, 64)
    assert (python.triton_model, python.dialect) == ("model", Dialect.SPEECH)
    assert (bls.triton_model, bls.dialect, bls.slots) == ("tiny", Dialect.WHISPER_BLS, 64)


def test_only_encoders_have_an_output() -> None:
    given = {kind: encoder_output(kind) for kind in ModelKind if encoder_output(kind) is not None}
    assert given == {"Embedding": "last_hidden_state", "Rerank": "logits", "Classify": "logits"}
