{{/*
conch.kept: a value of one of our Secrets, made once and kept over upgrades. Call with (list $ <secret> <key> <new>).
Where Helm cannot look at the cluster (`helm template`), it is new each time.
*/}}
{{- define "conch.kept" -}}
{{- $root := index . 0 -}}
{{- $data := (lookup "v1" "Secret" $root.Release.Namespace (index . 1)).data | default dict -}}
{{- get $data (index . 2) | default (index . 3 | b64enc) -}}
{{- end -}}
