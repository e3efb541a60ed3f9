{{/* The settings: environment variable, value below "settings", and the provider that reads it. */}}
{{- define "karpenter.settings" -}}
- {env: BATCH_MAX_DURATION, value: batchMaxDuration}
- {env: BATCH_IDLE_DURATION, value: batchIdleDuration}
- {env: PREFERENCE_POLICY, value: preferencePolicy}
- {env: MIN_VALUES_POLICY, value: minValuesPolicy}
- {env: IGNORE_DRA_REQUESTS, value: ignoreDRARequests}
- {env: DISABLE_CLUSTER_STATE_OBSERVABILITY, value: disableClusterStateObservability}
- {env: CLUSTER_NAME, value: clusterName, provider: aws}
- {env: CLUSTER_CA_BUNDLE, value: clusterCABundle, provider: aws}
- {env: CLUSTER_ENDPOINT, value: clusterEndpoint, provider: aws}
- {env: ISOLATED_VPC, value: isolatedVPC, provider: aws}
- {env: EKS_CONTROL_PLANE, value: eksControlPlane, provider: aws}
- {env: ENABLE_ZONAL_SHIFT, value: enableZonalShift, provider: aws}
- {env: VM_MEMORY_OVERHEAD_PERCENT, value: vmMemoryOverheadPercent, provider: aws}
- {env: INTERRUPTION_QUEUE, value: interruptionQueue, provider: aws}
- {env: RESERVED_ENIS, value: reservedENIs, provider: aws}
- {env: DISABLE_DRY_RUN, value: disableDryRun, provider: aws}
- {env: AMI_REFRESH_INTERVAL, value: amiRefreshInterval, provider: aws}
- {env: SUBNET_REFRESH_INTERVAL, value: subnetRefreshInterval, provider: aws}
- {env: SECURITY_GROUP_REFRESH_INTERVAL, value: securityGroupRefreshInterval, provider: aws}
- {env: REPLACE_ON_REBALANCE, value: replaceOnRebalance, provider: aws}
- {env: INSTANCE_TYPES_FILE_PATH, value: instanceTypesFilePath, provider: kwok}
- {env: PROVIDER_ADDRESS, value: providerAddress, provider: remote}
- {env: PROVIDER_CA, value: providerCA, provider: remote}
- {env: PROVIDER_CERT, value: providerCert, provider: remote}
- {env: PROVIDER_KEY, value: providerKey, provider: remote}
- {env: PROVIDER_SERVER_NAME, value: providerServerName, provider: remote}
- {env: PROVIDER_PLAINTEXT, value: providerPlaintext, provider: remote}
- {env: CLUSTER_API_KUBECONFIG, value: clusterAPIKubeconfig, provider: clusterapi}
- {env: CLUSTER_API_URL, value: clusterAPIURL, provider: clusterapi}
- {env: CLUSTER_API_TOKEN, value: clusterAPIToken, provider: clusterapi}
- {env: CLUSTER_API_CERTIFICATE_AUTHORITY_DATA, value: clusterAPICertificateAuthorityData, provider: clusterapi}
- {env: CLUSTER_API_SKIP_TLS_VERIFY, value: clusterAPISkipTLSVerify, provider: clusterapi}
- {env: CLUSTER_API_NAMESPACE, value: clusterAPINamespace, provider: clusterapi}
- {env: CLUSTER_API_PRICES_FILE, value: clusterAPIPricesFile, provider: clusterapi}
- {env: CONSOLIDATION_EVICTION_HOURLY_DOLLARS, value: consolidationEvictionHourlyDollars}
- {env: CONSOLIDATION_GAP_MAX, value: consolidationGapMax}
- {env: CONSOLIDATION_REST, value: consolidationRest}
- {env: CONSOLIDATION_SAVING_SHARE_MIN, value: consolidationSavingShareMin}
- {env: CONSOLIDATION_SPOT_POOLS, value: consolidationSpotPools}
- {env: CONSOLIDATION_STEP_MAX, value: consolidationStepMax}
- {env: LAUNCH_PRICE_CAP, value: launchPriceCap}
- {env: BATCH_LAUNCH_EARLY, value: batchLaunchEarly}
- {env: RESILIENCE_PREMIUM, value: resiliencePremium}
- {env: NOMINATE_PODS, value: nominatePods}
- {env: NOMINATE_WAIT_MAX, value: nominateWaitMax}
- {env: MODE, value: mode}
- {env: PAUSE_DISRUPTION, value: pauseDisruption}
- {env: LEGACY_NODE_REPAIR, value: legacyNodeRepair}
- {env: SCHEDULER_CONFIG, value: schedulerConfig}
- {env: CLUSTER_AUTOSCALER_ANNOTATIONS, value: clusterAutoscalerAnnotations}
- {env: EXPENDABLE_PODS_PRIORITY_CUTOFF, value: expendablePodsPriorityCutoff}
- {env: LEGACY_APIS, value: legacyAPIs, provider: aws}
- {env: LOG_FORMAT, value: logFormat}
- {env: JOURNAL_MEMORY_BYTES, value: journalMemoryBytes}
- {env: JOURNAL_DIR, value: journalDir}
- {env: JOURNAL_DISK_BYTES, value: journalDiskBytes}
- {env: DEBUG_PORT, value: debugPort}
- {env: ENABLE_PROFILING, value: enableProfiling}
- {env: KUBE_CLIENT_BURST, value: kubeClientBurst}
- {env: KUBE_CLIENT_QPS, value: kubeClientQPS}
- {env: DISABLE_LEADER_ELECTION, value: disableLeaderElection}
- {env: LEADER_ELECTION_NAME, value: leaderElectionName}
- {env: LEADER_ELECTION_NAMESPACE, value: leaderElectionNamespace}
{{- end -}}

