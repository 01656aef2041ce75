{{/*
conch.ingress.annotations: what ingress controllers must be told so that streams arrive event by event and are not cut.
Controllers ignore each other's annotations. Traefik needs none: it flushes event streams at once and has no time-out
for answers. The gateway itself bounds bodies and silent clients.
*/}}
{{- define "conch.ingress.annotations" -}}
{{- $seconds := .Values.ingress.timeoutSeconds | int -}}
nginx.ingress.kubernetes.io/proxy-buffering: "off"
nginx.ingress.kubernetes.io/proxy-request-buffering: "off"
nginx.ingress.kubernetes.io/proxy-http-version: "1.1"
nginx.ingress.kubernetes.io/proxy-read-timeout: {{ $seconds | quote }}
nginx.ingress.kubernetes.io/proxy-send-timeout: {{ $seconds | quote }}
nginx.ingress.kubernetes.io/proxy-body-size: "0"
haproxy.org/timeout-server: {{ printf "%ds" $seconds }}
haproxy-ingress.github.io/timeout-server: {{ printf "%ds" $seconds }}
alb.ingress.kubernetes.io/load-balancer-attributes: {{ printf "idle_timeout.timeout_seconds=%d" (min $seconds 4000) }}
{{- end -}}
