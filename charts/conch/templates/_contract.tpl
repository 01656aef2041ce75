{{/*
Ports, labels and keys that the chart shares with the code. files/contract.yaml is generated from conch_contracts.names,
so that none of them is written twice.
*/}}

{{- define "conch.contract" -}}
{{- .Files.Get "files/contract.yaml" -}}
{{- end -}}

{{/* conch.port: one port's number. Call with (list $ "admin"). */}}
{{- define "conch.port" -}}
{{- index (include "conch.contract" (index . 0) | fromYaml) "ports" (index . 1) -}}
{{- end -}}