{{/* The gates: name and value below "settings.featureGates" and "settings.awsFeatureGates". */}}
{{- define "karpenter.gates" -}}
featureGates:
  - {gate: ReservedCapacity, value: reservedCapacity}
  - {gate: SpotToSpotConsolidation, value: spotToSpotConsolidation}
  - {gate: NodeRepair, value: nodeRepair}
  - {gate: NodeOverlay, value: nodeOverlay}
  - {gate: StaticCapacity, value: staticCapacity}
  - {gate: CapacityBuffer, value: capacityBuffer}
  - {gate: TerminateFirstDrift, value: terminateFirstDrift}
  - {gate: TerminateFirstRepair, value: terminateFirstRepair}
  - {gate: PodDeletionCostManagement, value: podDeletionCostManagement}
awsFeatureGates:
  - {gate: NodeClassCEL, value: nodeClassCEL}
  - {gate: DRANVIDIAGPU, value: draNVIDIAGPU}
  - {gate: DRAEFA, value: draEFA}
  - {gate: RebootForRepair, value: rebootForRepair}
{{- end -}}

{{/* The volume of the journal, if the chart adds one. */}}
{{- define "karpenter.journalVolume" -}}
{{- $isGiven := false -}}
{{- range .Values.controller.env }}{{ if eq .name "JOURNAL_DIR" }}{{ $isGiven = true }}{{ end }}{{ end -}}
{{- $settings := (include "karpenter.values" . | fromJson).settings -}}
{{- if and .Values.journalVolume.enabled (not $isGiven) (has (toString $settings.journalDir) (list "<nil>" "")) (ne (toString $settings.journalMemoryBytes) "0") -}}
name: dovetail-journal
{{- with .Values.journalVolume.existingClaim }}
persistentVolumeClaim:
  claimName: {{ tpl . $ | quote }}
{{- else }}
emptyDir:
  sizeLimit: {{ mul 2 (default 268435456 $settings.journalDiskBytes | int64) | quote }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* The chart's own environment variables with a value, as a JSON list of {name, value}. */}}
{{- define "karpenter.ownEnv" -}}
{{- $values := include "karpenter.values" . | fromJson -}}
{{- $providers := splitList "," $values.provider -}}
{{- $env := list
  (dict "name" "CLOUD_PROVIDER" "value" $values.provider)
  (dict "name" "LOG_LEVEL" "value" (include "karpenter.text" $values.logLevel))
  (dict "name" "LOG_OUTPUT_PATHS" "value" (join "," $values.logOutputPaths))
  (dict "name" "LOG_ERROR_OUTPUT_PATHS" "value" (join "," $values.logErrorOutputPaths))
  (dict "name" "METRICS_LEVEL" "value" (include "karpenter.text" $values.metrics.level))
  (dict "name" "METRICS_PORT" "value" (include "karpenter.text" $values.controller.metrics.port))
  (dict "name" "HEALTH_PROBE_PORT" "value" (include "karpenter.text" $values.controller.healthProbe.port)) -}}
{{- range include "karpenter.settings" . | fromYamlArray -}}
  {{- $value := get $values.settings .value -}}
  {{- $isSet := not (has (toString $value) (list "<nil>" "")) -}}
  {{- /* With another provider only what was asked for: the controller says that it has no effect. */ -}}
  {{- if and .provider (not (has .provider $providers)) (not (and (kindIs "string" $value) (has .value (list "clusterName" "clusterCABundle" "clusterEndpoint" "interruptionQueue" "instanceTypesFilePath")))) -}}
    {{- $isSet = false -}}
  {{- end -}}
  {{- if $isSet -}}
    {{- $env = append $env (dict "name" .env "value" (tpl (include "karpenter.text" $value) $)) -}}
  {{- end -}}
{{- end -}}
{{- if include "karpenter.journalVolume" . -}}
  {{- $env = append $env (dict "name" "JOURNAL_DIR" "value" "/var/lib/dovetail") -}}
{{- end -}}
{{- $gates := include "karpenter.gates" . | fromYaml -}}
{{- range $list, $name := dict "featureGates" "FEATURE_GATES" "awsFeatureGates" "AWS_FEATURE_GATES" -}}
  {{- $parts := list -}}
  {{- range get $gates $list -}}
    {{- $value := get (default (dict) (get $values.settings $list)) .value -}}
    {{- if ne (toString $value) "<nil>" }}{{ $parts = append $parts (printf "%s=%v" .gate $value) }}{{ end -}}
  {{- end -}}
  {{- if and $parts (or (has "aws" $providers) (eq $list "featureGates")) -}}
    {{- $env = append $env (dict "name" $name "value" (join "," $parts)) -}}
  {{- end -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/* What the container's variables are in the end, as a JSON object: the chart's own, then those of
controller.env, which take their places. One that is taken from elsewhere is the text "?". */}}
{{- define "karpenter.envMap" -}}
{{- $all := dict -}}
{{- range include "karpenter.ownEnv" . | fromJsonArray }}{{ $_ := set $all .name .value }}{{ end -}}
{{- range .Values.controller.env }}{{ $_ := set $all .name (toString (default "" .value)) }}{{ if .valueFrom }}{{ $_ := set $all .name "?" }}{{ end }}{{ end -}}
{{- if and (has "aws" (splitList "," .Values.provider)) (not $all.CLUSTER_NAME) (not .Values.controller.envFrom) -}}
{{- include "karpenter.checkNames" . -}}{{- /* of a mistyped clusterName, say that */ -}}
{{- fail "\n\nsettings.clusterName is empty; it must be the name of the EKS cluster: --set settings.clusterName=NAME\n" -}}
{{- end -}}
{{- if and (has "remote" (splitList "," .Values.provider)) (not $all.PROVIDER_ADDRESS) (not .Values.controller.envFrom) -}}
{{- include "karpenter.checkNames" . -}}
{{- fail "\n\nsettings.providerAddress is empty; it may be unix:///path/to/socket or dns:///host:port\n" -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* The container's env: the chart's own but for those that controller.env names, then those. No name is
there twice, which server-side apply refuses. */}}
{{- define "karpenter.env" -}}
{{- $given := dict -}}
{{- range .Values.controller.env }}{{ $_ := set $given .name true }}{{ end -}}
{{- range include "karpenter.ownEnv" . | fromJsonArray }}
{{- if not (hasKey $given .name) }}
- name: {{ .name }}
  value: {{ .value | quote }}
{{- end }}
{{- end }}
{{- if not (hasKey $given "MEMORY_LIMIT") }}
- name: MEMORY_LIMIT
  valueFrom:
    resourceFieldRef:
      containerName: {{ .Values.controller.containerName }}
      divisor: "0"
      resource: limits.memory
{{- end }}
{{- with .Values.controller.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}
