{{- define "leasehold.name" -}}
{{- if contains "leasehold" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-leasehold" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "leasehold.selector" -}}
app.kubernetes.io/name: leasehold
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "leasehold.labels" -}}
{{ include "leasehold.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "leasehold.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* What all pods have in common. */}}
{{- define "leasehold.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "leasehold.containerSecurity" -}}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: { drop: [ALL] }
{{- end }}

{{- /* An agent's container: (dict "root" $ "workers" 32 "resources" … "port" "http") */}}
{{- define "leasehold.container" -}}
name: leasehold
image: {{ include "leasehold.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [run]
envFrom:
  - secretRef: { name: {{ required "secret names the Secret with DATABASE_URL" .root.Values.secret }} }
env:
  - { name: WORKERS, value: {{ .workers | quote }} }
  - name: POD_ADDRESS
    valueFrom: { fieldRef: { fieldPath: status.podIP } }
ports:
  - { name: {{ .port }}, containerPort: 7070 }
livenessProbe: # the loop turns. An outage of the store restarts nothing
  httpGet: { path: /-/healthy, port: {{ .port }} }
  periodSeconds: 10
  failureThreshold: 6
resources:
  {{- toYaml .resources | nindent 2 }}
{{ include "leasehold.containerSecurity" .root }}
volumeMounts:
  - { name: leasehold, mountPath: /etc/leasehold, readOnly: true }
  - { name: leasehold-tmp, mountPath: /tmp }
{{- end }}

{{- define "leasehold.readiness" -}}
readinessProbe: # the store is within reach and migrated, and the agent does not drain
  httpGet: { path: /-/ready, port: http }
  periodSeconds: 5
{{- end }}

{{- define "leasehold.volumes" -}}
- name: leasehold
  configMap: { name: {{ include "leasehold.name" . }} }
- name: leasehold-tmp
  emptyDir: { sizeLimit: 1Gi }
{{- end }}

{{- define "leasehold.annotations" -}}
leasehold/config: {{ .Values.config | sha256sum }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}
