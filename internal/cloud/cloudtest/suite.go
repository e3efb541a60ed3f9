package cloudtest

// Test is one test of the suite. Its name says what is true of a provider that passes.
type Test struct {
	Name string
	// Joins: it waits for Nodes, and fails where instances do not join a cluster.
	Joins bool
	Run   func(t T, h Harness)
}

// Tests returns the suite.
func Tests() []Test {
	return []Test{
		{Name: "types are whole and do not contradict their offerings", Run: typesAreWhole},
		{Name: "a change of types is reported", Run: changeReported},
		{Name: "a batch is answered in its order", Run: batchInOrder},
		{Name: "a repeated token gets the first instance", Run: tokenRepeated},
		{Name: "one token launched at once by many gets one instance", Run: tokenAtOnce},
		{Name: "the first offering wins", Run: firstChoiceWins},
		{Name: "the node is what the instance promised", Run: nodeAsPromised, Joins: true},
		{Name: "a missing class is no capacity", Run: classMissing},
		{Name: "a class that is not ready is said to be so", Run: classUnready},
		{Name: "an instance ends once and stays gone", Run: endsOnce, Joins: true},
		{Name: "what does not exist is not found", Run: unknownNotFound},
		{Name: "an orphan is listed with its claim and token", Run: orphanListed, Joins: true},
		{Name: "an instance that has not joined exists and can end", Run: slowInstance},
		{Name: "a provider ID that comes later replaces the provisional one", Run: idLater, Joins: true},
		{Name: "an instance without its provider ID can end", Run: endsUndecided},
		{Name: "a launch that fails later says so until it is terminated", Run: failsLate},
		{Name: "a notice says that an accepted launch has failed", Run: failureNotified},
		{Name: "drift of many instances is that of each", Run: driftOfMany},
		{Name: "an owner knows its instances by their IDs, and no others", Run: ownsByID},
		{Name: "conditions that are notices can be understood", Run: conditionsUnderstood},
		{Name: "a rebooted instance is the same one", Run: rebooted, Joins: true},
		{Name: "what does not exist is not rebooted", Run: rebootUnknown, Joins: true},
	}
}

// parent is a *testing.T, of which this package knows as little as it can.
type parent[C T] interface {
	T
	Parallel()
	Run(name string, test func(t C)) bool
}

// Run runs the suite under a *testing.T. Each test of it gets a harness of its own from newHarness;
// they may be over one cloud.
func Run[C parent[C]](t C, newHarness func(t C) Harness) {
	t.Helper()
	for _, test := range Tests() {
		t.Run(test.Name, func(t C) {
			t.Parallel()
			test.Run(t, newHarness(t))
		})
	}
}
