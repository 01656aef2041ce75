from conch_kit.http.request_scope import overdue, shutting_down


def test_the_ends_from_outside_have_codes_of_their_own() -> None:
    ended = shutting_down()
    assert (ended.status, ended.code, ended.retryable) == (503, "server_shutting_down", True)
    assert (overdue().status, overdue().code, overdue().retryable) == (504, "timeout", False)
