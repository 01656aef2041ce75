{{/* What the process that fetches pictures may connect to; it checks the same by itself. */}}

{{/* conch.media.refused: hosts and ranges that are refused although they are public. */}}
{{- define "conch.media.refused" -}}
{{- $services := list "*.svc" (printf "*.svc.%s" .Values.addresses.clusterDomain) -}}
{{- join "," (concat .Values.addresses.refused $services) -}}
{{- end -}}

{{/* conch.media.internet: the internet as peers, without what is not public and without the ranges of addresses.refused. */}}
{{- define "conch.media.internet" -}}
{{- $ranges := (include "conch.contract" . | fromYaml).notPublic -}}
{{- $refused := list -}}
{{- range .Values.addresses.refused -}}
{{- if contains "/" . -}}{{- $refused = append $refused . -}}{{- end -}}
{{- end -}}
{{- range $everything := list "0.0.0.0/0" "::/0" }}
- ipBlock:
    cidr: {{ $everything }}
    except:
      {{- range concat (ternary $ranges.ipv6 $ranges.ipv4 (contains ":" $everything)) $refused }}
      {{- if eq (contains ":" .) (contains ":" $everything) }}
      - {{ . }}
      {{- end }}
      {{- end }}
{{- end }}
{{- end -}}
