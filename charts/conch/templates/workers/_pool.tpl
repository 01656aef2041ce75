{{/*
conch.workers.pool: all that the operator needs to run one pool of workers. The objects are complete but for the
number of replicas and the owner reference, so that workers look like every other pod of the release.
Call with (list $ "llm-worker" .Values.workers.llm (list "LLM")).
*/}}
{{- define "conch.workers.pool" -}}
{{- $values := index . 2 -}}
{{- if lt (int $values.maxReplicas) (int $values.minReplicas) }}
{{- fail (printf "%s: maxReplicas is %d, less than minReplicas, %d: raise the one or lower the other" (index . 1) (int $values.maxReplicas) (int $values.minReplicas)) }}
{{- end -}}
kinds: {{ index . 3 | toJson }}
minReplicas: {{ $values.minReplicas }}
maxReplicas: {{ $values.maxReplicas }}
requestsPerWorker: {{ $values.requestsPerWorker }}
idleSeconds: {{ $values.idleSeconds }}
objects:
  deployment:
    {{- include "conch.workers.deployment" . | nindent 4 }}
  podDisruptionBudget:
    {{- include "conch.workers.podDisruptionBudget" . | nindent 4 }}
{{- end -}}

{{/* conch.workers.metadata: as conch.labels, but made by the operator. */}}
{{- define "conch.workers.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "conch.name" . }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "conch.selector" . | nindent 2 }}
  app.kubernetes.io/part-of: conch
  app.kubernetes.io/version: {{ $root.Values.images.tag | default $root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ (include "conch.contract" $root | fromYaml).fieldManager }}
{{- end -}}
