{{/*
How a role reaches Redis: the bundled one with a user of its own, or an external one. A password is never part of a
URL in an object: Kubernetes puts it there when the container starts.
*/}}

{{- define "conch.redis.env" -}}
{{- $root := index . 0 -}}
{{- $redis := $root.Values.redis -}}
{{- if not $redis.external.url -}}
- name: REDIS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ include "conch.redis.secret" $root }}
      key: {{ index . 1 }}
- name: CONCH_REDIS_URL
  value: redis://{{ index . 1 }}:$(REDIS_PASSWORD)@{{ include "conch.redis.host" $root }}:{{ include "conch.port" (list $root "redis") }}/0
{{- else -}}
{{- with $redis.external.passwordSecret.name -}}
- name: REDIS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $redis.external.passwordSecret.key }}
{{ end -}}
- name: CONCH_REDIS_URL
  value: {{ include "conch.redis.externalUrl" $redis.external | quote }}
{{- end -}}
{{- end -}}

{{- define "conch.redis.host" -}}
{{ include "conch.name" (list . "redis") }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{/*
conch.redis.persistent: not empty when the bundled server keeps its data on a claim. `auto` does so where something will
answer the claim: a class that is named, the cluster's default class, or the claim that an earlier revision has made.
*/}}
{{- define "conch.redis.persistent" -}}
{{- $wanted := .Values.redis.persistence -}}
{{- if ne (toString $wanted.enabled) "auto" -}}
{{- if $wanted.enabled }}claim{{ end -}}
{{- else if $wanted.storageClass -}}
claim
{{- else if lookup "v1" "PersistentVolumeClaim" .Release.Namespace (include "conch.name" (list . "redis")) -}}
claim
{{- else -}}
{{- range (lookup "storage.k8s.io/v1" "StorageClass" "" "").items -}}
{{- if eq (dig "metadata" "annotations" "storageclass.kubernetes.io/is-default-class" "false" .) "true" }}claim{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "conch.redis.externalUrl" -}}
{{- $url := include "conch.url" (list "redis.external.url" .url "rediss?" "(/[0-9]*)?([?][^#\\s]*)?" "rediss://redis.example.com:6380/0") | urlParse -}}
{{- $user := "" -}}
{{- if .passwordSecret.name -}}
{{- $user = printf "%s:$(REDIS_PASSWORD)@" .username -}}
{{- end -}}
{{- $query := list -}}
{{- with $url.query -}}
{{- $query = append $query . -}}
{{- end -}}
{{- if .caSecret.name -}}
{{- $query = append $query "ssl_ca_certs=/etc/conch/redis-ca/ca.crt" -}}
{{- end -}}
{{- printf "%s://%s%s%s" $url.scheme $user $url.host $url.path -}}
{{- with $query -}}
?{{ join "&" . }}
{{- end -}}
{{- end -}}

{{/* conch.redis.caMount and conch.redis.caVolume: the authority of an external Redis with TLS; nothing without one. */}}
{{- define "conch.redis.caMount" -}}
{{- if and .Values.redis.external.url .Values.redis.external.caSecret.name -}}
- name: redis-ca
  mountPath: /etc/conch/redis-ca
  readOnly: true
{{- end -}}
{{- end -}}

{{- define "conch.redis.caVolume" -}}
{{- if and .Values.redis.external.url .Values.redis.external.caSecret.name -}}
- name: redis-ca
  secret:
    secretName: {{ .Values.redis.external.caSecret.name }}
    items:
      - key: {{ .Values.redis.external.caSecret.key }}
        path: ca.crt
{{- end -}}
{{- end -}}

{{/* conch.redis.fits: stop where the server would be killed before it has reached its own limit. */}}
{{- define "conch.redis.fits" -}}
{{- $limit := dig "limits" "memory" "" .resources | toString -}}
{{- if $limit -}}
{{- if le (include "conch.amount" $limit | float64) (include "conch.amount" .maxMemory | float64) -}}
{{- fail (printf "redis.resources.limits.memory is %s, which is not more than redis.maxMemory, %s: Redis would be killed before it drops what it may. Set the limit to half as much again as maxMemory." $limit .maxMemory) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* conch.redis.roles: who connects, each with a user of its own name. */}}
{{- define "conch.redis.roles" -}}
gateway,tokenizer,llm-worker,embed-worker,speech-worker,operator
{{- end -}}

{{/*
conch.redis.rules: what a role may do. Every role reads the whole registry and writes its own records. Reading takes
EVAL, which Redis lets only those run who may write the script's keys; the selector in parentheses gives that right
together with commands that only read, so a script that writes is still refused. The gateway also keeps answers, under
prefixes of their own.
*/}}
{{- define "conch.redis.rules" -}}
{{- $role := index . 1 -}}
{{- $registry := (include "conch.contract" (index . 0) | fromYaml).registry -}}
{{- $own := dict
  "gateway" (printf "&%s ~%sgateways ~%s ~%s" $registry.loads $registry.prefix $registry.loads $registry.wakes)
  "tokenizer" (printf "~%sworkers:tokenizer" $registry.prefix)
  "llm-worker" (printf "~%sworkers:llm" $registry.prefix)
  "embed-worker" (printf "~%sworkers:embed" $registry.prefix)
  "speech-worker" (printf "~%sworkers:speech" $registry.prefix) -}}
{{- $always := printf "resetchannels &%s -@all +ping +publish +subscribe +unsubscribe" $registry.changes -}}
{{- if eq $role "operator" -}}
{{ $always }} &{{ $registry.loads }} ~{{ $registry.prefix }}* +eval +time +type +exists +del +get +set +hget +hmget +hgetall +hvals +hlen +hset +hdel
{{- else -}}
{{ $always }} {{ get $own $role }} +hset +hdel +expire (~{{ $registry.prefix }}* +eval +type +exists +get +hget +hmget +hgetall +hvals +hlen)
{{- if eq $role "gateway" }} (~{{ $registry.cache }}* +get +set) (~{{ $registry.responses }}* +get +set +del){{ end -}}
{{- end -}}
{{- end -}}

{{/* conch.redis.allRules: the rules of all roles without passwords; Redis reads them at its start only. */}}
{{- define "conch.redis.allRules" -}}
{{- range $role := include "conch.redis.roles" . | splitList "," }}
{{ $role }} {{ include "conch.redis.rules" (list $ $role) }}
{{- end }}
{{- end -}}
