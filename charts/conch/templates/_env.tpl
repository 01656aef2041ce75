{{/* Environment of our processes. Each variable CONCH_<FIELD> is a field of that process's settings. */}}

{{/* conch.env: what every process of a release is told; Redis' address only who has a user there. Call with (list $ "gateway" .Values.gateway). */}}
{{- define "conch.env" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
- name: CONCH_LOG_LEVEL
  value: {{ $root.Values.logLevel }}
- name: CONCH_ADMIN_PORT
  value: {{ include "conch.port" (list $root "admin") | quote }}
{{- with $root.Values.tracing.otlpEndpoint }}
- name: CONCH_OTLP_ENDPOINT
  value: {{ include "conch.url" (list "tracing.otlpEndpoint" . "https?" "(/([^?#%\\s]|%[0-9A-Fa-f]{2})*)?" "http://collector.example.com:4318") | quote }}
{{- end }}
- name: CONCH_INTERNAL_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ include "conch.internalToken.secret" $root }}
      key: token
{{- if has (index . 1) (include "conch.redis.roles" $root | splitList ",") }}
{{ include "conch.redis.env" . }}
{{- end }}
{{- range $field, $value := $values.settings }}
- name: CONCH_{{ snakecase $field | upper }}
  value: {{ include "conch.setting" $value | quote }}
{{- end }}
{{- end -}}

{{/* conch.setting: a value as a process reads it. Helm holds whole numbers as floats, which print with an exponent. */}}
{{- define "conch.setting" -}}
{{- if kindIs "slice" . -}}
{{- join "," . -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- int64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* conch.advertise: how the gateway reaches this pod. The registry holds the address, so there is no Service. */}}
{{- define "conch.advertise" -}}
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
- name: CONCH_ADVERTISE_URL
  value: http://$(POD_IP):{{ include "conch.port" (list (index . 0) "service") }}
- name: CONCH_PORT
  value: {{ include "conch.port" (list (index . 0) "service") | quote }}
{{- end -}}
