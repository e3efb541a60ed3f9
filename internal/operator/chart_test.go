package operator

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheChartsEnvironmentIsUnderstood sets the environment that the chart renders with nothing but a
// cluster's name: each variable can be read, and none has to be named as without effect.
func TestTheChartsEnvironmentIsUnderstood(t *testing.T) {
	text, err := os.ReadFile("../../tools/helm/charttest/testdata/values/objects")
	if err != nil {
		t.Fatal(err)
	}
	_, whole, _ := strings.Cut(string(text), "\nwhole\n----\n")
	whole, _, _ = strings.Cut(whole, "\n\n")
	found := regexp.MustCompile(`- name: ([A-Z_]+)\n +value: (.*)`).FindAllStringSubmatch(whole, -1)
	if len(found) < 15 {
		t.Fatalf("only %d variables in the rendering", len(found))
	}
	for _, variable := range found {
		t.Setenv(variable[1], strings.Trim(variable[2], `"'`))
	}
	s := parsedAsIs(t)
	if err := s.Validate(); err != nil {
		t.Errorf("not valid: %v", err)
	}
	if s.ClusterName != "demo" || s.CloudProvider != providerAWS {
		t.Errorf("the cluster is %q, the provider %q", s.ClusterName, s.CloudProvider)
	}
	for _, w := range append(s.Warnings, s.inert()...) {
		t.Errorf("a warning with the chart's defaults: %s", w)
	}
}
