package operator

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
)

// parsed returns the settings that a command line gives, with the provider kwok if it names none.
func parsed(t *testing.T, words ...string) *Settings {
	t.Helper()
	return parsedAsIs(t, append([]string{"--cloud-provider=kwok"}, words...)...)
}

func parsedAsIs(t *testing.T, words ...string) *Settings {
	t.Helper()
	s := &Settings{}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(fs)
	if err := fs.Parse(words); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDocsNameEverySetting compares docs/reference/settings.md with the flags: names,
// environment variables and defaults, in order.
func TestDocsNameEverySetting(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| `([A-Z_]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(string(doc), -1) {
		got = append(got, fmt.Sprintf("%s %s %q", row[1], row[2], strings.Trim(row[3], "` ")))
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&Settings{}).AddFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		env := strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		want = append(want, fmt.Sprintf("%s %s %q", f.Name, env, f.DefValue))
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference/settings.md (-want +got):\n%s", diff)
	}
}

func TestConsolidationSettingsAreTheCoresTerms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words []string
		want  consolidate.Terms
	}{
		"what is not said is the default": {nil, consolidate.DefaultTerms()},
		"what is said counts": {
			[]string{
				"--consolidation-eviction-hourly-dollars=0.01", "--consolidation-saving-share-min=0.1", "--consolidation-gap-max=0.05",
				"--consolidation-step-max=4", "--consolidation-spot-pools=15", "--consolidation-rest=1h",
			},
			consolidate.Terms{EvictionHourly: 0.01, ShareMin: 0.1, GapMax: 0.05, StepMax: 4, OfferingsMin: 15, Rest: 60 * 60e9},
		},
		"spot to spot is a gate": {
			[]string{"--feature-gates=SpotToSpotConsolidation=true"},
			consolidate.Terms{ShareMin: 0.02, GapMax: 0.02, StepMax: 32, OfferingsMin: 3, Rest: 10 * 60e9, SpotToSpot: true},
		},
		"nothing is less than the default": {
			[]string{"--consolidation-gap-max=0", "--consolidation-rest=0s"},
			consolidate.Terms{ShareMin: 0.02, GapMax: -1, StepMax: 32, OfferingsMin: 3, Rest: -1},
		},
	} {
		s := parsed(t, c.words...)
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, s.terms()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestConsolidationSettingsSayWhatTheyMayBe(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"--consolidation-eviction-hourly-dollars=-1":  "--consolidation-eviction-hourly-dollars is -1; it may be 0 or more",
		"--consolidation-eviction-hourly-dollars=NaN": "--consolidation-eviction-hourly-dollars is NaN; it may be 0 or more",
		"--consolidation-saving-share-min=0":          "--consolidation-saving-share-min is 0; it may be above 0, up to 1",
		"--consolidation-saving-share-min=2":          "--consolidation-saving-share-min is 2; it may be above 0, up to 1",
		"--consolidation-gap-max=-0.1":                "--consolidation-gap-max is -0.1; it may be 0 or more",
		"--consolidation-step-max=0":                  "--consolidation-step-max is 0; it may be 1 or more",
		"--consolidation-spot-pools=0":                "--consolidation-spot-pools is 0; it may be 1 or more",
		"--consolidation-rest=-1s":                    "--consolidation-rest is -1s; it may be 0s or more",
	} {
		if err := parsed(t, word).Validate(); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", word, err, want)
		}
	}
}

func TestAWSSettingsSayWhatTheyMayBe(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"--cluster-name=":                      "--cluster-name is empty; it must be the name of the EKS cluster",
		"--ami-refresh-interval=59s":           "--ami-refresh-interval is 59s; it must be at least 1m",
		"--subnet-refresh-interval=0s":         "--subnet-refresh-interval is 0s; it must be at least 1m",
		"--security-group-refresh-interval=1s": "--security-group-refresh-interval is 1s; it must be at least 1m",
		"--reserved-enis=-1":                   "--reserved-enis is -1; it may be 0 or more",
		"--vm-memory-overhead-percent=1":       "--vm-memory-overhead-percent is 1; it may be 0 or more and less than 1",
	} {
		s := parsed(t, "--cloud-provider=aws", "--cluster-name=demo", word)
		if err := s.Validate(); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", word, err, want)
		}
	}
	if err := parsed(t, "--cloud-provider=aws", "--cluster-name=demo").Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

func TestTheProviderFollowsFromTheSettings(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"":                          "",
		"--cluster-name=prod":       providerAWS,
		"--interruption-queue=prod": providerAWS,
		"--cluster-name=prod --cloud-provider=kwok": providerKWOK,
		"--cloud-provider=aws":                      providerAWS,
	} {
		s := parsedAsIs(t, strings.Fields(words)...)
		err := s.Validate() // a queue without a cluster's name will not do
		if s.CloudProvider != want {
			t.Errorf("%q: %s, want %s", words, s.CloudProvider, want)
		}
		if isAsked := err != nil && strings.HasPrefix(err.Error(), "--cloud-provider (CLOUD_PROVIDER) is not set"); isAsked != (want == "") {
			t.Errorf("%q: %v", words, err)
		}
	}
}

