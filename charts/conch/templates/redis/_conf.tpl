{{- define "conch.redis.conf" -}}
port {{ include "conch.port" (list . "redis") }}
dir /data
aclfile /etc/conch/redis-users/users.acl
appendonly yes
appendfsync everysec
# The append-only file is the persistence; snapshots would only double the writes.
save ""
maxmemory {{ .Values.redis.maxMemory }}
# Only caches have a time to live, so only they make room; routes and tokenizers stay.
maxmemory-policy volatile-lru
tcp-keepalive 60
{{- end -}}
