{{- define "sluice.labels" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "sluice.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sluice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "sluice.confVolume" -}}
- name: conf
  configMap:
    name: {{ .Release.Name }}-conf
    items:
      - key: canal.properties
        path: canal.properties
      {{- range $name, $lines := .Values.service.destinations }}
      - key: {{ $name }}
        path: {{ $name }}/instance.properties
      {{- end }}
{{- end }}
