{{/* conch.workers.deployment: the Deployment of one pool, without its number of replicas. */}}
{{- define "conch.workers.deployment" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index . 2 -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "conch.workers.metadata" (list $root $component) | nindent 2 }}
spec:
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels:
      {{- include "conch.selector" (list $root $component) | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "conch.podLabels" (list $root $component) | nindent 8 }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "conch.pod" . | nindent 6 }}
      terminationGracePeriodSeconds: {{ add $values.drainSeconds 10 }}
      containers:
        - name: {{ $component }}
          {{- include "conch.container" . | nindent 10 }}
          ports:
            - name: http
              containerPort: {{ include "conch.port" (list $root "service") }}
            - name: admin
              containerPort: {{ include "conch.port" (list $root "admin") }}
          env:
            {{- include "conch.env" . | nindent 12 }}
            {{- include "conch.advertise" . | nindent 12 }}
            - name: CONCH_DRAIN_S
              value: {{ $values.drainSeconds | quote }}
            - name: CONCH_ADDRESS_RULES
              value: {{ include "conch.addresses" $root | quote }}
            {{- if $values.cacheSize }}
            - name: CONCH_CACHE_DIR
              value: /var/cache/conch
            {{- end }}
          {{- include "conch.probes" $root | nindent 10 }}
          volumeMounts:
            - name: tmp
              mountPath: /tmp
            {{- if $values.cacheSize }}
            - name: cache
              mountPath: /var/cache/conch
            {{- end }}
            {{- with include "conch.redis.caMount" $root }}{{ . | nindent 12 }}{{- end }}
      volumes:
        {{- include "conch.tmp" ($values.tmpSize | default "256Mi") | nindent 8 }}
        {{- if $values.cacheSize }}
        - name: cache
          emptyDir:
            sizeLimit: {{ $values.cacheSize }}
        {{- end }}
        {{- with include "conch.redis.caVolume" $root }}{{ . | nindent 8 }}{{- end }}
{{- end -}}
