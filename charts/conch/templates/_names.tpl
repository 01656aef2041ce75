{{/*
The name of every object, written once. Names derive from one stem: the release's name, or `<release>-conch` when that
does not say "conch". Objects that have no namespace carry the release's namespace in their name.
*/}}

{{- define "conch.stem" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "conch" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-conch" (.Release.Name | trunc 34 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* conch.name: the objects of one component. Call with (list $ "gateway"). */}}
{{- define "conch.name" -}}
{{- printf "%s-%s" (include "conch.stem" (index . 0)) (index . 1) -}}
{{- end -}}

{{/* conch.clusterName: the same for objects without a namespace. */}}
{{- define "conch.clusterName" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s-%s" $root.Release.Namespace (include "conch.stem" $root) (index . 1) -}}
{{- end -}}

{{- define "conch.apiKeys.secret" -}}
{{- .Values.apiKeys.existingSecret | default (include "conch.name" (list . "api-keys")) -}}
{{- end -}}

{{- define "conch.internalToken.secret" -}}
{{- .Values.internalToken.existingSecret | default (include "conch.name" (list . "internal-token")) -}}
{{- end -}}

{{- define "conch.redis.secret" -}}
{{- .Values.redis.existingSecret | default (include "conch.name" (list . "redis-users")) -}}
{{- end -}}

{{- define "conch.ingress.tlsSecret" -}}
{{- .Values.ingress.tls.secretName | default (include "conch.name" (list . "gateway-tls")) -}}
{{- end -}}

{{/* conch.image: one of our images, by its digest where that is known. Call with (list $ "gateway"). */}}
{{- define "conch.image" -}}
{{- $root := index . 0 -}}
{{- $images := $root.Values.images -}}
{{- if not $images.prefix -}}
{{- fail "images.prefix is empty, so there is nothing to run. Build the images and bring them to a registry that your cluster pulls from: `make push REGISTRY=registry.example.com/conch`. It writes .conch/images.yaml; give that to helm with --values. Where the images are already somewhere, set images.prefix and images.tag." -}}
{{- end -}}
{{- $name := printf "%s/%s" $images.prefix (index . 1) -}}
{{- with get $images.digests (index . 1) -}}
{{- printf "%s@%s" $name . -}}
{{- else -}}
{{- printf "%s:%s" $name ($images.tag | default $root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
