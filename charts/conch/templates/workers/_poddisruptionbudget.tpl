{{/* conch.workers.podDisruptionBudget: the PodDisruptionBudget of one pool. */}}
{{- define "conch.workers.podDisruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "conch.workers.metadata" (list (index . 0) (index . 1)) | nindent 2 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "conch.selector" (list (index . 0) (index . 1)) | nindent 6 }}
{{- end -}}
