{{/*
conch.url: a URL of the values; stops with what to write where it is none, or where its port is none.
Call with (list "tracing.otlpEndpoint" $value "https?" "(/[^?#]*)?" "http://collector.example.com:4318"): where it stands,
its scheme and what may follow its port as expressions, and an example; last, if anything, what may stand before its host.
*/}}
{{- define "conch.url" -}}
{{- $label := "[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?" -}}
{{- $host := printf "%s(%s([.]%s)*[.]?|[[][0-9A-Fa-f:.]+[]])" (index (append . "") 5) $label $label -}}
{{- $port := "(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?" -}}
{{- if not (regexMatch (printf "^%s://%s%s%s$" (index . 2) $host $port (index . 3)) (index . 1)) -}}
{{- fail (printf "%s is %q: write a URL such as %s, with a port from 1 to 65535 or none" (index . 0) (index . 1) (index . 4)) -}}
{{- end -}}
{{- index . 1 -}}
{{- end -}}

{{/* conch.url.authority: host and port of a URL, whatever it is: conch.url says what is wrong with one. */}}
{{- define "conch.url.authority" -}}
{{- regexReplaceAll "^[a-z]*://([^/?#]*).*$" . "${1}" -}}
{{- end -}}

{{/* conch.url.port: the port of a URL. Call with (list $url "443"), the port of one that names none. */}}
{{- define "conch.url.port" -}}
{{- regexFind ":[0-9]+$" (include "conch.url.authority" (index . 0)) | trimPrefix ":" | default (index . 1) -}}
{{- end -}}
