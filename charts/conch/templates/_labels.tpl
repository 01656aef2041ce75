{{/* conch.selector: what selects the pods of one component. Call with (list $ "gateway"). */}}
{{- define "conch.selector" -}}
{{- $labels := (include "conch.contract" (index . 0) | fromYaml).labels -}}
{{ $labels.name }}: conch
{{ $labels.instance }}: {{ (index . 0).Release.Name }}
{{ $labels.component }}: {{ index . 1 }}
{{- end -}}

{{/* conch.labels: the labels of every object of one component. */}}
{{- define "conch.labels" -}}
{{- $root := index . 0 -}}
{{ include "conch.selector" . }}
app.kubernetes.io/part-of: conch
app.kubernetes.io/version: {{ $root.Values.images.tag | default $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* conch.podLabels: the labels of a component's pods; `scraped` marks those with our admin port. */}}
{{- define "conch.podLabels" -}}
{{- $root := index . 0 -}}
{{- $labels := (include "conch.contract" $root | fromYaml).labels -}}
{{ include "conch.selector" . }}
app.kubernetes.io/part-of: conch
app.kubernetes.io/version: {{ $root.Values.images.tag | default $root.Chart.AppVersion | quote }}
{{ $labels.scraped }}: "true"
{{- end -}}
