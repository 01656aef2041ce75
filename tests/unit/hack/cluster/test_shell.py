from cluster.shell import Shell


def test_programs_of_this_machine_see_no_proxy_and_downloads_do() -> None:
    shell = Shell.without_proxies({"HTTPS_PROXY": "http://proxy.example", "HOME": "/root"})
    assert "HTTPS_PROXY" not in shell.environment
    assert shell.with_variables(A="1").proxied == {"HTTPS_PROXY": "http://proxy.example", "HOME": "/root", "A": "1"}