func TestSeveralProviders(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"--cloud-provider=kwok,remote --provider-address=unix:///tmp/p.sock": "",
		"--cloud-provider=aws,kwok --cluster-name=demo --legacy-apis":        "",
		"--cloud-provider=kwok,remote":                                       "--provider-address is empty",
		"--cloud-provider=kwok,aws":                                          "--cluster-name is empty",
		"--cloud-provider=kwok,kwok":                                         `--cloud-provider is "kwok,kwok"; each provider may be there once`,
		"--cloud-provider=kwok,sky":                                          `--cloud-provider is "kwok,sky"; it may be kwok, aws, remote, clusterapi, or several of these with commas between`,
		"--cloud-provider=kwok,":                                             `--cloud-provider is "kwok,"; it may be`,
		"--cloud-provider=kwok,aws --cluster-name=demo --legacy-apis":        "--legacy-apis is set, and --cloud-provider is \"kwok,aws\"; aws must be the first",
		"--cloud-provider=kwok,clusterapi --cluster-api-url=http://a --cluster-api-namespace=clusters": "--cluster-api-url is",
	} {
		err := parsedAsIs(t, strings.Fields(words)...).Validate()
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
	}
	s := parsedAsIs(t, "--cloud-provider=kwok,remote", "--provider-address=unix:///tmp/p.sock")
	if lines := s.inert(); len(lines) > 0 {
		t.Errorf("said to have no effect: %q", lines)
	}
}

func TestWhatHasNoEffectIsSaid(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"": "",
		"--feature-gates=NodeOverlay=false,SpotToSpotConsolidation=true,ReservedCapacity=true,NodeRepair=false": "",
		"--feature-gates=NodeOverlay=true":                                                              "",
		"--feature-gates=StaticCapacity=true":                                                           "",
		"--feature-gates=CapacityBuffer=true":                                                           "",
		"--feature-gates=TerminateFirstDrift=true":                                                      "",
		"--feature-gates=TerminateFirstRepair=true":                                                     "--feature-gates: TerminateFirstRepair=true has no effect",
		"--feature-gates=NodeRepair=true,TerminateFirstRepair=true --legacy-node-repair":                "--feature-gates: TerminateFirstRepair=true has no effect",
		"--legacy-node-repair":                                                                          "--legacy-node-repair=true has no effect",
		"--feature-gates=Teleport=false":                                                                "--feature-gates: Teleport is no gate that Dovetail knows",
		"--aws-feature-gates=RebootForRepair=true":                                                      "--aws-feature-gates: RebootForRepair=true has no effect: the gate NodeRepair is off",
		"--aws-feature-gates=RebootForRepair=true --feature-gates=NodeRepair=true --legacy-node-repair": "--aws-feature-gates: RebootForRepair=true has no effect: legacy-node-repair is on",
		"--aws-feature-gates=RebootForRepair=true --feature-gates=NodeRepair=true":                      "",
		"--aws-feature-gates=DRAEFA=true":                                                               "--aws-feature-gates: DRAEFA=true has no effect: ignore-dra-requests",
		"--aws-feature-gates=NodeClassCEL=true":                                                         "",
		"--feature-gates=NodeRepair=true,TerminateFirstRepair=true":                                     "",
		"--feature-gates=NodeRepair=true --legacy-node-repair":                                          "",
		"--cpu-requests=4000":                                                                           "--cpu-requests=4000 has no effect",
		"--disable-controller-warmup=false":                                                             "--disable-controller-warmup=false has no effect",
		"--log-error-output-paths=/tmp/e":                                                               "",
		"--cluster-name=prod --cloud-provider=kwok":                                                     "--cluster-name and --interruption-queue have no effect",
		"--aws-feature-gates=DRANVIDIAGPU=true":                                                         "--aws-feature-gates: DRANVIDIAGPU=true has no effect: ignore-dra-requests",
		"--aws-feature-gates=DRANVIDIAGPU=true,DRAEFA=true --ignore-dra-requests=false":                 "",
	} {
		s := parsed(t, strings.Fields(words)...)
		if err := s.Validate(); err != nil {
			t.Errorf("%q: %v", words, err)
		}
		got := s.inert()
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%q: said %q, want %q", words, got, want)
		}
	}
}

func TestBatchesMayBeAsKarpenterLetsThem(t *testing.T) {
	t.Parallel()
	for words, ok := range map[string]bool{
		"--batch-max-duration=0s":                          true,
		"--batch-max-duration=500ms":                       true, // less than the idle duration
		"--batch-idle-duration=0s":                         true,
		"--batch-max-duration=0s --batch-idle-duration=0s": true,
		"--batch-max-duration=-1s":                         false,
	} {
		if err := parsed(t, strings.Fields(words)...).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", words, err)
		}
	}
}

func TestBooleanFlagsNeedNoValue(t *testing.T) {
	t.Parallel()
	if s := parsed(t, "--enable-profiling", "--legacy-node-repair"); !s.EnableProfiling || !s.LegacyNodeRepair {
		t.Errorf("%+v", s)
	}
}

func TestRemoteSettingsSayWhatTheyMayBe(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"":                                  "--provider-address is empty; it may be unix:///path/to/socket or dns:///host:port",
		"--provider-address=unix:///p.sock": "",
		"--provider-address=/p.sock":        "it may be unix:///path/to/socket or dns:///host:port",
		"--provider-address=dns:///provider:7400":                                              "needs TLS",
		"--provider-address=dns:///provider:7400 --provider-plaintext":                         "may only go to this computer",
		"--provider-address=dns:///127.0.0.1:7400 --provider-plaintext":                        "",
		"--provider-address=dns:///[::1]:7400 --provider-plaintext":                            "",
		"--provider-address=dns:///127.0.0.1:7400":                                             "needs TLS",
		"--provider-address=unix:///p.sock --provider-ca=ca.crt":                               "of no use with a unix socket",
		"--provider-address=dns:///p:1 --provider-ca=/none --provider-cert=c --provider-key=k": "read the CA",
		"--provider-address=dns:///127.0.0.1:1 --provider-plaintext --provider-ca=ca.crt":      "of no use without TLS",
	} {
		err := parsedAsIs(t, append([]string{"--cloud-provider=remote"}, strings.Fields(words)...)...).Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", words, err, want)
		}
	}
}
