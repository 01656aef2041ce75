from typing import Any

from conch_operator.download.folder_name import folder_name
from testkit.builders.model_deployments import desired_model

HUB = {"repo": "org/tiny", "revision": "v1"}


def name(source: dict[str, Any], **spec: Any) -> str:
    return folder_name(desired_model(source=source, **spec).deployment.spec)


def test_models_with_the_same_files_share_a_folder() -> None:
    first = name({"huggingFace": HUB})
    assert first.startswith("org-tiny-")
    assert name({"huggingFace": {**HUB, "tokenSecretRef": {"name": "a"}, "cache": {"claimName": "b"}}}) == first


def test_other_files_have_a_folder_of_their_own() -> None:
    external = {"engine": {"external": {"grpc": "a:1", "dialect": "tokens"}}}
    names = {
        name({"huggingFace": HUB}),
        name({"huggingFace": {**HUB, "revision": "v2"}}),
        name({"huggingFace": HUB}, **external),
        name({"s3": {"uri": "s3://org/tiny"}}),
        name({"s3": {"uri": "s3://org/tiny", "endpoint": "http://minio:9000"}}),
    }
    assert len(names) == 5
    assert all(set(one) <= {*"abcdefghijklmnopqrstuvwxyz0123456789.-_"} for one in names)
