{{/* The name of all objects. */}}
{{- define "karpenter.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The labels by which the pods are found. They cannot change in an upgrade. */}}
{{- define "karpenter.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of every object. */}}
{{- define "karpenter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "karpenter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* metadata of an object: dict "root" $ "name" … "namespace" … "labels" … "annotations" … */}}
{{- define "karpenter.metadata" -}}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "karpenter.labels" .root | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with merge (dict) (default (dict) .annotations) (default (dict) .root.Values.additionalAnnotations) }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The name of the ServiceAccount. */}}
{{- define "karpenter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "karpenter.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Who made the ServiceAccount, if it is there already and not of this release; else nothing. */}}
{{- define "karpenter.serviceAccountOfOthers" -}}
{{- $found := lookup "v1" "ServiceAccount" .Release.Namespace (include "karpenter.serviceAccountName" .) -}}
{{- if $found -}}
{{- $labels := default (dict) $found.metadata.labels -}}
{{- $annotations := default (dict) $found.metadata.annotations -}}
{{- $isOurs := and (eq (default "" (get $annotations "meta.helm.sh/release-name")) .Release.Name) (eq (default "" (get $annotations "meta.helm.sh/release-namespace")) .Release.Namespace) -}}
{{- if not $isOurs -}}
{{- default "somebody" (get $labels "app.kubernetes.io/managed-by") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The image: the chart's digest counts unless another tag is asked for. */}}
{{- define "karpenter.image" -}}
{{- with .Values.controller.image -}}
{{- $digest := .digest -}}
{{- if and (not $digest) (not .tag) -}}
{{- with $.Chart.Annotations }}{{ $digest = index . "dovetail.sh/image-digest" }}{{ end -}}
{{- end -}}
{{- printf "%s:%s" .repository (toString (default $.Chart.AppVersion .tag)) -}}
{{- with $digest }}{{ printf "@%s" . }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* Whom the FlowSchemas are about. */}}
{{- define "karpenter.flowSubjects" -}}
- kind: ServiceAccount
  serviceAccount:
    name: {{ include "karpenter.serviceAccountName" . }}
    namespace: {{ .Release.Namespace }}
{{- end -}}
