{{/* Gives each of a list of terms with a topologyKey the pods' own labelSelector, if it has none. */}}
{{- define "karpenter.withSelectors" -}}
{{- $selector := dict "matchLabels" (include "karpenter.selectorLabels" .root | fromYaml) -}}
{{- $terms := list -}}
{{- range .terms -}}
  {{- $terms = append $terms (ternary . (merge (dict "labelSelector" $selector) .) (hasKey . "labelSelector")) -}}
{{- end -}}
{{- toJson $terms -}}
{{- end -}}

{{- define "karpenter.affinity" -}}
{{- $affinity := dict -}}
{{- range $kind, $terms := .Values.affinity -}}
  {{- if not $terms -}}
  {{- else if eq $kind "nodeAffinity" -}}
    {{- $_ := set $affinity $kind $terms -}}
  {{- else if or (ne $kind "podAntiAffinity") (ne $.Values.spread "none") -}}
    {{- $required := include "karpenter.withSelectors" (dict "root" $ "terms" (default list $terms.requiredDuringSchedulingIgnoredDuringExecution)) | fromJsonArray -}}
    {{- $preferred := list -}}
    {{- range $terms.preferredDuringSchedulingIgnoredDuringExecution -}}
      {{- $term := index (include "karpenter.withSelectors" (dict "root" $ "terms" (list .podAffinityTerm)) | fromJsonArray) 0 -}}
      {{- $preferred = append $preferred (dict "weight" .weight "podAffinityTerm" $term) -}}
    {{- end -}}
    {{- if and (eq $kind "podAntiAffinity") (eq $.Values.spread "preferred") -}}
      {{- range $required }}{{ $preferred = append $preferred (dict "weight" 100 "podAffinityTerm" .) }}{{ end -}}
      {{- $required = list -}}
    {{- end -}}
    {{- $rest := omit $terms "requiredDuringSchedulingIgnoredDuringExecution" "preferredDuringSchedulingIgnoredDuringExecution" -}}
    {{- if $required }}{{ $_ := set $rest "requiredDuringSchedulingIgnoredDuringExecution" $required }}{{ end -}}
    {{- if $preferred }}{{ $_ := set $rest "preferredDuringSchedulingIgnoredDuringExecution" $preferred }}{{ end -}}
    {{- $_ := set $affinity $kind $rest -}}
  {{- end -}}
{{- end -}}
{{- if $affinity }}{{ toYaml $affinity }}{{ end -}}
{{- end -}}

{{- define "karpenter.spread" -}}
{{- if ne .Values.spread "none" -}}
  {{- $constraints := list -}}
  {{- range include "karpenter.withSelectors" (dict "root" . "terms" (default list .Values.topologySpreadConstraints)) | fromJsonArray -}}
    {{- $constraints = append $constraints (ternary (merge (dict "whenUnsatisfiable" "ScheduleAnyway") .) . (eq $.Values.spread "preferred")) -}}
  {{- end -}}
  {{- if $constraints }}{{ toYaml $constraints }}{{ end -}}
{{- end -}}
{{- end -}}
