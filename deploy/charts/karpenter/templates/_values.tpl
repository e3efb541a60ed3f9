{{/* Refuses values that there are not, and names the nearest that there is. */}}
{{- define "karpenter.checkNames" -}}
{{- $names := .Files.Get "files/names.json" | fromJson -}}
{{- $olds := .Files.Get "files/old-values.yaml" | fromYamlArray -}}
{{- $known := dict "global" "any" -}}
{{- range $names.values }}{{ $_ := set $known . "any" }}{{ end -}}
{{- range $olds }}{{ $_ := set $known .old "any" }}{{ end -}}
{{- $objects := dict -}}
{{- range $names.objects }}{{ $_ := set $objects . true }}{{ end -}}
{{- range $olds -}}
  {{- $path := "" -}}
  {{- range initial (splitList "." .old) -}}
    {{- $path = trimPrefix "." (printf "%s.%s" $path .) -}}
    {{- $_ := set $objects $path true -}}
  {{- end -}}
{{- end -}}
{{- include "karpenter.checkObject" (dict "values" .Values "path" "" "known" $known "objects" $objects "names" $names.values) -}}
{{- end -}}

{{- define "karpenter.checkObject" -}}
{{- range $key, $value := .values -}}
  {{- $path := trimPrefix "." (printf "%s.%s" $.path $key) -}}
  {{- if hasKey $.known $path -}}
  {{- else if hasKey $.objects $path -}}
    {{- if kindIs "map" $value -}}
      {{- include "karpenter.checkObject" (dict "values" $value "path" $path "known" $.known "objects" $.objects "names" $.names) -}}
    {{- else if ne (toString $value) "<nil>" -}}
      {{- fail (printf "\n\n%s is no value but an object; docs/reference/chart.md has the names in it\n" $path) -}}
    {{- end -}}
  {{- else if ne (toString $value) "<nil>" -}}
    {{- fail (printf "\n\nthere is no value %s; %sdocs/reference/chart.md has all of them\n" $path (include "karpenter.nearest" (dict "path" $path "names" $.names))) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* "did you mean NAME? " of the name that is most like a path, if one is. Two words are as alike as the
share of pairs of letters that both have; the last word of a path counts by itself, too, since values are
often looked for in the wrong place. */}}
{{- define "karpenter.nearest" -}}
{{- $best := "" -}}
{{- $bestScore := 1.4 -}}{{- /* less is no likeness: settings.x shares "settings." with most */ -}}
{{- $path := include "karpenter.pairs" .path | fromJson -}}
{{- $last := include "karpenter.pairs" (last (splitList "." .path)) | fromJson -}}
{{- range .names -}}
  {{- $ofPath := include "karpenter.alike" (dict "a" $path "b" (include "karpenter.pairs" . | fromJson)) | float64 -}}
  {{- $ofLast := include "karpenter.alike" (dict "a" $last "b" (include "karpenter.pairs" (last (splitList "." .)) | fromJson)) | float64 -}}
  {{- $score := addf $ofLast $ofPath $ofPath -}}
  {{- if gt $score $bestScore }}{{ $best = . }}{{ $bestScore = $score }}{{ end -}}
{{- end -}}
{{- with $best }}{{ printf "did you mean %s? " . }}{{ end -}}
{{- end -}}

{{/* The pairs of neighbouring letters of a word, as a JSON object. */}}
{{- define "karpenter.pairs" -}}
{{- $word := lower . -}}
{{- $pairs := dict -}}
{{- range $i := until (int (max 0 (sub (len $word) 1))) -}}
  {{- $_ := set $pairs (substr $i (int (add $i 2)) $word) 1 -}}
{{- end -}}
{{- toJson $pairs -}}
{{- end -}}

{{- define "karpenter.alike" -}}
{{- $common := 0 -}}
{{- range $pair, $_ := .a }}{{ if hasKey $.b $pair }}{{ $common = add $common 1 }}{{ end }}{{ end -}}
{{- divf (mulf 2 $common) (max 1 (add (len .a) (len .b))) -}}
{{- end -}}

{{/* The values as JSON, with those under old names where they count now, and under "notes" what became
of each. Every template that reads settings or log values takes them from here. */}}
{{- define "karpenter.values" -}}
{{- $values := deepCopy .Values -}}
{{- $notes := list -}}
{{- range .Files.Get "files/old-values.yaml" | fromYamlArray -}}
  {{- $got := include "karpenter.at" (dict "values" $.Values "path" .old) | fromJson -}}
  {{- if $got.is -}}
    {{- if .new -}}
      {{- $new := splitList "." .new -}}
      {{- $in := $values -}}
      {{- range initial $new }}{{ $in = get $in . }}{{ end -}}
      {{- $now := get $in (last $new) -}}
      {{- if and (kindIs "string" $now) $now (hasPrefix "settings." .new) (not (has (toString $now) (list "0" "0.075"))) (ne (toString $now) (toString $got.value)) -}}
        {{- fail (printf "\n\n%s is %v, and %s, as it is called now, is %v; remove the first\n" .old $got.value .new $now) -}}
      {{- end -}}
      {{- $_ := set $in (last $new) $got.value -}}
      {{- $notes = append $notes (printf "%s is called %s now. It counts as that." .old .new) -}}
    {{- else if .dropped -}}
      {{- $notes = append $notes (printf "%s has no effect: %s." .old .dropped) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $_ := set $values "notes" $notes -}}
{{- toJson $values -}}
{{- end -}}

{{/* What is at a path: {"is": true, "value": …}. */}}
{{- define "karpenter.at" -}}
{{- $at := .values -}}
{{- $is := true -}}
{{- range splitList "." .path -}}
  {{- if and $is (kindIs "map" $at) (hasKey $at .) -}}
    {{- $at = get $at . -}}
  {{- else -}}
    {{- $is = false -}}
  {{- end -}}
{{- end -}}
{{- if or (not $is) (eq (toString $at) "<nil>") -}}
{"is": false}
{{- else -}}
{{- toJson (dict "is" true "value" $at) -}}
{{- end -}}
{{- end -}}

{{/* A value as text. Numbers of values files are floating-point ones: 16777216, not 1.6777216e+07. */}}
{{- define "karpenter.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}
{{- int64 . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}
