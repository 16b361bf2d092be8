{{- define "tandem.name" -}}
{{- $name := printf "%s-%s" .Release.Name .Chart.Name }}
{{- if contains .Chart.Name .Release.Name }}{{ $name = .Release.Name }}{{ end }}
{{- $name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "tandem.selector" -}}
app.kubernetes.io/name: tandem
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tandem.labels" -}}
{{ include "tandem.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "tandem.volumes" -}}
{{- if .Values.memoryFile.enabled }}
- name: memory
  emptyDir:
    medium: Memory
    sizeLimit: {{ .Values.memoryFile.sizeLimit }}
{{- end }}
{{- with .Values.passwordsSecret }}
- name: passwords
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.metricsTokenSecret }}
- name: metrics-token
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- if .Values.member.enabled }}
- name: control
  emptyDir: {}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "tandem.volumeMounts" -}}
{{- if .Values.memoryFile.enabled }}
- name: memory
  mountPath: /memory
{{- end }}
{{- if .Values.passwordsSecret }}
- name: passwords
  mountPath: /passwords
  readOnly: true
{{- end }}
{{- if .Values.metricsTokenSecret }}
- name: metrics-token
  mountPath: /metrics-token
  readOnly: true
{{- end }}
{{- if .Values.member.enabled }}
- name: control
  mountPath: /control
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
