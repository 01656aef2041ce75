"""Gives development and tests a Kubernetes: one that is there, one in Docker, or a real node on this machine.

`provider_choice` picks which; `existing_cluster`, `docker_cluster` and `local` each know one; `conch_release` puts
Conch on it. Only the standard library is used, because this runs before anything is installed.
"""
