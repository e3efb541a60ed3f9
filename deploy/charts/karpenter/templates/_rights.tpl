{{/* The rules of a role in files/rights, which is a copy of deploy/kubernetes: dict "root" $ "file" …
"kind" … */}}
{{- define "karpenter.rules" -}}
{{- $rules := list -}}
{{- range splitList "\n---\n" (.root.Files.Get (printf "files/rights/%s" .file)) -}}
  {{- $object := fromYaml . -}}
  {{- if eq (get $object "kind") $.kind }}{{ $rules = concat $rules $object.rules }}{{ end -}}
{{- end -}}
{{- toJson $rules -}}
{{- end -}}

{{/* The rules in the whole cluster, as a JSON object: "provider" of the provider's own kinds, "core" of
the rest. */}}
{{- define "karpenter.clusterRules" -}}
{{- $env := include "karpenter.envMap" . | fromJson -}}
{{- $rules := include "karpenter.rules" (dict "root" . "file" "rbac.yaml" "kind" "ClusterRole") | fromJsonArray -}}
{{- $files := list -}}
{{- $providers := splitList "," .Values.provider -}}
{{- range $providers }}{{ if has . (list "kwok" "clusterapi") }}{{ $files = append $files (printf "%s.yaml" .) }}{{ end }}{{ end -}}
{{- if eq (lower (get $env "IGNORE_DRA_REQUESTS")) "false" }}{{ $files = append $files "dra.yaml" }}{{ end -}}
{{- if get $env "SCHEDULER_CONFIG" }}{{ $files = append $files "scheduler-config.yaml" }}{{ end -}}
{{- if include "karpenter.ranksPods" . }}{{ $files = append $files "pod-deletion-cost.yaml" }}{{ end -}}
{{- if and (has "aws" $providers) (eq (lower (default "" (get $env "LEGACY_APIS"))) "true") -}}
  {{- if .Values.specPolicy.enabled }}{{ fail "specPolicy.enabled forbids the controller what settings.legacyAPIs has it do: set one of the two" }}{{ end -}}
  {{- $files = append $files "legacy.yaml" -}}
{{- end -}}
{{- range $files -}}
  {{- $rules = concat $rules (include "karpenter.rules" (dict "root" $ "file" . "kind" "ClusterRole") | fromJsonArray) -}}
{{- end -}}
{{- if and (include "karpenter.managesHere" .) (not (get $env "CLUSTER_API_NAMESPACE")) -}}
  {{- $rules = concat $rules (include "karpenter.rules" (dict "root" . "file" "clusterapi.yaml" "kind" "Role") | fromJsonArray) -}}
{{- end -}}
{{- $core := list -}}
{{- $provider := list -}}
{{- range $rules -}}
  {{- $group := index .apiGroups 0 -}}
  {{- if eq $group "apiextensions.k8s.io" }}{{/* a definition is of the group in its name */}}{{ $group = regexReplaceAll "^[^.]+[.]" (index .resourceNames 0) "" }}{{ end -}}
  {{- if has $group (list "karpenter.k8s.aws" "karpenter.kwok.sh" "karpenter.cluster.x-k8s.io") -}}
    {{- if has (get (dict "karpenter.kwok.sh" "kwok" "karpenter.k8s.aws" "aws" "karpenter.cluster.x-k8s.io" "clusterapi") $group) $providers }}{{ $provider = append $provider . }}{{ end -}}
  {{- else if and (eq (lower (get $env "NOMINATE_PODS")) "false") (has "pods/status" .resources) -}}
  {{- else -}}
    {{- $core = append $core . -}}
  {{- end -}}
{{- end -}}
{{- if include "karpenter.observes" . -}}
  {{- $core = include "karpenter.reads" $core | fromJsonArray -}}
  {{- $provider = include "karpenter.reads" $provider | fromJsonArray -}}
{{- end -}}
{{- toJson (dict "core" (concat $core (default list .Values.additionalClusterRoleRules)) "provider" $provider) -}}
{{- end -}}

{{/* Whether the controller only observes. */}}
{{- define "karpenter.observes" -}}
{{- if eq (default "" (get (include "karpenter.envMap" . | fromJson) "MODE")) "observe" }}true{{ end -}}
{{- end -}}

{{/* What of rules is reading, but for the leases of others, which an observer does not look for. */}}
{{- define "karpenter.reads" -}}
{{- $reads := list -}}
{{- range . -}}
  {{- $verbs := list -}}
  {{- range .verbs }}{{ if has . (list "get" "list" "watch") }}{{ $verbs = append $verbs . }}{{ end }}{{ end -}}
  {{- if and $verbs (not (has "leases" .resources)) }}{{ $reads = append $reads (merge (dict "verbs" $verbs) .) }}{{ end -}}
{{- end -}}
{{- toJson $reads -}}
{{- end -}}

{{/* Whether this cluster is the management cluster of Cluster API. */}}
{{- define "karpenter.managesHere" -}}
{{- $env := include "karpenter.envMap" . | fromJson -}}
{{- if and (has "clusterapi" (splitList "," .Values.provider)) (not (get $env "CLUSTER_API_KUBECONFIG")) (not (get $env "CLUSTER_API_URL")) }}true{{ end -}}
{{- end -}}

{{/* Whether the gate PodDeletionCostManagement is on. */}}
{{- define "karpenter.ranksPods" -}}
{{- if regexMatch "(?i)PodDeletionCostManagement=(true|t|1)(,|$)" (default "" (get (include "karpenter.envMap" . | fromJson) "FEATURE_GATES")) }}true{{ end -}}
{{- end -}}

{{/* A role or a binding: dict "root" $ "kind" … "name" … "namespace" … "rules" … */}}
{{- define "karpenter.role" -}}
{{- if .rules -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
{{ include "karpenter.metadata" . }}
rules:
  {{- range .rules }}
  - {{ toYaml . | nindent 4 | trim }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
{{ include "karpenter.metadata" . }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "karpenter.serviceAccountName" .root }}
    namespace: {{ .root.Release.Namespace }}
---
{{ end -}}
{{- end -}}
