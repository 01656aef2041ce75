{{/*
conch.addresses: which addresses ModelDeployments may name, as JSON, for the operator, its downloads and the workers.
What is the release's own cannot be allowed: Redis holds the routes of everybody.
*/}}
{{- define "conch.addresses" -}}
{{- $domain := .Values.addresses.clusterDomain -}}
{{- $own := list -}}
{{- $services := list (printf "kubernetes.default") (printf "%s.%s" (include "conch.name" (list . "gateway")) .Release.Namespace) -}}
{{- if .Values.redis.external.url -}}
{{- $own = append $own (regexReplaceAll ":[0-9]+$" (include "conch.url.authority" .Values.redis.external.url) "" | trimPrefix "[" | trimSuffix "]" | lower) -}}
{{- else -}}
{{- $services = append $services (printf "%s.%s" (include "conch.name" (list . "redis")) .Release.Namespace) -}}
{{- end -}}
{{- range $services -}}
{{- $own = concat $own (list (printf "%s.svc" .) (printf "%s.svc.%s" . $domain)) -}}
{{- end -}}
{{- dict
      "allowed" (concat .Values.addresses.allowed .Values.networkPolicy.externalEngines | default list)
      "refused" .Values.addresses.refused
      "own" $own
      "clusterDomain" $domain
    | toJson -}}
{{- end -}}
