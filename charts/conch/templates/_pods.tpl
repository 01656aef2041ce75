{{/*
What all pods have in common. Each named template is one part of a pod or container, so that a component's file shows
what is its own.
*/}}

{{/* conch.pod: service account, security, images and placement. Call with (list $ "gateway" .Values.gateway). */}}
{{- define "conch.pod" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index . 2 -}}
serviceAccountName: {{ include "conch.name" (list $root $component) }}
automountServiceAccountToken: {{ eq $component "operator" }}
enableServiceLinks: false
securityContext:
  {{- include "conch.podSecurity" . | nindent 2 }}
{{- with $root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "conch.selector" (list $root $component) | nindent 8 }}
  {{- end }}
{{- end -}}

{{- define "conch.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "conch.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* conch.amount: the number that `1536Mi` or `500m`, as Kubernetes says it, or `1gb`, as Redis does, stands for; a Redis `gb` is a Gi. */}}
{{- define "conch.amount" -}}
{{- $factors := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "kb" 1024 "mb" 1048576 "gb" 1073741824 "m" 0.001 -}}
{{- $amount := regexFind "^[0-9.]+([eE][+]?[0-9]+)?" . -}}
{{- mulf (float64 $amount) (get $factors (trimPrefix $amount .)) -}}
{{- end -}}

{{/* conch.resources.fit: stop where the API server would refuse the pods; of (container, resources). */}}
{{- define "conch.resources.fit" -}}
{{- $container := index . 0 -}}
{{- $limits := dig "limits" dict (index . 1) | default dict -}}
{{- range $name, $request := dig "requests" dict (index . 1) | default dict -}}
{{- if hasKey $limits $name -}}
{{- $limit := get $limits $name -}}
{{- if gt (include "conch.amount" (toString $request) | float64) (include "conch.amount" (toString $limit) | float64) -}}
{{- fail (printf "%s: requests.%s is %v, more than limits.%s, %v: lower the one or raise the other" $container $name $request $name $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* conch.container: image, security and resources of a container of ours. */}}
{{- define "conch.container" -}}
{{- $root := index . 0 -}}
image: {{ include "conch.image" (list $root (index . 1)) | quote }}
imagePullPolicy: {{ $root.Values.images.pullPolicy }}
securityContext:
  {{- include "conch.containerSecurity" $root | nindent 2 }}
{{- include "conch.resources.fit" (list (index . 1) (index . 2).resources) }}
resources:
  {{- toYaml (index . 2).resources | nindent 2 }}
{{- end -}}

{{/* conch.probes: a process of ours tells on its admin port whether it lives and whether requests may come. */}}
{{- define "conch.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end -}}

{{/* conch.tmp: the one folder that a container may write to, unless it says otherwise. Call with its size. */}}
{{- define "conch.tmp" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ . }}
{{- end -}}
