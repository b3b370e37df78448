{{- define "godwit.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/part-of: godwit
{{ include "godwit.selector" . }}
{{- end }}

{{- define "godwit.selector" -}}
app.kubernetes.io/name: godwit
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .Values.mode }}
{{- end }}

{{- define "godwit.meta" -}}
name: {{ .Release.Name }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "godwit.labels" . | nindent 2 }}
{{- end }}

{{- /* Whether replicas choose a leader. */}}
{{- define "godwit.elects" -}}
{{- if dig "leaderElection" "enabled" false .Values.config }}yes{{ end }}
{{- end }}

{{- /* Whether members are divided over replicas. */}}
{{- define "godwit.divides" -}}
{{- if dig "sharding" "enabled" false .Values.config }}yes{{ end }}
{{- end }}

{{- /* The name of the Lease. */}}
{{- define "godwit.lease" -}}
{{ dig "leaderElection" "name" .Release.Name .Values.config }}
{{- end }}

{{- /* Where Secrets of members are read: names, each followed by a space. */}}
{{- define "godwit.namespaces" -}}
{{- $all := dig "clusters" "namespaces" list .Values.config }}
{{- if not $all }}
{{- $all = list .Release.Namespace }}
{{- if dig "clusters" "argocd" false .Values.config }}
{{- $all = append $all "argocd" }}
{{- end }}
{{- end }}
{{- range uniq $all }}{{ . }} {{ end }}
{{- end }}

{{- /* godwit.yaml */}}
{{- define "godwit.config" -}}
{{- $config := deepCopy .Values.config }}
{{- if eq .Values.mode "agent" }}
{{- $_ := unset $config "source" }}
{{- else }}
{{- $clusters := dig "clusters" dict $config }}
{{- $_ := set $clusters "namespaces" (splitList " " (include "godwit.namespaces" . | trim)) }}
{{- $_ := set $config "clusters" $clusters }}
{{- end }}
{{- if include "godwit.elects" . }}
{{- $_ := set $config.leaderElection "namespace" .Release.Namespace }}
{{- $_ := set $config.leaderElection "name" (include "godwit.lease" .) }}
{{- end }}
{{- toYaml $config }}
{{- end }}
