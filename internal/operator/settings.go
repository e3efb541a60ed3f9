package operator

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Values of --cloud-provider.
const (
	providerKWOK       = "kwok"
	providerAWS        = "aws"
	providerRemote     = "remote"
	providerClusterAPI = "clusterapi"
)

// providers returns the values of --cloud-provider, the first of which is the default.
func (s *Settings) providers() []string { return strings.Split(s.CloudProvider, ",") }

// uses reports whether a value is among those of --cloud-provider.
func (s *Settings) uses(provider string) bool { return slices.Contains(s.providers(), provider) }

// validateProviders returns an error that says what --cloud-provider may be.
func (s *Settings) validateProviders() error {
	for i, name := range s.providers() {
		if !slices.Contains([]string{providerKWOK, providerAWS, providerRemote, providerClusterAPI}, name) {
			return fmt.Errorf("--cloud-provider is %q; it may be %s, or several of these with commas between", s.CloudProvider, strings.Join([]string{providerKWOK, providerAWS, providerRemote, providerClusterAPI}, ", "))
		}
		if slices.Contains(s.providers()[:i], name) {
			return fmt.Errorf("--cloud-provider is %q; each provider may be there once", s.CloudProvider)
		}
	}
	if s.LegacyAPIs && len(s.providers()) > 1 && s.providers()[0] != providerAWS {
		return fmt.Errorf("--legacy-apis is set, and --cloud-provider is %q; aws must be the first of it then", s.CloudProvider)
	}
	return nil
}

// provider returns which cloud the other settings are for; empty: they are for any.
func (s *Settings) provider() string {
	if s.ClusterName != "" || s.InterruptionQueue != "" {
		return providerAWS
	}
	return ""
}

// Settings are what an operator may set, by flag or environment. The names and defaults
// are Karpenter's, so that the same Helm values mean the same.
type Settings struct {
	KarpenterService                 string
	CloudProvider                    string
	Mode                             string
	MetricsPort, HealthProbePort     int
	MetricsLevel                     string
	DebugPort                        int
	KubeClientQPS, KubeClientBurst   int
	EnableProfiling                  bool
	DisableControllerWarmup          bool
	DisableLeaderElection            bool
	DisableClusterStateObservability bool
	LeaderElectionName               string
	LeaderElectionNamespace          string
	MemoryLimit                      int64
	CPURequests                      int
	LogFormat                        string
	LogLevel                         string
	LogOutputPaths                   string
	LogErrorOutputPaths              string
	BatchMaxDuration                 time.Duration
	BatchIdleDuration                time.Duration
	BatchLaunchEarly                 bool
	PreferencePolicy                 string
	MinValuesPolicy                  string
	IgnoreDRARequests                bool
	LegacyNodeRepair                 bool
	LegacyAPIs                       bool
	FeatureGates                     string
	SchedulerConfig                  string
	InstanceTypesFilePath            string
	LaunchPriceCap                   float64
	ResiliencePremium                float64
	ConsolidationEvictionDollars     float64
	ConsolidationSavingShareMin      float64
	ConsolidationGapMax              float64
	ConsolidationStepMax             int
	ConsolidationSpotPools           int
	ConsolidationRest                time.Duration
	PauseDisruption                  bool
	NominatePods                     bool
	NominateWaitMax                  time.Duration
	ClusterAutoscalerAnnotations     bool
	ExpendablePodsPriorityCutoff     int
	JournalMemoryBytes               int64
	JournalDir                       string
	JournalDiskBytes                 int64

	AWSSettings
	RemoteSettings
	ClusterAPISettings

	// Warnings are environment variables that could not be read and were left aside.
	Warnings []string
}

const featureGatesDefault = "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false,TerminateFirstDrift=false,TerminateFirstRepair=false,PodDeletionCostManagement=false"

