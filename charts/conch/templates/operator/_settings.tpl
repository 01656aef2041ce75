{{/*
conch.operator.settings: the one file that tells the operator about its release. What it holds and what the operator
does with it is described in the chart's README.
*/}}
{{- define "conch.operator.settings" -}}
release:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
# Owner of what the operator makes in this namespace: it goes when the release goes.
owner:
  apiVersion: apps/v1
  kind: Deployment
  name: {{ include "conch.name" (list . "operator") }}
lease: {{ include "conch.name" (list . "operator") }}
# None: all namespaces.
watchNamespaces: {{ .Values.operator.watchNamespaces | toJson }}
namespacedNames: {{ eq .Values.servedNames.policy "namespaced" }}
engines:
  # The operator's own image, for the agent beside each engine.
  agentImage: {{ include "conch.image" (list . "operator") | quote }}
  images:
    cpu: {{ .Values.engines.images.cpu | default (include "conch.image" (list . "engine-cpu")) | quote }}
    {{- omit .Values.engines.images "cpu" | toYaml | nindent 4 }}
  imagePullPolicy: {{ .Values.images.pullPolicy }}
  imagePullSecrets: {{ .Values.images.pullSecrets | toJson }}
  {{- include "conch.resources.fit" (list "engines.initResources" .Values.engines.initResources) }}
  initResources: {{ .Values.engines.initResources | toJson }}
  shmSize: {{ .Values.engines.shmSize }}
  drainSeconds: {{ .Values.engines.drainSeconds }}
  nodeWaitSeconds: {{ .Values.engines.nodeWaitSeconds }}
  downloads:
    env: {{ include "conch.operator.downloadEnv" .Values.engines.downloads }}
    caBundle: {{ include "conch.operator.caBundle" .Values.engines.downloads.caBundle | toJson }}
  # Which addresses ModelDeployments may name.
  addresses: {{ include "conch.addresses" . }}
  # Who may call an engine, its agent, and who may read its metrics: for the NetworkPolicy beside each of them.
  networkPolicy:
    enabled: {{ .Values.networkPolicy.enabled }}
    from:
      {{- range $component := list "llm-worker" "embed-worker" "speech-worker" "operator" }}
      - namespaceSelector:
          matchLabels:
            kubernetes.io/metadata.name: {{ $.Release.Namespace }}
        podSelector:
          matchLabels:
            {{- include "conch.selector" (list $ $component) | nindent 12 }}
      {{- end }}
    agentFrom:
      - namespaceSelector:
          matchLabels:
            kubernetes.io/metadata.name: {{ .Release.Namespace }}
        podSelector:
          matchLabels:
            {{- include "conch.selector" (list . "operator") | nindent 12 }}
    metricsFrom: {{ .Values.networkPolicy.metricsFrom | toJson }}
workerPools:
  llm:
    {{- include "conch.workers.pool" (list . "llm-worker" .Values.workers.llm (list "LLM")) | nindent 4 }}
  embed:
    {{- include "conch.workers.pool" (list . "embed-worker" .Values.workers.embed (list "Embedding" "Rerank" "Classify")) | nindent 4 }}
  speech:
    {{- include "conch.workers.pool" (list . "speech-worker" .Values.workers.speech (list "Transcription")) | nindent 4 }}
{{- end -}}

{{/* conch.operator.caBundle: certificates in PEM; stops where one of them is cut off. */}}
{{- define "conch.operator.caBundle" -}}
{{- $begun := regexFindAll "-----BEGIN CERTIFICATE-----" . -1 -}}
{{- $whole := regexFindAll "-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\\s]+-----END CERTIFICATE-----" . -1 -}}
{{- if ne (len $begun) (len $whole) -}}
{{- fail (printf "engines.downloads.caBundle has %d certificates of which %d are whole: give it as a file in PEM, with --set-file engines.downloads.caBundle=ca.pem" (len $begun) (len $whole)) -}}
{{- end -}}
{{- . -}}
{{- end -}}

{{- define "conch.operator.downloadEnv" -}}
{{- $env := dict -}}
{{- $proxy := list "https?" "/?" "http://proxy.example.com:3128" "([^@/?#\\s]+@)?" -}}
{{- with .httpProxy }}{{ $_ := set $env "HTTP_PROXY" (include "conch.url" (concat (list "engines.downloads.httpProxy" .) $proxy)) }}{{ end -}}
{{- with .httpsProxy }}{{ $_ := set $env "HTTPS_PROXY" (include "conch.url" (concat (list "engines.downloads.httpsProxy" .) $proxy)) }}{{ end -}}
{{- with .noProxy }}{{ $_ := set $env "NO_PROXY" . }}{{ end -}}
{{- with .hfEndpoint }}{{ $_ := set $env "HF_ENDPOINT" (include "conch.url" (list "engines.downloads.hfEndpoint" . "https?" "(/([^?#%\\s]|%[0-9A-Fa-f]{2})*)?" "https://hub.example.com")) }}{{ end -}}
{{- toJson $env -}}
{{- end -}}
