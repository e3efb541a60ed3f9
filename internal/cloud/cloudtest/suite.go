package cloudtest

import "testing"

// Run runs the suite. Each test of it gets a harness of its own from newHarness; they
// may be over one cloud.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Harness){
		"types are whole and do not contradict their offerings": typesAreWhole,
		"a batch is answered in its order":                      batchInOrder,
		"a repeated token gets the first instance":              tokenRepeated,
		"one token launched at once by many gets one instance":  tokenAtOnce,
		"the first offering wins":                               firstChoiceWins,
		"the node is what the instance promised":                nodeAsPromised,
		"a missing class is no capacity":                        classMissing,
		"a class that is not ready is said to be so":            classUnready,
		"an instance ends once and stays gone":                  endsOnce,
		"what does not exist is not found":                      unknownNotFound,
		"an orphan is listed with its claim and token":          orphanListed,
		"an instance that has not joined exists and can end":    slowInstance,
		"a rebooted instance is the same one":                   rebooted,
		"what does not exist is not rebooted":                   rebootUnknown,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newHarness(t))
		})
	}
}
