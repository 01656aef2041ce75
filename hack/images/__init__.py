"""Builds Conch's images from the repository's Dockerfile with the tool and the base that this machine has."""
