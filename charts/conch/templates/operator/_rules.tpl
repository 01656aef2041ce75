{{/*
What the operator may do where ModelDeployments and EnginePools live: read them and write their status; keep the objects that run an
engine; read ConfigMaps with chat templates; read pods for the cause when one does not start, with what nodes tell in
Events about it, and open the readiness gate of those that serve; list and watch ReplicaSets to see that a pod was made for
a model; tell in Events what has happened. It reads no Secret.
*/}}
{{- define "conch.operator.rules" -}}
{{- $contract := include "conch.contract" . | fromYaml -}}
- apiGroups: [{{ $contract.group }}]
  resources: [{{ $contract.plural }}, {{ $contract.poolPlural }}]
  verbs: [get, list, watch]
- apiGroups: [{{ $contract.group }}]
  resources: [{{ $contract.plural }}/status, {{ $contract.poolPlural }}/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
{{- if .Values.networkPolicy.enabled }}
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [list]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}
