from pathlib import Path

import pytest

from conch_contracts.records import PictureProfile
from conch_operator.local.ports import free_ports
from conch_operator.local.services import MEDIA, ServiceOptions, Services, needs_media
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.supervisor import Supervisor
from testkit.builders.records import route
from testkit.waiting import eventually


@pytest.mark.parametrize(
    ("profiles", "wanted"),
    [
        ((), False),
        ((None, PictureProfile()), False),
        ((None, PictureProfile(allowed_domains=("*",))), True),
    ],
)
def test_pictures_are_fetched_where_a_model_allows_it(
    profiles: tuple[PictureProfile | None, ...], wanted: bool
) -> None:
    routes = [route("a").model_copy(update={"pictures": profile}) for profile in profiles]
    assert needs_media(routes) is wanted


async def test_the_process_that_fetches_pictures_serves_where_the_gateway_is_told(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    options = ServiceOptions(
        host="127.0.0.1",
        port=0,
        log_level="INFO",
        redis_url="redis://127.0.0.1:1",
        redis_binary=None,
        media_port=port,
        internal_token="secret",
        environment={},
        gateway_settings={},
    )
    state = StateFolder(tmp_path / "state")
    with state.held():
        services = Services(options, state)
        async with Supervisor() as supervisor:
            services.start_media(supervisor, lambda: None)
            services.start_media(supervisor, lambda: None)
            assert list(services.processes) == [MEDIA]
            await eventually(lambda: services.url(MEDIA) is not None, "the process that fetches pictures", timeout_s=60)
            assert services.url(MEDIA) == f"http://127.0.0.1:{port}"
            await services.stop((MEDIA,))
