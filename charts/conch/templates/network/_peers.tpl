{{/* Peers and rules that several NetworkPolicies share. */}}

{{/* conch.network.head: what they all begin with. Call with (list $ "gateway"). */}}
{{- define "conch.network.head" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "conch.name" . }}
  namespace: {{ (index . 0).Release.Namespace }}
  labels:
    {{- include "conch.labels" . | nindent 4 }}
{{- end -}}

{{/* conch.network.pods: the pods of one component in this namespace, as a peer. */}}
{{- define "conch.network.pods" -}}
- podSelector:
    matchLabels:
      {{- include "conch.selector" . | nindent 6 }}
{{- end -}}

{{- define "conch.network.metricsIn" -}}
- ports:
    - port: {{ include "conch.port" (list . "admin") }}
  {{- with .Values.networkPolicy.metricsFrom }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "conch.network.dnsOut" -}}
- to:
    - namespaceSelector: {}
      podSelector:
        matchLabels:
          k8s-app: kube-dns
    {{- with .Values.networkPolicy.dnsTo }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end -}}

{{- define "conch.network.redisOut" -}}
{{- if .Values.redis.external.url -}}
# Any address: a policy cannot name a host.
- ports:
    - port: {{ include "conch.url.port" (list .Values.redis.external.url (include "conch.port" (list . "redis"))) }}
{{- else -}}
- to:
    {{- include "conch.network.pods" (list . "redis") | nindent 4 }}
  ports:
    - port: {{ include "conch.port" (list . "redis") }}
{{- end -}}
{{- end -}}

{{/* conch.network.enginesOut: engines in any namespace, and external ones where the values name their addresses. */}}
{{- define "conch.network.enginesOut" -}}
{{- $contract := include "conch.contract" . | fromYaml -}}
- to:
    - namespaceSelector: {}
      podSelector:
        matchLabels:
          {{ $contract.labels.managedBy }}: {{ $contract.fieldManager }}
        matchExpressions:
          - key: {{ $contract.labels.component }}
            operator: In
            values: {{ values $contract.components | sortAlpha | toJson }}
{{- with .Values.networkPolicy.externalEngines }}
- to:
    {{- range . }}
    - ipBlock:
        cidr: {{ . }}
    {{- end }}
{{- end }}
{{- end -}}

{{- define "conch.network.tracesOut" -}}
{{- with .Values.tracing.otlpEndpoint -}}
- ports:
    - port: {{ include "conch.url.port" (list . (ternary "443" "80" (hasPrefix "https:" .))) }}
{{- end -}}
{{- end -}}