// AddFlags adds every setting to a flag set. A flag that is not given takes its value
// from the environment variable of the same name in capitals, else its default.
func (s *Settings) AddFlags(fs *pflag.FlagSet) {
	a := adder{fs, s}
	a.text(&s.CloudProvider, "cloud-provider", "", "the cloud that instances are launched in: aws; clusterapi, a management cluster of Cluster API; kwok, which simulates them; or remote, another process that launches them (--provider-address). Several with commas between: each NodePool has its instances from the one whose kind of node class its nodeClassRef names, and without a nodeClassRef from the first. It must be set unless --cluster-name or --interruption-queue is, which means aws")
	a.text(&s.Mode, "mode", ModeActive, "active, or observe: decide, log, keep the journal, serve metrics and views, and change nothing in the cluster or the cloud; the lease has another name then (-observe at its end), so this runs beside another controller")
	a.text(&s.KarpenterService, "karpenter-service", "", "the name of the Service; accepted for compatibility, unused")
	a.number(&s.MetricsPort, "metrics-port", 8080, "port of /metrics; 0 takes any free one")
	a.text(&s.MetricsLevel, "metrics-level", observe.LevelDefault, "which metrics are served: essential, what the chart's alerts read, and counts of decisions, nodes and NodePools; default; or all, also the instance types that no NodePool allows, as Karpenter does")
	a.number(&s.HealthProbePort, "health-probe-port", 8081, "port of /healthz and /readyz; 0 takes any free one")
	a.number(&s.DebugPort, "debug-port", 8082, "port of /debug, which answers on the loopback address only, as kubectl port-forward reaches it; 0 takes any free one")
	a.number(&s.KubeClientQPS, "kube-client-qps", 200, "sustained requests per second to the API server")
	a.number(&s.KubeClientBurst, "kube-client-burst", 300, "requests at once to the API server")
	a.flag(&s.EnableProfiling, "enable-profiling", false, "serve /debug/pprof on the debug port")
	a.flag(&s.DisableControllerWarmup, "disable-controller-warmup", true, "accepted for compatibility, without effect: caches are always filled while waiting for the lease")
	a.flag(&s.DisableLeaderElection, "disable-leader-election", false, "run without leader election; for a single replica only")
	a.flag(&s.DisableClusterStateObservability, "disable-cluster-state-observability", false, "drop the metrics of single pods, nodes and pools")
	a.text(&s.LeaderElectionName, "leader-election-name", "karpenter-leader-election", "name of the lease; with --mode=observe, -observe is added")
	a.text(&s.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the lease; empty: the pod's own, or kube-system")
	a.bytes(&s.MemoryLimit, "memory-limit", -1, "memory of the container in bytes; the garbage collector keeps below 90 % of it; -1: no limit")
	a.number(&s.CPURequests, "cpu-requests", 1000, "cpu of the container in millicores; accepted for compatibility, without effect: the number of workers is fixed")
	a.text(&s.LogFormat, "log-format", formatJSON, "json, as Karpenter's logs are, or console: lines for people")
	a.text(&s.LogLevel, "log-level", "info", "debug, info or error")
	a.text(&s.LogOutputPaths, "log-output-paths", "stdout", "where logs go: stdout, stderr or files, comma separated")
	a.text(&s.LogErrorOutputPaths, "log-error-output-paths", "stderr", "where it is said that the log cannot be written: stdout, stderr or files, comma separated")
	a.duration(&s.BatchMaxDuration, "batch-max-duration", 10*time.Second, "longest time for which pending pods are collected before a decision; if it is shorter than the idle duration, the idle duration has no effect")
	a.duration(&s.BatchIdleDuration, "batch-idle-duration", time.Second, "time without a new pending pod after which a decision is made")
	a.flag(&s.BatchLaunchEarly, "batch-launch-early", true, "launch nodes before the batch durations are over, when pods that may still come would not change them, and for pods that kube-scheduler has yet to try if it refused one like them; false: always wait, as Karpenter does")
	a.text(&s.PreferencePolicy, "preference-policy", "Respect", "Respect or Ignore preferred affinities")
	a.text(&s.MinValuesPolicy, "min-values-policy", "Strict", "Strict, or BestEffort: lower minValues to what is available")
	a.flag(&s.IgnoreDRARequests, "ignore-dra-requests", true, "launch nothing for pods with ResourceClaims; false: for those whose devices are known")
	a.flag(&s.LegacyNodeRepair, "legacy-node-repair", false, "with the gate NodeRepair: repair as Karpenter 1.14 does, at once and without regard to budgets and PodDisruptionBudgets")
	a.flag(&s.LegacyAPIs, "legacy-apis", false, "aws: make NodePools of Provisioners (v1alpha5) and EC2NodeClasses of AWSNodeTemplates (v1alpha1), whose definitions are those of dovetail crds --legacy")
	a.text(&s.FeatureGates, "feature-gates", featureGatesDefault, "Name=true|false, comma separated; unknown names are ignored with a warning")
	a.text(&s.SchedulerConfig, "scheduler-config", "", "the scheduler's default constraints, YAML or JSON")
	a.factor(&s.LaunchPriceCap, "launch-price-cap", 1.5, "highest price of the instance types of a launch, as a multiple of the cheapest one's; a spot launch exceeds it until it has 15 types and zones to choose from")
	a.factor(&s.ResiliencePremium, "resilience-premium", 0, "how much more a plan may cost so that fewer pods of a workload are lost with one node, zone or spot offering, as a share of its price; twice as much for spot nodes; 0: the cheapest plan is taken")
	s.addConsolidation(a)
	a.flag(&s.PauseDisruption, "pause-disruption", false, "remove and replace no node by choice: not for drift, expiry, repair or consolidation. Also the ConfigMap dovetail-pause and the annotation dovetail.sh/pause-disruption of a NodePool do that, without a restart (dovetail pause)")
	a.flag(&s.NominatePods, "nominate-pods", true, "write the node that each pod was planned for into status.nominatedNodeName, for kube-scheduler")
	a.duration(&s.NominateWaitMax, "nominate-wait-max", 10*time.Second, "longest time that a ready node keeps its startup taint until its pods can safely bind; it is short unless kube-scheduler is overloaded")
	s.addAutoscaler(a)
	a.bytes(&s.JournalMemoryBytes, "journal-memory-bytes", 16<<20, "memory limit of the journal, which dovetail explain and replay read from /debug/journal on the debug port; 0: keep no decisions, and serve neither them nor views")
	a.text(&s.JournalDir, "journal-dir", "", "directory in which the journal is kept; empty: none")
	a.bytes(&s.JournalDiskBytes, "journal-disk-bytes", 256<<20, "size limit of --journal-dir; the oldest decisions are deleted")
	a.text(&s.InstanceTypesFilePath, "instance-types-file-path", "", "kwok: file with the instance types; empty: the default ones")
	s.addAWSFlags(a)
	s.addRemoteFlags(a)
	s.addClusterAPIFlags(a)
}

// Validate returns an error that names the flag and what it may be.
func (s *Settings) Validate() error {
	if s.CloudProvider == "" {
		s.CloudProvider = s.provider()
	}
	if s.CloudProvider == "" {
		return errors.New("--cloud-provider (CLOUD_PROVIDER) is not set: set it to aws, with --cluster-name, to clusterapi, to kwok, which simulates instances, or to remote, with --provider-address")
	}
	oneOf := func(flag, value string, allowed ...string) error {
		if slices.Contains(allowed, value) {
			return nil
		}
		return fmt.Errorf("--%s is %q; it may be %s", flag, value, strings.Join(allowed, ", "))
	}
	between := func(flag string, value, least, most int) error {
		if value >= least && value <= most {
			return nil
		}
		return fmt.Errorf("--%s is %d; it may be %d to %d", flag, value, least, most)
	}
	var priceCap error
	if !(s.LaunchPriceCap >= 1) {
		priceCap = fmt.Errorf("--launch-price-cap is %g; it may be 1 or more", s.LaunchPriceCap)
	}
	var premium error
	if !(s.ResiliencePremium >= 0 && s.ResiliencePremium <= 1) {
		premium = fmt.Errorf("--resilience-premium is %g; it may be 0 to 1", s.ResiliencePremium)
	}
	_, gateErr := s.Gates()
	_, schedulerErr := translate.DefaultConstraints(s.SchedulerConfig)
	if schedulerErr != nil {
		schedulerErr = fmt.Errorf("--scheduler-config: %w", schedulerErr)
	}
	var durations error
	if s.BatchIdleDuration < 0 || s.BatchMaxDuration < 0 {
		durations = fmt.Errorf("--batch-idle-duration is %s and --batch-max-duration %s; they may be 0s or more", s.BatchIdleDuration, s.BatchMaxDuration)
	}
	return cmp.Or(
		s.validateProviders(), s.validateAWS(s.uses(providerAWS)), s.validateRemote(s.uses(providerRemote)), s.ValidateClusterAPI(s.uses(providerClusterAPI)),
		oneOf("mode", s.Mode, "", ModeActive, ModeObserve),
		oneOf("metrics-level", s.MetricsLevel, "", observe.LevelEssential, observe.LevelDefault, observe.LevelAll),
		oneOf("log-format", s.LogFormat, "", formatJSON, formatConsole),
		oneOf("log-level", s.LogLevel, "", "debug", "info", "error"),
		oneOf("preference-policy", s.PreferencePolicy, "Respect", "Ignore"),
		oneOf("min-values-policy", s.MinValuesPolicy, "Strict", "BestEffort"),
		between("metrics-port", s.MetricsPort, 0, 65535), between("health-probe-port", s.HealthProbePort, 0, 65535), between("debug-port", s.DebugPort, 0, 65535),
		between("kube-client-qps", s.KubeClientQPS, 1, 1e6), between("kube-client-burst", s.KubeClientBurst, 1, 1e6),
		priceCap, premium, durations, gateErr, schedulerErr, s.validateJournal(), s.validateConsolidation(), s.validateAutoscaler(),
	)
}

// journalLeast is the least that makes sense for a journal: one decision about a large
// cluster takes about that much.
const journalLeast = 1 << 20

func (s *Settings) validateJournal() error {
	if n := s.JournalMemoryBytes; n != 0 && n < journalLeast {
		return fmt.Errorf("--journal-memory-bytes is %d; it may be 0 or at least %d", n, journalLeast)
	}
	if n := s.JournalDiskBytes; s.JournalDir != "" && n < journalLeast {
		return fmt.Errorf("--journal-disk-bytes is %d; it may be at least %d", n, journalLeast)
	}
	return nil
}

// Gates returns the feature gates by name.
func (s *Settings) Gates() (map[string]bool, error) {
	return readGates("feature-gates", featureGatesDefault, s.FeatureGates)
}

// readGates reads lists of gates, the later of which count.
func readGates(flag string, lists ...string) (map[string]bool, error) {
	gates := map[string]bool{}
	for _, list := range lists {
		for _, part := range strings.Split(list, ",") {
			name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
			if name == "" && !ok {
				continue
			}
			on, err := strconv.ParseBool(value)
			if !ok || err != nil {
				return nil, fmt.Errorf("--%s has %q; each gate reads Name=true or Name=false", flag, part)
			}
			gates[name] = on
		}
	}
	return gates, nil
}

// adder adds flags whose defaults come from the environment.
type adder struct {
	fs *pflag.FlagSet
	s  *Settings
}

// env returns the environment's value for a flag, as parse reads it, else the default.
func env[T any](a adder, flag string, def T, parse func(string) (T, error)) T {
	name := strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	text, ok := os.LookupEnv(name)
	if !ok || text == "" {
		return def
	}
	v, err := parse(text)
	if err != nil {
		a.s.Warnings = append(a.s.Warnings, fmt.Sprintf("environment variable %s=%q cannot be read; using %v", name, text, def))
		return def
	}
	return v
}

func (a adder) text(p *string, name, def, usage string) {
	a.fs.StringVar(p, name, env(a, name, def, func(s string) (string, error) { return s, nil }), usage)
}

func (a adder) number(p *int, name string, def int, usage string) {
	a.fs.IntVar(p, name, env(a, name, def, strconv.Atoi), usage)
}

func (a adder) factor(p *float64, name string, def float64, usage string) {
	a.fs.Float64Var(p, name, env(a, name, def, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }), usage)
}

func (a adder) bytes(p *int64, name string, def int64, usage string) {
	a.fs.Int64Var(p, name, env(a, name, def, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }), usage)
}

func (a adder) duration(p *time.Duration, name string, def time.Duration, usage string) {
	a.fs.DurationVar(p, name, env(a, name, def, time.ParseDuration), usage)
}

func (a adder) flag(p *bool, name string, def bool, usage string) {
	a.fs.BoolVar(p, name, env(a, name, def, strconv.ParseBool), usage)
}
