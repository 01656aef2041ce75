{{/*
conch.operator.retirement: the Job that takes statuses back. Call with (list $ <name> <hook> <ConfigMap of the settings>
<arguments>).
*/}}
{{- define "conch.operator.retirement" -}}
{{- $root := index . 0 -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "conch.name" (list $root (index . 1)) }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "conch.labels" (list $root "retirement") | nindent 4 }}
  annotations:
    helm.sh/hook: {{ index . 2 }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 2
  # It takes about 15 s. Where it cannot run, `--no-hooks` of the command goes on without it.
  activeDeadlineSeconds: 180
  template:
    metadata:
      labels:
        {{- include "conch.selector" (list $root "retirement") | nindent 8 }}
    spec:
      {{- include "conch.pod" (list $root "operator" $root.Values.operator) | nindent 6 }}
      restartPolicy: Never
      containers:
        - name: retirement
          {{- include "conch.container" (list $root "operator" $root.Values.operator) | nindent 10 }}
          args: {{ index . 4 | toJson }}
          env:
            {{- include "conch.env" (list $root "operator" $root.Values.operator) | nindent 12 }}
            - name: CONCH_SETTINGS_FILE
              value: /etc/conch/operator/settings.yaml
            - name: CONCH_POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
          volumeMounts:
            - name: tmp
              mountPath: /tmp
            - name: settings
              mountPath: /etc/conch/operator
              readOnly: true
      volumes:
        {{- include "conch.tmp" "256Mi" | nindent 8 }}
        - name: settings
          configMap:
            name: {{ include "conch.name" (list $root (index . 3)) }}
{{- end -}}

{{/*
conch.operator.left: the arguments of `conch retire` for the namespaces that this upgrade takes out of
operator.watchNamespaces, as JSON; empty where it takes out none, and where Helm cannot look at the cluster.
*/}}
{{- define "conch.operator.left" -}}
{{- $now := lookup "v1" "ConfigMap" .Release.Namespace (include "conch.name" (list . "operator")) -}}
{{- $wanted := .Values.operator.watchNamespaces -}}
{{- if and $now $wanted -}}
{{- $told := dig "data" "settings.yaml" "" $now | fromYaml -}}
{{- $left := list -}}
{{- range $told.watchNamespaces -}}
{{- if not (has . $wanted) -}}
{{- $left = append $left . -}}
{{- end -}}
{{- end -}}
{{- if not $told.watchNamespaces -}}
{{ concat (list "retire" "--staying") $wanted | toJson }}
{{- else if $left -}}
{{ concat (list "retire" "--left") $left | toJson }}
{{- end -}}
{{- end -}}
{{- end -}}
