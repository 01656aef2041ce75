from typing import Any

from conch_operator.kubernetes.watch.health import WatchHealth


def item(version: str, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"uid": uid, "resourceVersion": version}}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_nothing_to_watch_is_healthy() -> None:
    clock = Clock()
    health = WatchHealth(60, 180, clock)
    health.listed([])
    clock.now = 1000
    assert health.alive()


def test_what_was_told_is_healthy_for_ever() -> None:
    clock = Clock()
    health = WatchHealth(60, 180, clock)
    health.told(item("1"))
    health.listed([item("1")])
    clock.now = 1000
    assert health.alive()


def test_what_lists_show_and_no_watch_tells_is_dead_after_a_while() -> None:
    clock = Clock()
    health = WatchHealth(60, 180, clock)
    health.told(item("1"))
    for now in range(0, 60, 10):
        clock.now = now
        health.listed([item(f"{now + 2}")])
        assert health.alive()
    clock.now = 60
    assert not health.alive()
    health.told(item("52"))
    assert health.alive()


def test_what_has_gone_needs_no_telling() -> None:
    clock = Clock()
    health = WatchHealth(60, 180, clock)
    health.listed([item("1")])
    clock.now = 61
    health.listed([])
    assert health.alive()


def test_a_watch_that_is_silent_for_three_minutes_is_dead_though_nothing_happens() -> None:
    clock = Clock()
    health = WatchHealth(60, 180, clock)
    health.opened("/models")
    health.opened("/pods")
    clock.now = 179
    assert health.alive()
    health.heard("/models")
    clock.now = 180
    assert not health.alive()
    health.heard("/pods")
    assert health.alive()


def test_opening_a_silent_watch_again_is_no_sign_of_life() -> None:
    clock = Clock()
    health = WatchHealth(60, 180, clock)
    for now in range(0, 180, 70):
        clock.now = now
        health.opened("/models")
    clock.now = 180
    assert not health.alive()


def test_another_term_begins_with_new_watches() -> None:
    clock = Clock()
    health = WatchHealth(60, 180, clock)
    health.opened("/models")
    clock.now = 1000
    health.reset()
    assert health.alive()


def test_silence_does_not_count_while_lists_fail_too() -> None:
    clock = Clock()
    health = WatchHealth(60, 180, clock)
    health.opened("/models")
    for now in range(30, 600, 30):
        clock.now = now
        health.not_listed()
    clock.now = 600
    health.listed([])
    assert health.alive()
    clock.now = 750
    assert not health.alive(), "silent since the lists come again"


def test_a_watch_that_is_not_opened_again_is_not_waited_for() -> None:
    clock = Clock()
    health = WatchHealth(60, 180, clock)
    health.opened("/models")
    health.opened("/namespaces/deleted/pods")
    health.ended()
    health.opened("/models")
    clock.now = 100
    health.heard("/models")
    clock.now = 200
    assert health.alive()
    clock.now = 280
    assert not health.alive()


def test_a_closed_watch_of_a_namespace_that_has_gone_is_not_waited_for() -> None:
    clock = Clock()
    health = WatchHealth(60, 180, clock)
    health.opened("/namespaces/deleted/pods")
    health.closed("/namespaces/deleted/pods")
    clock.now = 1000
    assert health.alive()


def test_closing_a_silent_watch_and_opening_it_again_is_no_sign_of_life() -> None:
    clock = Clock()
    health = WatchHealth(60, 180, clock)
    for now in range(0, 180, 70):
        clock.now = now
        health.closed("/models")
        health.opened("/models")
    clock.now = 180
    assert not health.alive()
